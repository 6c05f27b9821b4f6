// The machine of chapter 12 with the numbers of the bin that was decoded last, from one spike to the velocity.
"use strict";

const PARTS = [
  ["bin", "A bin of spikes", "(12.1)"],
  ["token", "Its token", "(12.1)"],
  ["score", "Score and weight", "(12.2), (12.4)"],
  ["latent", "The bin, read", "(12.4), (12.5)"],
  ["state", "The memory", "(12.6)"],
  ["recent", "Three states", "(12.7)"],
  ["velocity", "The velocity", "of the output"],
];
const GRID_COLUMNS = { token: 8, latent: 8, state: 16 };
const DIVERGING = {
  light: [[0, 90, 156], [255, 255, 255], [204, 84, 0]], dark: [[86, 180, 233], [32, 34, 38], [255, 140, 50]],
};

class Inside {
  /** `loop` is the running Loop; colorOf(unit) a CSS colour and rowOf(unit) a place from 0, for units from 0. */
  constructor(root, loop, colorOf, rowOf) {
    Object.assign(this, { root, loop, colorOf, rowOf, held: false, query: 2, chosen: 0 });
    this.stream = loop.decoders.possm;
    this.largest = { token: 0, latent: 0 };  // of each grid, so that colours mean the same from bin to bin
    root.querySelector("ol").innerHTML = PARTS.map(([name, title, formula]) => `<li data-part="${name}">
      <h3>${title} <small>${formula}</small></h3><canvas role="img"></canvas><p></p></li>`).join("");
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
    for (const query of ["(prefers-color-scheme: dark)", "(max-width: 700px)"]) {
      matchMedia(query).addEventListener("change", () => this.draw());
    }
    addEventListener("resize", () => this.draw());
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  /** Once a bin: shows four of the twenty bins a second, with the spike that weighs most, unless it is held. */
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
    this.chosen = trace.weights.indexOf(Math.max(...trace.weights));
    this.hold(hold);
  }

  hold(on) {
    this.held = on;
    this.find("#hold").setAttribute("aria-pressed", on);
    this.find("#hold").textContent = on ? "Go on" : "Hold this bin";
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
    const dark = style.colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches;
    this.theme = { ramp: rampOf(DIVERGING[dark ? "dark" : "light"]), ink: color("--ink"), soft: color("--soft"),
      line: color("--line"), hand: color("--hand"), decoded: color("--decoded") };
    for (const [name] of PARTS) this[name](this.canvas[name]);
    this.find("#query").value = this.query;
    this.find("#query + output").value = `${10 * this.query} ms into the bin`;
  }

  say(name, text) {
    this.find(`[data-part=${name}] p`).textContent = text;
    this.canvas[name].setAttribute("aria-label", text);
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
    if (!units.length) return this.say("bin", "No spike in this bin: a blank token stands in for them.");
    const [x, y] = [this.x(this.chosen, width), this.y(this.chosen, height)];
    disc(pen, x, y, 9, null, this.theme.ink, 2);
    const ms = 1000 * offsets[this.chosen];
    this.say("bin", `Bin ${this.number}: ${units.length} spikes in 50 ms. `
      + `Chosen: unit ${units[this.chosen]}, after ${ms.toFixed(1)} ms.`);
  }

  token(canvas) {
    const unit = this.trace.units[this.chosen] ?? 0;
    this.grid(canvas, "token", rowOf(this.stream.c.tokens, unit, this.stream.size));
    const turn = unit && ((8 * this.loop.units.preferred_direction_rad[unit - 1]) / (2 * Math.PI) + 16) % 8;
    const prefers = unit ? `, which fires most for movements ${DIRECTIONS[Math.round(turn) % 8]}` : "";
    this.say("token", `E: 64 numbers, learned for unit ${unit || "0, the blank"}${prefers}.`);
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
    const weight = weights[this.chosen] ?? this.stream.weight(score), sum = weights.reduce((a, b) => a + b, 0);
    this.say("score", `Its score at this moment is s = ${score.toFixed(2)} (above: at any other). Its weight is ` +
      `w = g σ(s + b) = ${weight.toFixed(2)}, of ${sum.toFixed(1)} for all spikes (below).`);
  }

  latent(canvas) {
    this.grid(canvas, "latent", this.trace.latent);
    this.say("latent", "All values, each turned by its time and multiplied by its weight, are added up; "
      + "a feed-forward layer follows.");
  }

  state(canvas) {
    const { before, after, update } = this.trace;
    this.grid(canvas, "state", after, 1, before);
    const stays = update.reduce((a, b) => a + b) / update.length;
    this.say("state", "The state h of the GRU, before (above) and after this bin. "
      + `${Math.round(100 * stays)} % of it stays, by its update gates.`);
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
    this.say("recent", `The output for ${10 * this.query} ms into the bin reads the last three states with ` +
      `weights ${weights.map((weight) => weight.toFixed(2)).join(", ")}.`);
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
    const text = (v) => `(${v.map((value) => Math.round(value)).join(", ")})`;
    this.say("velocity", `Decoded: ${text(decoded)} mm/s. The hand: ${text(hand)}.`);
  }

  /** Numbers as coloured cells, blue below zero and orange above; of two grids the second is below the first. */
  grid(canvas, name, values, scale = 0, above = null) {
    const { pen, width, height } = this.pen(canvas), columns = GRID_COLUMNS[name];
    const grids = above ? [above, values] : [values];
    if (!scale) scale = this.largest[name] = Math.max(this.largest[name], ...values.map(Math.abs));
    const gap = 10, rows = values.length / columns;
    const cell = Math.min(width / columns, (height - gap * (grids.length - 1)) / (rows * grids.length));
    grids.forEach((numbers, g) => numbers.forEach((value, i) => {
      pen.fillStyle = this.ramp(value / scale);
      const x = (width - columns * cell) / 2 + (i % columns) * cell, top = g * (rows * cell + gap);
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
