// The pictures of the page: square, raster, velocities. They read the loop and draw; nothing here changes it.
"use strict";

const find = (selector) => document.querySelector(selector);
const SHOWN_S = 4, GUTTER = 18, PATH_S = 2, GLOW_S = 0.12, TOP_MM_S = 800;
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
    units.forEach((unit, i) => {
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
    pen.drawImage(strip, left, 0, strip.width - left, strip.height, GUTTER, 0, seam - GUTTER, height);
    if (left >= 1) pen.drawImage(strip, 0, 0, left, strip.height, seam, 0, width - seam, height);
    // the bin that is recorded is not read yet: its place on the strip still has spikes of four seconds ago
    const recorded = ((timeS - loop.timeS) / SHOWN_S) * drawn, each = height / loop.units.n;
    pen.clearRect(width - recorded, 0, recorded, height);
    this.order.forEach((u, i) => {
      pen.fillStyle = this.colors[u];
      pen.fillRect(0, i * each, 6, each + 0.5);
    });
    for (const [arrow, share] of [["→", 0.01], ["↑", 0.25], ["←", 0.5], ["↓", 0.75]]) {
      const row = this.order.findIndex((u) => this.turn(u) >= 2 * Math.PI * share);
      label(pen, arrow, 6, Math.max(row, 3) * each + 4, theme.soft);
    }
    if (this.chosen < 0) return;
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1;
    pen.strokeRect(GUTTER, this.chosen * each - 1, width - GUTTER - 1, each + 2);
    this.tuning(pen, width - 104, this.chosen * each > height / 2 ? 4 : height - 104, 100);
  }

  /** Rate of the chosen unit in every direction, in the middle of the square at 300 mm/s: a closed curve. */
  tuning(pen, x, y, size) {
    const u = this.order[this.chosen], { units } = this.loop, z = new Float64Array(units.common_gain.shape[1]);
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
