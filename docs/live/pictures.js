// The pictures of the page: square, raster, velocities. They read the loop and draw; nothing here changes it.
"use strict";

const find = (selector) => document.querySelector(selector);
const SHOWN_S = 4, GUTTER = 18, PATH_S = 2, GLOW_S = 0.12, BAND = 40, TOP_MM_S = 800;
const RATE_S = 0.1, VOTE_MM_PER_HZ = 3.6;  // of the rates that vote; a vote is as long as this times their mean

const DIRECTIONS = ["right", "up and right", "up", "up and left", "left", "down and left", "down", "down and right"];
let theme = {};

/** Colours of the style sheet, light or dark. */
function readTheme() {
  const style = getComputedStyle(document.body);
  for (const name of ["ink", "soft", "line", "hand", "decoded", "target", "paper", "silent"]) {
    theme[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

/** By a direction, in rad: a circle of hues of even lightness. */
const directionColor = (rad) => `oklch(0.66 0.17 ${((rad * 180) / Math.PI + 720) % 360})`;

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
  Object.assign(pen, { fillStyle: fill, strokeStyle: stroke, lineWidth });
  if (fill) pen.fill();
  if (stroke) pen.stroke();
}

function label(pen, text, x, y, color, size = 13, textAlign = "start") {
  Object.assign(pen, { fillStyle: color, font: `${size}px system-ui, sans-serif`, textAlign });
  pen.fillText(text, x, y);
}

/** A line through the points at(first), ..., at(last - 1), in CSS pixels. */
function line(pen, color, lineWidth, first, last, at) {
  pen.beginPath();
  for (let i = first; i < last; i++) pen.lineTo(...at(i));
  pen.strokeStyle = color;
  pen.lineWidth = lineWidth;
  pen.stroke();
}

function arrow(pen, color, lineWidth, [x, y], [toX, toY]) {
  const length = Math.hypot(toX - x, toY - y), head = Math.min(2.2 * lineWidth, length / 2);
  if (length < 1) return;
  const [dx, dy] = [(toX - x) / length, (toY - y) / length];
  line(pen, color, lineWidth, 0, 2, (i) => (i ? [toX - head * dx, toY - head * dy] : [x, y]));
  pen.beginPath();
  pen.moveTo(toX, toY);
  for (const side of [-1, 1]) pen.lineTo(toX - head * (1.2 * dx - side * 0.8 * dy), toY - head * (1.2 * dy + side * 0.8 * dx));
  pen.fillStyle = color;
  pen.fill();
}

class Pictures {
  constructor(loop) {
    this.loop = loop;
    this.edge = loop.w.workspaceMm;
    this.directions = loop.units.preferred_direction_rad;
    const order = [...this.directions.keys()].sort((a, b) => this.turn(a) - this.turn(b));
    this.order = order;  // unit of each row of the raster
    this.row = new Uint8Array(loop.units.n);
    order.forEach((u, i) => {
      this.row[u] = i;
    });
    this.colors = Array.from(this.directions, directionColor);
    this.glow = new Float64Array(loop.units.n);  // recent spikes, as they light the arrows
    this.rates = new Float64Array(loop.units.n);  // in Hz, of the last moments
    this.show(order, false);
    this.chosen = -1;  // row of the raster
    // Spikes are drawn once, on a strip that is used in turn; each frame shows it with its newest end at the right.
    this.strip = document.createElement("canvas");
    this.strip.width = 1600;
    this.strip.height = 4 * loop.units.n;
  }

  /** The preferred direction of unit u in 0..2 pi, so that rows go once around the circle. */
  turn(u) {
    return (this.directions[u] + 4 * Math.PI) % (2 * Math.PI);
  }

  /** Draw these units, in the order of their rows; they vote, or the decoder's path is drawn. */
  show(units, voting) {
    Object.assign(this, { shown: units, voting, chosen: -1 });
  }

  /** Sum of the arrows of the units that are shown, (x, y) in mm: each in its direction, as long as its rate says. */
  vote() {
    return this.arrows().reduce(([x, y], [dx, dy]) => [x + dx, y + dy], [0, 0]);
  }

  arrows() {
    return this.shown.map((u) => {
      const length = (this.rates[u] * VOTE_MM_PER_HZ) / Math.max(this.shown.length, 4);
      return [length * Math.cos(this.directions[u]), length * Math.sin(this.directions[u])];
    });
  }

  /** The nearest of eight directions, in words. */
  directionName(u) {
    return DIRECTIONS[Math.round((8 * this.turn(u)) / (2 * Math.PI)) % 8];
  }

  spikes({ units, offsets }) {
    const { loop, strip } = this, pen = strip.getContext("2d"), size = strip.height / loop.units.n;
    const perS = strip.width / SHOWN_S;
    const start = ((loop.nBins - 1) % Math.round(SHOWN_S / loop.w.binS)) * loop.w.binS * perS;
    pen.clearRect(start, 0, loop.w.binS * perS, strip.height);
    pen.fillStyle = theme.silent;
    loop.units.silent.forEach((silent, u) => {
      if (silent) pen.fillRect(start, size * this.row[u], loop.w.binS * perS, size);
    });
    this.glow = this.glow.map((value) => value * Math.exp(-loop.w.binS / GLOW_S));
    const decay = Math.exp(-loop.w.binS / RATE_S);
    this.rates = this.rates.map((rate) => rate * decay);
    units.forEach((unit, i) => {
      this.rates[unit - 1] += (1 - decay) / loop.w.binS;
      pen.fillStyle = this.colors[unit - 1];
      pen.fillRect(start + offsets[i] * perS, size * this.row[unit - 1], 4, size);
      this.glow[unit - 1]++;
    });
  }

  frame(timeS) {
    this.arena(timeS);
    this.raster(timeS);
    this.traces(timeS);
  }

  arena(timeS) {
    const { loop, edge } = this, { pen, width } = fresh(find("#arena canvas")), scale = width / (2 * edge);
    const px = ([x, y]) => [(x + edge) * scale, (edge - y) * scale];
    const grid = Math.floor(timeS / GRID_S), from = Math.max(loop.pathFrom, grid - PATH_S / GRID_S);
    const hand = loop.handAt(timeS), decoded = loop.shown(timeS);
    pen.lineCap = "round";
    pen.lineJoin = "round";
    if (this.voting) {
      pen.globalAlpha = 0.3;
      line(pen, theme.hand, 5, Math.max(0, grid - PATH_S / GRID_S), grid, (i) => px(loop.handAt(i * GRID_S)));
      pen.globalAlpha = 1;
      disc(pen, ...px(hand), 11, null, theme.hand, 4);
      return this.ballot(pen, px, hand);
    }
    this.rosette(pen, px(decoded), Math.min(width, 560) / 560);
    if (loop.game?.target) {
      const at = px(loop.game.target);
      disc(pen, ...at, loop.game.radiusMm * scale, null, theme.target, loop.game.heldS > 0 ? 8 : 4);
    }
    pen.globalAlpha = 0.25;  // the two seconds before
    const before = Math.max(loop.pathBefore, loop.pathFrom - PATH_S / GRID_S, 0);
    line(pen, theme.hand, 4, before, loop.pathFrom, (i) => px(loop.handAt(i * GRID_S)));
    line(pen, theme.decoded, 2.5, before, loop.pathFrom - 1, (i) => px(loop.path[i % KEPT]));
    pen.globalAlpha = 0.75;
    line(pen, theme.hand, 5, from, grid, (i) => px(loop.handAt(i * GRID_S)));
    pen.globalAlpha = 1;
    line(pen, theme.decoded, 3, from, grid, (i) => px(loop.shown(i * GRID_S)));
    disc(pen, ...px(hand), 11, null, theme.hand, 4);
    disc(pen, ...px(decoded), 8, theme.decoded, theme.paper, 1.5);
  }

  /** The arrows of the units that are shown, end to end from the hand, and the one from the start to the end. */
  ballot(pen, px, [x, y]) {
    const few = this.shown.length <= 8;
    let from = [x, y];
    if (this.shown.length === 1) {  // its direction, also while it is silent
      const u = this.shown[0], tip = [x + 60 * Math.cos(this.directions[u]), y + 60 * Math.sin(this.directions[u])];
      pen.globalAlpha = 0.25;
      arrow(pen, this.colors[u], 12, px(from), px(tip));
      pen.globalAlpha = 1;
    }
    this.arrows().forEach(([dx, dy], i) => {
      const to = [from[0] + dx, from[1] + dy], color = this.colors[this.shown[i]];
      if (few) arrow(pen, color, 5, px(from), px(to));
      else line(pen, color, 4, 0, 2, (end) => px(end ? to : from));
      from = to;
    });
    if (this.shown.length > 1) arrow(pen, theme.ink, 5, px([x, y]), px(from));
  }

  /** An arrow for each unit in its preferred direction, that lights up as it fires. */
  rosette(pen, [x, y], size) {
    this.glow.forEach((glow, u) => {
      const share = Math.min(1, glow / 3), cos = Math.cos(this.directions[u]), sin = -Math.sin(this.directions[u]);
      if (this.loop.units.silent[u]) return;
      pen.globalAlpha = 0.12 + 0.88 * share;
      const [near, far] = [24 * size, (28 + 46 * share) * size];
      line(pen, this.colors[u], (1.5 + 2 * share) * size, 0, 2, (end) => {
        const radius = end ? far : near;
        return [x + radius * cos, y + radius * sin];
      });
    });
    pen.globalAlpha = 1;
  }

  raster(timeS) {
    const { loop, strip } = this, { pen, width, height } = fresh(find("#raster")), cut = (timeS % SHOWN_S) / SHOWN_S;
    const left = cut * strip.width, drawn = width - GUTTER, seam = GUTTER + (1 - cut) * drawn;
    const each = height / this.shown.length, band = Math.min(each, BAND), source = strip.height / loop.units.n;
    const bands = this.shown.length === loop.units.n
      ? [[0, strip.height, 0, height]]
      : this.shown.map((u, i) => [source * this.row[u] + 1, source - 2, (i + 0.5) * each - band / 2, band]);
    for (const [top, rows, y, size] of bands) {
      pen.drawImage(strip, left, top, strip.width - left, rows, GUTTER, y, seam - GUTTER, size);
      if (left >= 1) pen.drawImage(strip, 0, top, left, rows, seam, y, width - seam, size);
    }
    // the bin that is recorded is not read yet: its place on the strip still has spikes of four seconds ago
    const recorded = ((timeS - loop.timeS) / SHOWN_S) * drawn;
    pen.clearRect(width - recorded, 0, recorded, height);
    this.shown.forEach((u, i) => {
      pen.fillStyle = this.colors[u];
      pen.fillRect(0, (i + 0.5) * each - band / 2, 6, band + 0.5);
    });
    for (const [sign, share] of this.shown.length > 8 ? [["→", 0.01], ["↑", 0.25], ["←", 0.5], ["↓", 0.75]] : []) {
      const row = this.order.findIndex((u) => this.turn(u) >= 2 * Math.PI * share);
      label(pen, sign, 6, Math.max(row, 3) * each + 4, theme.soft);
    }
    if (this.chosen < 0) return;
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1;
    pen.strokeRect(GUTTER, this.chosen * each - 1, width - GUTTER - 1, each + 2);
    this.tuning(pen, width - 104, this.chosen * each > height / 2 ? 4 : height - 104, 100);
  }

  /** Rate of the chosen unit in every direction, in the middle of the square at 300 mm/s: a closed curve. */
  tuning(pen, x, y, size) {
    const u = this.shown[this.chosen], { units } = this.loop, z = new Float64Array(units.common_gain.shape[1]);
    const rates = Array.from({ length: 49 }, (_, i) => {
      const angle = (2 * Math.PI * i) / 48;
      return units.rate(u, 0, 0, 300 * Math.cos(angle), 300 * Math.sin(angle), z);
    });
    const most = Math.max(...rates), radius = size / 2 - 6, middle = [x + size / 2, y + size / 2];
    pen.globalAlpha = 0.92;
    pen.fillStyle = theme.paper;
    pen.fillRect(x, y, size, size);
    pen.globalAlpha = 1;
    disc(pen, ...middle, radius, null, theme.line, 1);
    line(pen, this.colors[u], 3, 0, 49, (i) => {
      const angle = (2 * Math.PI * i) / 48, share = (rates[i] / most) * radius;
      return [middle[0] + share * Math.cos(angle), middle[1] - share * Math.sin(angle)];
    });
  }

  traces(timeS) {
    const { loop } = this, { pen, width, height } = fresh(find("#traces")), middle = height / 2;
    const x = (t) => width + ((t - timeS) / SHOWN_S) * (width - GUTTER), last = Math.floor(timeS / GRID_S);
    const first = Math.max(0, Math.ceil((timeS - SHOWN_S) / GRID_S)), known = loop.nBins * loop.perBin + loop.lead;
    for (const axis of [0, 1]) {
      const clipped = (v) => Math.max(-1, Math.min(1, v / TOP_MM_S));
      const y = (v) => middle * (axis + 0.5) - clipped(v) * (middle / 2 - 2);
      line(pen, theme.line, 1, 0, 2, (i) => [i ? width : GUTTER, y(0)]);
      line(pen, theme.hand, 4, first, last, (i) => [x(i * GRID_S), y(loop.handAt(i * GRID_S)[2 + axis])]);
      line(pen, theme.decoded, 1.8, first, Math.min(known, last), (i) => [
        x(i * GRID_S), y(loop.output(loop.decoder, i - loop.lead)[axis])]);
      label(pen, "xy"[axis], 2, y(0) + 5, theme.soft, 15);
    }
  }
}
