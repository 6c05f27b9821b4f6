// The machine of chapter 12 with the numbers of the bin that was decoded last, from one spike to the velocity.
"use strict";

const CHAPTER = "12_spike_decoder.html", SVG = "http://www.w3.org/2000/svg", COLUMN = "(max-width: 1080px)";
const HOW = { in: "#how-does-a-network-take-in-spikes", read: "#how-does-one-query-read-one-bin",
  feedForward: "#what-is-the-feed-forward-layer-for", bins: "#how-are-the-bins-put-together",
  ask: "#how-do-you-ask-for-a-moment" };
const PARTS = [  // name, title, what the picture is for, formulas of the chapter and their sections
  ["bin", "A bin of spikes", "What comes in? The spikes of 50 ms, a dot for each. A larger dot counts more.", [["12.1", HOW.in]]],
  ["token", "Its token", "Who fired? The network has learned 64 numbers for each neuron.", [["12.1", HOW.in]]],
  ["score", "Score and weight", "How much does this spike count? Its weight is the marked bar among those of all spikes.",
    [["12.2", HOW.read], ["12.4", HOW.read]]],
  ["latent", "The bin, read", "What do the spikes say together? Every spike has added to these 64 numbers, by its weight.",
    [["12.4", HOW.read], ["12.5", HOW.feedForward]]],
  ["state", "The memory", "What is kept of earlier bins? The memory before this bin is above, after it below.",
    [["12.6", HOW.bins]]],
  ["recent", "Three memories", "Which bins answer? The answer is read from the last three memories, by these shares.", [["12.7", HOW.ask]]],
  ["velocity", "The velocity", "Where does the hand go? The network's answer is in its colour, the hand in grey.", []],
];
const GAP = 30;  // above a picture, in CSS pixels, where pictures are in a column
const LINKS = PARTS.slice(1).map(([name], i) => [PARTS[i][0], name]);
const GRID_COLUMNS = { token: 8, latent: 8, state: 16 };
const DIVERGING = {
  light: [[0, 90, 156], [255, 255, 255], [204, 84, 0]], dark: [[86, 180, 233], [32, 34, 38], [255, 140, 50]],
};

class Inside {
  /** `loop` is the running Loop; colorOf(unit) a CSS colour and rowOf(unit) a place from 0, for units from 0. */
  constructor(root, loop, colorOf, rowOf) {
    Object.assign(this, { root, loop, colorOf, rowOf, held: false, query: 2, chosen: 0, met: -1 });
    this.stream = loop.decoders.possm;
    this.largest = { token: 0, latent: 0 };  // of each grid, so that colours mean the same from bin to bin
    root.querySelector("ol").innerHTML = PARTS.map(([name, title, purpose, formulas]) => `<li data-part="${name}">
      <h3><button aria-expanded="false">${title}</button></h3><p class="purpose">${purpose}</p><canvas role="img"></canvas>
      <div class="opened" hidden><p class="numbers"></p>${formulas.length ? `<p>${formulas.map(([number, section]) =>
        `<a href="${CHAPTER}${section}">(${number})</a>`).join(" ")}</p>` : ""}</div></li>`).join("");
    for (const item of root.querySelectorAll(".machine li")) {
      item.querySelector("button").addEventListener("click", () => this.open(item));
      if (item.dataset.part !== "bin") item.querySelector("canvas").addEventListener("click", () => this.open(item));
    }
    this.lines = this.find("svg");
    for (const link of LINKS) {
      this.lines.append(...["path", "text"].map((tag) => document.createElementNS(SVG, tag)));
      this.lines.lastChild.append(...[0, 1].map(() => document.createElementNS(SVG, "tspan")));
    }
    this.canvas = Object.fromEntries(PARTS.map(([name]) => [name, root.querySelector(`[data-part=${name}] canvas`)]));
    this.find("#hold").addEventListener("click", () => this.hold(!this.held));
    this.find("#next").addEventListener("click", () => this.take(true));
    this.find("#query").addEventListener("input", (event) => {
      this.query = event.target.valueAsNumber;
      this.draw();
    });
    const bin = this.canvas.bin;
    bin.tabIndex = 0;
    bin.setAttribute("role", "application");
    bin.addEventListener("click", (event) => this.choose(this.nearest(event)));
    bin.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (!by || !this.trace) return;
      event.preventDefault();
      const inTime = [...this.trace.units.keys()].sort((a, b) => this.trace.offsets[a] - this.trace.offsets[b]);
      this.choose(inTime.at((inTime.indexOf(this.chosen) + by) % inTime.length));
    });
    for (const happens of ["resize", "theme"]) addEventListener(happens, () => this.draw());
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  /** Once a bin: shows four of the twenty bins a second, unless it is held. */
  update() {
    if (!this.held && this.loop.nBins % 5 === 0) this.take();
  }

  take(hold = this.held) {
    const { trace } = this.stream;
    if (!trace) return;
    const end = this.loop.nBins * this.loop.perBin;
    this.hands = this.loop.w.queriesS.map((_, q) => {
      return Array.from(this.loop.handAt((end - this.loop.perBin + q + this.loop.lead) * GRID_S).slice(2));
    });
    Object.assign(this, { trace, ahead: this.loop.ahead, number: this.loop.nBins });
    const met = trace.units.indexOf(this.met + 1);  // the neuron of the guide, if it fired
    this.chosen = met >= 0 ? met : trace.weights.indexOf(Math.max(...trace.weights));
    this.hold(hold);
  }

  hold(on) {
    this.held = on;
    this.find("#hold").setAttribute("aria-pressed", on);
    this.find("#hold").textContent = on ? "Go on" : "Hold this bin";
    this.draw();
  }

  open(item) {
    const button = item.querySelector("button"), isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", !isOpen);
    item.querySelector(".opened").hidden = isOpen;
    this.draw();
  }

  choose(i) {
    if (!(i >= 0)) return;
    this.chosen = i;
    this.hold(true);
  }

  /** The spike at which somebody clicked. */
  nearest(event) {
    if (!this.trace) return -1;
    const box = this.canvas.bin.getBoundingClientRect();
    const distance = (i) => Math.hypot(
      this.x(i, box.width) - (event.clientX - box.left), this.y(i, box.height) - (event.clientY - box.top));
    const all = [...this.trace.units.keys()];
    return all.reduce((best, i) => (best < 0 || distance(i) < distance(best) ? i : best), -1);
  }

  x(i, width) {
    return 8 + (this.trace.offsets[i] / this.loop.w.binS) * (width - 16);
  }

  y(i, height) {
    return 8 + (this.rowOf(this.trace.units[i] - 1) / this.loop.units.n) * (height - 16);
  }

  draw() {
    if (!this.trace || !this.root.clientWidth) return;
    const style = getComputedStyle(this.root), color = (name) => style.getPropertyValue(name).trim();
    this.theme = { ramp: rampOf(DIVERGING[document.documentElement.dataset.theme]), ink: color("--ink"), soft: color("--soft"),
      line: color("--line"), hand: color("--hand"), decoded: color("--decoded") };
    this.down = matchMedia(COLUMN).matches;
    this.ends = {};  // of the lines, in CSS pixels of their picture: where the one ends that comes, and the next begins
    for (const [name] of PARTS) this[name](this.canvas[name]);
    this.drawLines();
    this.find("#query").value = this.query;
    this.find("#query + output").value = `${10 * this.query} ms into the bin`;
  }

  say(name, text) {
    this.find(`[data-part=${name}] .numbers`).textContent = text;
    this.canvas[name].setAttribute("aria-label", text);
  }

  /** Which number goes where: a line from picture to picture; in the gap between them stands what it carries. */
  drawLines() {
    const unit = this.trace.units[this.chosen], weight = this.trace.weights[this.chosen];
    const carried = [unit ? ["neuron", unit] : ["the", "blank"], ["64", "numbers"], ["weight", weight?.toFixed(2) ?? ""],
      ["64", "numbers"], ["128", "numbers"], ["64", "numbers"]];
    const origin = this.lines.getBoundingClientRect();
    LINKS.forEach(([from, to], i) => {
      const [a, b] = [from, to].map((name) => this.canvas[name].getBoundingClientRect());
      const at = (box, [x, y]) => [box.left - origin.left + x, box.top - origin.top + y];
      const [path, text] = [this.lines.children[2 * i], this.lines.children[2 * i + 1]];
      const gap = this.down ? [b.top - GAP - origin.top, b.top - 4 - origin.top]
        : [a.right + 4 - origin.left, b.left - 4 - origin.left];
      this.drawLine(path, text, at(a, this.ends[from].next), at(b, this.ends[to].last), gap, carried[i]);
      path.style.stroke = i < 3 && unit ? this.colorOf(unit - 1) : this.theme.soft;
    });
  }

  /** A line that is straight in both pictures and bends in the gap; two words beside it. */
  drawLine(path, text, [ax, ay], [bx, by], [start, end], words) {
    const half = (start + end) / 2, [first, second] = text.children;
    path.setAttribute("d", this.down ? `M${ax},${ay} V${start} C${ax},${half} ${bx},${half} ${bx},${end} V${by}`
      : `M${ax},${ay} H${start} C${half},${ay} ${half},${by} ${end},${by} H${bx}`);
    text.setAttribute("text-anchor", this.down ? "start" : "middle");
    const [x, y] = this.down ? [Math.max(ax, bx) + 10, half + 5] : [half, (ay + by) / 2 - 22];
    first.textContent = this.down ? words.join(" ") : words[0];
    second.textContent = this.down ? "" : words[1];
    [first, second].forEach((part, row) => {
      part.setAttribute("x", x);
      part.setAttribute("y", y + 16 * row);
    });
  }

  /** A cleared canvas's context, with its size in CSS pixels. */
  pen(canvas) {
    return fresh(canvas);
  }

  // ---- the parts, in order
  bin(canvas) {
    const { pen, width, height } = this.pen(canvas), { units, offsets, weights } = this.trace;
    const most = Math.max(...weights, 1e-9);
    units.forEach((unit, i) => {
      disc(pen, this.x(i, width), this.y(i, height), 1.5 + 4 * weights[i] / most, this.colorOf(unit - 1));
    });
    this.ends.bin = { next: [width / 2, height / 2] };
    if (!units.length) return this.say("bin", "No spike in this bin: a blank token stands in for them.");
    const [x, y] = [this.x(this.chosen, width), this.y(this.chosen, height)];
    this.ends.bin.next = [x, y];
    disc(pen, x, y, 9, null, this.theme.ink, 2);
    const ms = 1000 * offsets[this.chosen];
    this.say("bin", `Bin ${this.number}: ${units.length} spikes in 50 ms. `
      + `Chosen: neuron ${units[this.chosen]}, after ${ms.toFixed(1)} ms.`);
  }

  token(canvas) {
    const unit = this.trace.units[this.chosen] ?? 0;
    this.grid(canvas, "token", rowOf(this.stream.c.tokens, unit, this.stream.size));
    const prefers = unit ? `neuron ${unit}, which fires most for movements ${pictures.directionName(unit - 1)}` : "silence";
    this.say("token", `64 numbers for ${prefers}. Blue is below zero, orange above.`);
  }

  score(canvas) {
    const { pen, width, height } = this.pen(canvas), { scores, weights, offsets, units } = this.trace;
    const unit = units[this.chosen] ?? 0, offset = offsets[this.chosen] ?? 0, binS = this.loop.w.binS;
    const curve = Array.from({ length: 51 }, (_, i) => this.stream.score(unit, this.stream.phasors((i / 50) * binS)));
    const score = scores[this.chosen] ?? curve[0], top = Math.max(0.5, ...curve.map(Math.abs)), half = 0.55 * height;
    const x = (s) => 6 + (s / binS) * (width - 12), y = (value) => half / 2 - (value / top) * (half / 2 - 6);
    line(pen, this.theme.line, 1, 0, 2, (i) => [x(i * binS), y(0)]);
    line(pen, unit ? this.colorOf(unit - 1) : this.theme.ink, 2, 0, 51, (i) => [x((i / 50) * binS), y(curve[i])]);
    disc(pen, x(offset), y(score), 5, this.theme.ink);
    const order = [...weights.keys()].sort((a, b) => offsets[a] - offsets[b]), most = Math.max(...weights, 1e-9);
    const each = (width - 12) / Math.max(order.length, 1);
    order.forEach((i, place) => {
      const size = (weights[i] / most) * (height - half - 8);
      pen.fillStyle = i === this.chosen ? this.theme.ink : this.colorOf(units[i] - 1);
      pen.globalAlpha = i === this.chosen ? 1 : 0.7;
      pen.fillRect(6 + place * each, height - 2 - size, Math.max(1, each - 1), size);
    });
    pen.globalAlpha = 1;
    const bar = 6 + (Math.max(order.indexOf(this.chosen), 0) + 0.5) * each;
    const tall = ((weights[this.chosen] ?? 0) / most) * (height - half - 8);
    this.ends.score = { last: [x(offset), y(score)], next: [bar, height - 2 - tall] };
    const weight = weights[this.chosen] ?? this.stream.weight(score), sum = weights.reduce((a, b) => a + b, 0);
    this.say("score", `Score ${score.toFixed(2)} (the dot; the curve: had it come at another time) gives weight `
      + `${weight.toFixed(2)} (marked bar). All weights sum to ${sum.toFixed(1)}.`);
  }

  latent(canvas) {
    this.grid(canvas, "latent", this.trace.latent);
    this.say("latent", "Each spike has a value of 64 numbers. It is turned by the time of the spike and multiplied by its weight. "
      + "All are added up, and a small network follows.");
  }

  state(canvas) {
    const { before, after, update } = this.trace;
    this.grid(canvas, "state", after, 1, before);
    const stays = update.reduce((a, b) => a + b) / update.length;
    this.say("state", "128 numbers, the state of a GRU. "
      + `At this bin ${Math.round(100 * stays)} % of it stays as it was; the rest is new.`);
  }

  recent(canvas) {
    const { pen, width, height } = this.pen(canvas), weights = this.trace.attention[this.query];
    const each = (width - 12) / this.stream.contextBins;
    weights.forEach((weight, i) => {
      const place = this.stream.contextBins - weights.length + i, size = weight * (height - 26);
      pen.fillStyle = this.theme.decoded;
      pen.globalAlpha = 0.45 + 0.25 * place;
      pen.fillRect(6 + place * each + 4, height - 20 - size, each - 8, size);
      pen.globalAlpha = 1;
      label(pen, ["2 ago", "1 ago", "now"][place], 6 + (place + 0.5) * each, height - 5, this.theme.soft, 13, "center");
    });
    pen.textAlign = "start";
    const now = 6 + (this.stream.contextBins - 0.5) * each;
    const top = height - 20 - weights.at(-1) * (height - 26);
    this.ends.recent = { last: [now, top], next: this.down ? [now, height] : [now + each / 2 - 4, (top + height - 20) / 2] };
    this.say("recent", `The output for ${10 * this.query} ms into the bin reads the last three memories in ` +
      `shares of ${weights.map((weight) => weight.toFixed(2)).join(", ")}.`);
  }

  velocity(canvas) {
    const { pen, width, height } = this.pen(canvas), size = this.trace.decoded.length / this.loop.perBin;
    const first = this.query * size + 2 * this.ahead;
    const decoded = Array.from(this.trace.decoded.subarray(first, first + 2));
    const hand = this.hands[this.query], most = Math.max(300, ...[...decoded, ...hand].map(Math.abs));
    const scale = (Math.min(width, height) / 2 - 8) / most;
    disc(pen, width / 2, height / 2, 300 * scale, null, this.theme.line, 1);
    for (const [color, lineWidth, [vx, vy]] of [[this.theme.hand, 6, hand], [this.theme.decoded, 3, decoded]]) {
      const end = [width / 2 + vx * scale, height / 2 - vy * scale];
      line(pen, color, lineWidth, 0, 2, (i) => (i ? end : [width / 2, height / 2]));
      disc(pen, ...end, 2 + lineWidth / 2, color);
    }
    label(pen, "300 mm/s", width / 2 - 26, Math.min(height / 2 + 300 * scale - 4, height - 4), this.theme.soft, 12);
    this.ends.velocity = { last: [width / 2, height / 2] };
    const text = (v) => `(${v.map((value) => Math.round(value)).join(", ")})`;
    this.say("velocity", `Decoded, to the right and up: ${text(decoded)} mm/s. The hand: ${text(hand)} mm/s.`);
  }

  /** Numbers as coloured cells, blue below zero and orange above; of two grids the second is below the first. */
  grid(canvas, name, values, scale = 0, above = null) {
    const { pen, width, height } = this.pen(canvas), columns = GRID_COLUMNS[name];
    const grids = above ? [above, values] : [values];
    if (!scale) scale = this.largest[name] = Math.max(this.largest[name], ...values.map(Math.abs));
    const gap = 10, rows = values.length / columns;
    const cell = Math.min(width / columns, (height - gap * (grids.length - 1)) / (rows * grids.length));
    const [side, middle] = [(width - columns * cell) / 2, (grids.length - 1) * (rows * cell + gap) + (rows * cell) / 2];
    this.ends[name] = this.down ? { last: [width / 2, 0], next: [width / 2, middle + (rows * cell) / 2] }
      : { last: [side, middle], next: [width - side, middle] };
    grids.forEach((numbers, g) => numbers.forEach((value, i) => {
      pen.fillStyle = this.ramp(value / scale);
      const x = side + (i % columns) * cell, top = g * (rows * cell + gap);
      pen.fillRect(x, top + Math.floor(i / columns) * cell, cell - 1, cell - 1);
    }));
  }

  /** Blue, the background, orange for -1, 0, 1: one of 65 colours. */
  ramp(share) {
    return this.theme.ramp[Math.round(32 * (1 + Math.sign(share) * Math.sqrt(Math.min(Math.abs(share), 1))))];
  }
}

function rampOf([low, middle, high]) {
  return Array.from({ length: 65 }, (_, i) => {
    const end = i < 32 ? low : high, share = Math.abs(i / 32 - 1);
    return `rgb(${middle.map((from, c) => Math.round(from + share * (end[c] - from))).join(" ")})`;
  });
}
