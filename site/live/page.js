// The page: pointer, keys and switches in, pictures and scores out. What is simulated and decoded is in loop.js.
"use strict";

const find = (selector) => document.querySelector(selector);
const INK = "#333333", HAND = "#8c8c8c", TARGET = "#009e73", GRID = "#e5e5e5";
const COLORS = { possm: "#d55e00", wiener: "#0072b2" };
const SHOWN_S = 4, GUTTER = 18, TAIL_S = 0.6, KEY_SPEED_MM_S = 300, TICK_MS = 50;
const NAMES = { possm: "POSSM", wiener: "Wiener" };
const AHEAD_NOTES = [
  "A bin must end before it is read, so the cursor is up to 60 ms behind the hand.",
  "Ready just in time: spikes lead the hand, and the cursor moves with it.",
  "Ready early, but few units lead the hand by as much: less is known.",
];

const loop = new Loop(unpack(WEIGHTS));
const edge = loop.w.workspaceMm;
const arena = find("#arena"), raster = find("#raster"), traces = find("#traces");
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;

// ---- the pointer: a demonstration until the visitor moves; samples of the last moments, with their times
let demonstrating = false, samples = [[-Infinity, 0, 0]];
const keys = new Set();
let game = null;

/** Scribbles, quick reaches and a rest, twelve seconds long. */
function demonstration(timeS) {
  const t = timeS % 12, turn = 2 * Math.PI * t;
  if (t < 7) return [70 * Math.sin(0.57 * turn) * Math.sin(Math.PI * t / 7), 62 * Math.sin(0.86 * turn)];
  const corners = [[0, 62 * Math.sin(0.86 * 14 * Math.PI)], [60, 60], [-60, -20], [50, -60], [0, 0], [0, 0]];
  const reach = (t - 7) / 0.9, i = Math.min(Math.floor(reach), 4), u = Math.min(1, (reach - i) * 2.2);
  const share = u ** 3 * (10 - 15 * u + 6 * u * u);
  return [0, 1].map((axis) => corners[i][axis] + share * (corners[i + 1][axis] - corners[i][axis]));
}

/** Where the pointer was: the newest sample before that time, of the clock of events. */
function pointerAt(ms) {
  let i = samples.length - 1;
  while (i > 0 && samples[i][0] > ms) i--;
  return [samples[i][1], samples[i][2]];
}

function point(ms, x, y) {
  setDemonstrating(false);
  if (paused && still) setPaused(false);
  samples.push([ms, Math.min(Math.max(x, -edge), edge), Math.min(Math.max(y, -edge), edge)]);
}

function pointed(event) {
  const box = arena.getBoundingClientRect(), scale = (2 * edge) / box.width;
  point(event.timeStamp, (event.clientX - box.left) * scale - edge, edge - (event.clientY - box.top) * scale);
}
arena.addEventListener("pointermove", pointed);
arena.addEventListener("pointerdown", pointed);
arena.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.startsWith("Arrow")) {
    event.preventDefault();
    setDemonstrating(false);
    if (paused && still) setPaused(false);
    keys.add(event.key);
  } else if (event.key.toLowerCase() === "r") home();
});
arena.addEventListener("keyup", (event) => keys.delete(event.key));
arena.addEventListener("blur", () => keys.clear());

/** The arrow keys that are down move the pointer, by what one bin is long. */
function moveByKeys(fromMs) {
  if (!keys.size) return;
  const dx = keys.has("ArrowRight") - keys.has("ArrowLeft"), dy = keys.has("ArrowUp") - keys.has("ArrowDown");
  let [x, y] = pointerAt(Infinity);
  for (let ms = 1; ms <= TICK_MS; ms++) {
    x += dx * KEY_SPEED_MM_S * MS;
    y += dy * KEY_SPEED_MM_S * MS;
    point(fromMs + ms, x, y);
  }
}

function setDemonstrating(on) {
  if (demonstrating && !on) samples = [[-Infinity, ...demonstration(loop.timeS)]];
  demonstrating = on;
  find("#demo").setAttribute("aria-pressed", on);
}

// ---- the clock: a bin is due every 50 ms; after a pause, or in a hidden tab, the clock starts again
let paused = true, begin = 0, timer = 0, frame = 0, late = 0;

function tick() {
  const now = performance.now();
  if (now - dueMs() > 1000) {  // the computer was asleep
    late += Math.floor((now - dueMs()) / TICK_MS);
    begin += now - dueMs();
  }
  while (!paused && dueMs() <= now) {
    late += now - dueMs() > TICK_MS;
    bin();
  }
  timer = setTimeout(tick, Math.max(0, dueMs() - performance.now()));
}

/** When the bin that is recorded is over, on the clock of events. */
const dueMs = () => begin + 1000 * (loop.timeS + loop.w.binS);

function bin() {
  const from = dueMs() - TICK_MS;
  moveByKeys(from);
  const spikes = loop.step(demonstrating ? demonstration : (timeS) => pointerAt(begin + 1000 * timeS));
  while (samples.length > 1 && samples[1][0] < from) samples.shift();
  drawSpikes(spikes);
  inside.update();
  for (const at of loop.cursor.slice(1)) game?.update(at);
  if (game) follow();
  if (loop.nBins % 10 === 0) report();
}

function setPaused(on) {
  paused = on;
  find("#pause").setAttribute("aria-pressed", on);
  clearTimeout(timer);
  cancelAnimationFrame(frame);  // a hidden page keeps its last request: with another one it would draw twice
  if (on) return;
  find("#invitation").hidden = true;
  begin = performance.now() - 1000 * loop.timeS;
  tick();
  frame = requestAnimationFrame(draw);
}

let pausedByHiding = false;
document.addEventListener("visibilitychange", () => {
  if (document.hidden === paused || (!document.hidden && !pausedByHiding)) return;
  pausedByHiding = document.hidden;
  setPaused(document.hidden);
});

// ---- switches
const directions = loop.units.preferred_direction_rad;
const order = [...directions.keys()].sort((a, b) => directions[a] - directions[b]);
const row = new Uint8Array(loop.units.n);  // of each unit in the raster
order.forEach((u, i) => { row[u] = i; });
const lossOrder = order.map((_, i) => order[(i * 47) % order.length]);  // every direction loses units alike

function setLost(n) {
  lossOrder.forEach((u, i) => { loop.units.silent[u] = i < n; });
  find("label[for=lost] output").value = `${n} of ${loop.units.n}`;
  find("#silence").setAttribute("aria-pressed", n === loop.units.n);
  restart();
}
find("#lost").addEventListener("input", (event) => setLost(event.target.valueAsNumber));
find("#silence").addEventListener("click", () => {
  const all = find("#silence").getAttribute("aria-pressed") === "false";
  find("#lost").value = all ? loop.units.n : 0;
  setLost(find("#lost").valueAsNumber);
});
function setNoise(hz) {
  loop.units.noiseHz = hz;
  find("label[for=noise] output").value = `${hz} Hz`;
  restart();
}
find("#noise").addEventListener("input", (event) => setNoise(event.target.valueAsNumber));
function choose() {
  loop.decoder = find("[name=decoder]:checked").value;
  loop.ahead = Number(find("[name=ahead]:checked").value);
  document.body.className = loop.decoder;
  find("#ahead").textContent = AHEAD_NOTES[loop.ahead];
  loop.pulled = find("#pull").checked;
  loop.stepMs = [];
  for (const name of Object.keys(NAMES)) find(`#${name}`).className = name === loop.decoder ? "chosen" : "";
  report();
  restart();
}
for (const box of document.querySelectorAll("[type=radio], #pull")) box.addEventListener("change", choose);
const home = () => { loop.cursor = loop.cursor.map(() => Array.from(loop.handAt(loop.timeS).slice(0, 2))); };
find("#home").addEventListener("click", home);
find("#pause").addEventListener("click", () => setPaused(!paused));
find("#demo").addEventListener("click", () => {
  setDemonstrating(!demonstrating);
  if (demonstrating && paused) setPaused(false);
});

// ---- the game
function setGame(on) {
  game = on ? new Game() : null;
  find("#game").textContent = on ? "End the game" : "Play: eight targets";
  find(".target").hidden = !on;
}
find("#game").addEventListener("click", () => {
  setGame(!game);
  find("#message").textContent = game ? "Bring the decoded cursor into the ring and keep it there." : "";
  if (!game) return;
  setDemonstrating(false);
  if (paused) setPaused(false);
  arena.focus({ preventScroll: true });
});

/** A game is one of one setting. */
function restart() {
  if (!game) return;
  game = new Game();
  find("#message").textContent = "Switched: the game starts again.";
}

function follow() {
  const n = game.times.length, last = game.times.at(-1);
  if (n) find("#message").textContent = `Target ${n}: ` + (last === null ? "time is up" : `${last.toFixed(1)} s`);
  if (game.target) return;
  const reached = game.times.filter((time) => time !== null);
  // a target that was not reached counts with the time that it was shown
  const times = game.times.map((time) => time ?? game.timeoutS).sort((a, b) => a - b), median = (times[3] + times[4]) / 2;
  const ahead = ["now", "+50 ms", "+100 ms"][loop.ahead], lost = loop.units.silent.reduce((a, b) => a + b);
  const cells = [NAMES[loop.decoder], ahead, lost, `${loop.units.noiseHz} Hz`, loop.pulled ? "yes" : "no",
    `${reached.length} of 8`, `${median.toFixed(1)} s`];
  find("#results tbody").insertRow(0).append(...cells.map((text) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  }));
  find("#results").hidden = false;
  find("#message").textContent = `${reached.length} of 8 targets, median time ${median.toFixed(1)} s (5 s for one that was missed).`;
  setGame(false);
}

// ---- scores
function report() {
  for (const name of Object.keys(NAMES)) {
    const score = loop.score(name), cells = find(`#${name}`).cells;
    [score.r2, score.displayed].forEach((r, i) => { cells[i + 1].textContent = isNaN(r) ? "–" : r.toFixed(2); });
  }
  const sorted = [...loop.stepMs].sort((a, b) => a - b), median = sorted[sorted.length >> 1];
  find("#timing").textContent = `${loop.nBins} bins of 50 ms, ${late} late` +
    (sorted.length ? `; a step takes ${median.toFixed(1)} ms (median)` : "");
}

// ---- pictures
/** A canvas's context in CSS pixels, with its size; cleared. */
function fresh(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas, ratio = devicePixelRatio;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

function disc(pen, x, y, radius, fill, stroke, lineWidth = 2) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  if (fill) { pen.fillStyle = fill; pen.fill(); }
  if (stroke) { pen.strokeStyle = stroke; pen.lineWidth = lineWidth; pen.stroke(); }
}

const tail = [];  // cursor of the last frames: time, x, y

function drawArena(timeS) {
  const { pen, width } = fresh(arena.firstElementChild), scale = width / (2 * edge);
  const px = ([x, y]) => [(x + edge) * scale, (edge - y) * scale];
  const color = COLORS[loop.decoder], into = Math.min(Math.max((timeS - loop.timeS) / GRID_S, 0), loop.perBin - 1e-6);
  const [a, b] = [loop.cursor[Math.floor(into)], loop.cursor[Math.floor(into) + 1]], share = into % 1;
  const cursor = a.map((at, axis) => at + share * (b[axis] - at));
  if (game?.target) {
    const [x, y] = px(game.target);
    disc(pen, x, y, game.radiusMm * scale, game.heldS > 0 ? "#d5efe6" : null, TARGET, 4);
  }
  tail.push([timeS, ...cursor]);
  while (tail[0][0] < timeS - TAIL_S || tail[0][0] > timeS) tail.shift();
  pen.lineWidth = 3;
  pen.strokeStyle = color;
  for (let i = 1; i < tail.length; i++) {
    pen.globalAlpha = i / tail.length / 2;
    pen.beginPath();
    pen.moveTo(...px(tail[i - 1].slice(1)));
    pen.lineTo(...px(tail[i].slice(1)));
    pen.stroke();
  }
  pen.globalAlpha = 1;
  disc(pen, ...px(loop.handAt(timeS)), 11, null, HAND, 4);
  disc(pen, ...px(cursor), 8, color, "#ffffff", 1.5);
}

// Spikes are drawn once, on a strip that is used in turn; each frame shows it with its newest end at the right.
const strip = document.createElement("canvas");
strip.width = 800;
strip.height = 3 * loop.units.n;

function drawSpikes({ units, offsets }) {
  const pen = strip.getContext("2d"), perS = strip.width / SHOWN_S;
  const start = ((loop.nBins - 1) % Math.round(SHOWN_S / loop.w.binS)) * loop.w.binS * perS;
  pen.fillStyle = "#ffffff";
  pen.fillRect(start, 0, loop.w.binS * perS, strip.height);
  pen.fillStyle = "#eeeeee";
  loop.units.silent.forEach((silent, u) => { if (silent) pen.fillRect(start, 3 * row[u], loop.w.binS * perS, 3); });
  pen.fillStyle = INK;
  units.forEach((unit, i) => pen.fillRect(start + offsets[i] * perS, 3 * row[unit - 1], 1.5, 3));
}

function drawRaster(timeS) {
  const { pen, width, height } = fresh(raster), cut = (timeS % SHOWN_S) / SHOWN_S, left = cut * strip.width;
  const drawn = width - GUTTER, seam = GUTTER + (1 - cut) * drawn;
  pen.drawImage(strip, left, 0, strip.width - left, strip.height, GUTTER, 0, seam - GUTTER, height);
  if (left >= 1) pen.drawImage(strip, 0, 0, left, strip.height, seam, 0, width - seam, height);
  // the bin that is recorded is not read yet: its place on the strip still has spikes of four seconds ago
  const recorded = ((timeS - loop.timeS) / SHOWN_S) * drawn;
  pen.clearRect(width - recorded, 0, recorded, height);
}

function drawTraces(timeS) {
  const { pen, width, height } = fresh(traces), middle = height / 2, top = 800;  // mm/s
  const x = (t) => width + ((t - timeS) / SHOWN_S) * (width - GUTTER), last = loop.nBins * loop.perBin;
  for (const axis of [0, 1]) {
    const y = (v) => middle * (axis + 0.5) - (Math.max(-top, Math.min(top, v)) / top) * (middle / 2 - 2);
    pen.strokeStyle = GRID;
    pen.lineWidth = 1;
    pen.strokeRect(GUTTER, y(0), width - GUTTER, 0);
    const first = Math.max(0, Math.ceil((timeS - SHOWN_S) / GRID_S));
    line(pen, HAND, 4, first, Math.floor(timeS / GRID_S), (i) => [x(i * GRID_S), y(loop.handAt(i * GRID_S)[2 + axis])]);
    line(pen, COLORS[loop.decoder], 1.8, first, Math.min(last + loop.lead, Math.floor(timeS / GRID_S)), (i) => [
      x(i * GRID_S), y(loop.output(loop.decoder, i - loop.lead)[axis])]);
    pen.fillStyle = INK;
    pen.font = "15px system-ui, sans-serif";
    pen.fillText("xy"[axis], 2, y(0) + 5);
  }
}

function line(pen, color, lineWidth, first, last, at) {
  pen.beginPath();
  for (let i = first; i < last; i++) pen.lineTo(...at(i));
  pen.strokeStyle = color;
  pen.lineWidth = lineWidth;
  pen.stroke();
}

function draw() {
  // between the end of a bin and its step, time waits: at most a few ms
  const timeS = Math.min((performance.now() - begin) / 1000, loop.timeS + loop.w.binS);
  drawArena(timeS);
  drawRaster(timeS);
  drawTraces(timeS);
  if (!performance.getEntriesByName("first frame").length) performance.mark("first frame");
  if (!paused) frame = requestAnimationFrame(draw);
}

// by the direction in which a unit fires most, around a circle of even lightness
const unitColor = (u) => `oklch(0.64 0.16 ${(directions[u] * 180) / Math.PI})`;
const inside = new Inside(find("#inside"), loop, unitColor, (u) => row[u]);
setLost(0);
setNoise(0);
find("#delay").textContent = (loop.w.handDelayS + 2 * loop.w.armS).toFixed(2);  // the arm's own delay on a steady movement
choose();
if (still) {
  find("#invitation").hidden = false;
  begin = performance.now();
  draw();
} else {
  setDemonstrating(true);
  setPaused(false);
}
