// The page: pointer, keys and switches in, scores out. loop.js simulates and decodes, pictures.js draws.
"use strict";

const KEY_SPEED_MM_S = 300, TICK_MS = 50, SCORE_AFTER_S = 5;
const NAMES = { possm: "POSSM", wiener: "Wiener" }, WHO = { possm: "the network", wiener: "the linear filter" };
const DRAWN_BY = { possm: "a network draws the orange path", wiener: "a linear filter draws the blue path" };
const AHEAD_NOTES = [
  "A bin must end before it is read, so what you see is up to 60 ms behind the hand.",
  "Ready just in time: spikes lead the hand, and the path moves with it.",
  "Ready early, but few neurons lead the hand by as much: less is known.",
];

const loop = new Loop(unpack(WEIGHTS));
const edge = loop.w.workspaceMm, arena = find("#arena");
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
readTheme();
addEventListener("theme", () => {
  readTheme();
  pictures.frame(loop.timeS);
});
const pictures = new Pictures(loop);
const inside = new Inside(find("#inside"), loop, (u) => pictures.colors[u], (u) => pictures.row[u]);

// ---- the pointer: a demonstration until the visitor moves; samples of the last moments, with their times
let demonstrating = false, samples = [[-Infinity, 0, 0]];
const keys = new Set();

/** Circles, a scribble, quick reaches and a rest, twelve seconds long. */
function demonstration(timeS) {
  const t = timeS % 12, turn = 2 * Math.PI * t, lissajous = 62 * Math.sin(0.86 * 14 * Math.PI);
  if (t < 3) return [62 * Math.sin(turn / 1.5), 62 * Math.cos(turn / 1.5) - 22].map((at) => at * Math.min(1, t));
  if (t < 7) {
    const share = Math.min(1, (t - 3) / 0.6), from = [0, 40];
    const to = [70 * Math.sin(0.57 * turn) * Math.sin((Math.PI * (t - 3)) / 4), 62 * Math.sin(0.86 * turn)];
    return from.map((at, axis) => at + share * share * (3 - 2 * share) * (to[axis] - at));
  }
  const corners = [[0, lissajous], [60, 60], [-60, -20], [50, -60], [0, 0], [0, 0]];
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

/** The visitor moves. */
function takeOver() {
  setDemonstrating(false);
  if (paused && still) setPaused(false);
}

function point(ms, x, y) {
  takeOver();
  samples.push([ms, Math.min(Math.max(x, -edge), edge), Math.min(Math.max(y, -edge), edge)]);
}

function pointed(event) {
  const box = arena.getBoundingClientRect(), scale = (2 * edge) / box.width;
  point(event.timeStamp, (event.clientX - box.left) * scale - edge, edge - (event.clientY - box.top) * scale);
}
arena.addEventListener("pointermove", pointed);
arena.addEventListener("pointerdown", pointed);
arena.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !event.key.startsWith("Arrow")) return;
  event.preventDefault();
  takeOver();
  keys.add(event.key);
});
arena.addEventListener("keyup", (event) => keys.delete(event.key));
arena.addEventListener("blur", () => keys.clear());
addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() === "r" && !event.ctrlKey && !event.metaKey && !event.altKey) loop.fromHand();
});

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
  find("#invitation").hidden = !on;
  find("#whose").textContent = on ? "demonstration’s" : "your";
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
  pictures.spikes(spikes);
  inside.update();
  experiments.update();
  guide.update(spikes);
  if (loop.nBins % 10 === 0) report();
}

function setPaused(on) {
  paused = on;
  find("#pause").setAttribute("aria-pressed", on);
  clearTimeout(timer);
  cancelAnimationFrame(frame);  // a hidden page keeps its last request: with another one it would draw twice
  if (on) return;
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
const lossOrder = pictures.order.map((_, i) => pictures.order[(i * 47) % loop.units.n]);  // every direction loses alike

function setLost(n) {
  lossOrder.forEach((u, i) => {
    loop.units.silent[u] = i < n;
  });
  showLost();
}

function showLost() {
  const n = loop.units.silent.reduce((a, b) => a + b, 0);
  find("#lost").value = n;
  find("label[for=lost] output").value = `${n} of ${loop.units.n}`;
  find("#silence").setAttribute("aria-pressed", n === loop.units.n);
  experiments.restart();
}

function setNoise(hz) {
  loop.units.noiseHz = hz;
  find("#noise").value = hz;
  find("label[for=noise] output").value = `${hz} Hz`;
  experiments.restart();
}

/** The switches below "More" take effect. */
function choose() {
  const drawn = find("[name=drawn]:checked").value;
  loop.decoder = find("[name=decoder]:checked").value;
  loop.ahead = Number(find("[name=ahead]:checked").value);
  loop.pulled = drawn === "cursor" && find("#pull").checked;
  loop.anewS = drawn === "paths" ? PATH_S : Infinity;
  document.body.classList.toggle("wiener", loop.decoder === "wiener");
  document.body.classList.toggle("own-way", drawn === "cursor");
  find("#captions span").textContent = DRAWN_BY[loop.decoder];
  readTheme();
  find("#ahead").textContent = AHEAD_NOTES[loop.ahead];
  loop.stepMs = [];
  for (const name of Object.keys(NAMES)) find(`#${name}`).className = name === loop.decoder ? "chosen" : "";
  report();
  experiments.restart();
}

function check(name, value) {
  find(`[name=${name}][value="${value}"]`).checked = true;
  choose();
}
find("#lost").addEventListener("input", (event) => setLost(event.target.valueAsNumber));
find("#noise").addEventListener("input", (event) => setNoise(event.target.valueAsNumber));
find("#silence").addEventListener("click", () => setLost(loop.units.silent.every((x) => x) ? 0 : loop.units.n));
for (const box of document.querySelectorAll("#more [type=radio], #pull")) box.addEventListener("change", choose);
find("#home").addEventListener("click", () => loop.fromHand());
find("#pause").addEventListener("click", () => setPaused(!paused));
find("#demo").addEventListener("click", () => {
  setDemonstrating(!demonstrating);
  if (demonstrating && paused) setPaused(false);
});

// ---- a row of the raster: its tuning where it is pointed at; lost, or back, by a click
const raster = find("#raster"), touched = matchMedia("(hover: none)").matches;

function chooseRow(i) {
  pictures.chosen = i;
  if (i < 0) return;
  const u = pictures.shown[i], [Click, click] = touched ? ["Tap", "tap"] : ["Click", "click"];
  find("#unit").textContent = `Neuron ${u + 1} fires most for movements ${pictures.directionName(u)} `
    + `(the curve in the raster). ${loop.units.silent[u] ? `It is silent: ${click} to bring it back.` : `${Click} to silence it.`}`;
}

function toggleRow() {
  if (pictures.chosen < 0) return;
  const u = pictures.shown[pictures.chosen];
  loop.units.silent[u] = !loop.units.silent[u];
  showLost();
  chooseRow(pictures.chosen);
}

function chooseAt(event) {
  const box = raster.getBoundingClientRect(), share = (event.clientY - box.top) / box.height;
  chooseRow(Math.min(Math.max(Math.floor(share * pictures.shown.length), 0), pictures.shown.length - 1));
}
raster.addEventListener("pointermove", chooseAt);
raster.addEventListener("pointerleave", () => chooseRow(-1));
raster.addEventListener("click", (event) => {
  chooseAt(event);  // a finger has left by now
  toggleRow();
});
raster.addEventListener("keydown", (event) => {
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (by) chooseRow((pictures.chosen + by + pictures.shown.length) % pictures.shown.length);
  else if (event.key === "Enter") toggleRow();
  if (by || event.key === "Enter") event.preventDefault();
});

// ---- scores
const inPercent = (r2) => (isNaN(r2) ? "–" : `${Math.round(100 * r2)} %`);

function report() {
  const r = {};
  for (const name of Object.keys(NAMES)) {
    const score = loop.score(name), cells = find(`#${name}`).cells;
    r[name] = score.r2;
    [score.r2, score.displayed].forEach((value, i) => {
      cells[i + 1].textContent = inPercent(value);
    });
  }
  if (loop.timeS >= SCORE_AFTER_S) find("#score").textContent = inWords(r[loop.decoder]);
  const sorted = [...loop.stepMs].sort((a, b) => a - b), median = sorted[sorted.length >> 1];
  find("#timing").textContent = `${loop.nBins} bins of 50 ms, ${late} late` +
    (sorted.length ? `; a step takes ${median.toFixed(1)} ms (median).` : ".");
}

function inWords(r2) {
  if (isNaN(r2)) return "Move, to get a score.";
  const says = r2 > 0 ? `explains ${inPercent(r2)} of the velocity` : "is worse than guessing “no movement”";
  return `In the last seconds, ${WHO[loop.decoder]} ${says}.`;
}

function draw() {
  // between the end of a bin and its step, time waits: at most a few ms
  pictures.frame(Math.min((performance.now() - begin) / 1000, loop.timeS + loop.w.binS));
  experiments.keep();
  if (!performance.getEntriesByName("first frame").length) performance.mark("first frame");
  if (!paused) frame = requestAnimationFrame(draw);
}
