"use strict";
// Axes and marks in SVG for figures that react (controls.js), and the few formulas that several of them share.
const axes = (() => {
  function element(name, attributes, parent, text) {
    const html = ["div", "label", "span", "input", "output", "figcaption"].includes(name);
    const made = html ? document.createElement(name) : document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  }

  const minus = (text) => text.replace("-", "−");
  const fixed = (value, digits) => minus((Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits));
  const short = (value) => minus(Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 }));
  const linspace = (low, high, n) => Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));
  const clip = (value, low, high) => Math.min(Math.max(value, low), high);

  function softmax(scores) {
    const largest = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - largest));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  }

  const MAP = [[0, 32, 76], [65, 77, 107], [124, 123, 120], [185, 172, 112], [255, 233, 69]]; // of matplotlib's cividis
  function mapped(share) {
    const place = clip(share, 0, 1) * (MAP.length - 1);
    const low = Math.min(Math.floor(place), MAP.length - 2);
    return MAP[low].map((from, i) => Math.round(from + (place - low) * (MAP[low + 1][i] - from)));
  }

  class Panel {
    constructor(look, place, hasHandles) {
      Object.assign(this, { height: 230 }, look);
      [this.x, this.y] = [look.x.slice(0, 2), look.y.slice(0, 2)];
      [[this.xlabel, this.xticks = []], [this.ylabel, this.yticks = []]] = [look.x.slice(2), look.y.slice(2)];
      const role = hasHandles ? "group" : "img";
      this.svg = element("svg", { role, "aria-label": look.name, height: this.height }, place);
      this.svg.style.flex = look.wide ? "1 1 100%" : `1 1 ${look.basis ?? 260}px`;
      this.layer = element("g", {}, this.svg);
    }

    begin() {
      const [left, right, top, bottom] = this.bare ? [8, 8, 26, 8] : [58, 16, 26, 42];
      const width = this.svg.clientWidth || 340;
      this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
      let [w, h] = [width - left - right, this.height - top - bottom];
      Object.assign(this, { top, left: left + (this.square ? Math.max(w - h, 0) / 2 : 0) });
      if (this.square) w = h = Math.min(w, h);
      Object.assign(this, { w, h });
      this.layer.replaceChildren();
      if (this.bare) return;
      const floor = top + h;
      element("path", { d: `M${this.left},${top}V${floor}H${this.left + w}`, class: "axis" }, this.layer);
      for (const [x, label] of this.xticks.map((tick) => [tick].flat())) this.tick(this.px(x), floor + 16, label ?? x);
      for (const [y, label] of this.yticks.map((tick) => [tick].flat())) {
        this.tick(this.left - 6, this.py(y) + 4, label ?? y, "end");
      }
      this.tick(this.left + w / 2, floor + 34, this.xlabel ?? "");
      const side = element("text", { class: "tick", "text-anchor": "middle" }, this.layer, this.ylabel ?? "");
      side.setAttribute("transform", `translate(${this.left - 45},${top + h / 2}) rotate(-90)`);
    }

    tick(x, y, label, anchor = "middle") {
      const text = typeof label === "number" ? short(label) : label;
      element("text", { x, y, class: "tick", "text-anchor": anchor }, this.layer, text);
    }

    px(x) {
      const [low, high] = this.log ? this.x.map(Math.log10) : this.x;
      return this.left + (((this.log ? Math.log10(x) : x) - low) / (high - low)) * this.w;
    }

    py(y) {
      return this.top + ((this.y[1] - y) / (this.y[1] - this.y[0])) * this.h;
    }

    inverse(px, py) {
      const [low, high] = this.log ? this.x.map(Math.log10) : this.x;
      const x = low + ((px - this.left) / this.w) * (high - low);
      return [this.log ? 10 ** x : x, this.y[1] - ((py - this.top) / this.h) * (this.y[1] - this.y[0])];
    }

    path(xs, ys) {
      return "M" + xs.map((x, i) => `${this.px(x).toFixed(2)},${this.py(ys[i]).toFixed(2)}`).join("L");
    }

    line(xs, ys, color, { width = 2, dash = "" } = {}) {
      const style = `stroke:var(--${color});stroke-width:${width};stroke-dasharray:${dash}`;
      element("path", { d: this.path(xs, ys), style, class: "line" }, this.layer);
    }

    arrow(xs, ys, color) {
      const [[x0, x1], [y0, y1]] = [xs.map((x) => this.px(x)), ys.map((y) => this.py(y))];
      const [angle, length] = [(Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI, Math.hypot(x1 - x0, y1 - y0)];
      const head = Math.min(10, length), neck = length - head;
      const d = `M0,0H${neck}M${neck},${-head / 2}L${length},0L${neck},${head / 2}Z`;
      const style = `fill:var(--${color});stroke:var(--${color});stroke-width:2.5`;
      element("path", { d, style, transform: `translate(${x0} ${y0}) rotate(${angle})`, class: "line" }, this.layer);
    }

    area(xs, ys, color, opacity = 0.4) {
      element("path", { d: `${this.path(xs, ys)}Z`, style: `fill:var(--${color});opacity:${opacity}` }, this.layer);
    }

    dots(xs, ys, color, radius = 3, edge = "none") {
      xs.forEach((x, i) => {
        const style = `fill:var(--${color},none);stroke:var(--${edge},none)`; // "none" is no colour's name
        element("circle", { cx: this.px(x), cy: this.py(ys[i]), r: radius[i] ?? radius, style }, this.layer);
      });
    }

    bars(xs, heights, color, width = 0.8) {
      xs.forEach((x, i) => {
        const [left, right] = [x - width / 2, x + width / 2];
        this.area([left, left, right, right], [0, heights[i], heights[i], 0], [color].flat()[i] ?? color, 1);
      });
    }

    text(x, y, text, color = "ink", { anchor = "middle", size = 13, weight = 400 } = {}) {
      const style = `fill:var(--${color});font-size:${size}px;font-weight:${weight}`;
      element("text", { x: this.px(x), y: this.py(y) + 4, "text-anchor": anchor, style }, this.layer, text);
    }

    title(text) {
      element("text", { x: this.left + this.w / 2, y: 15, "text-anchor": "middle", class: "title" }, this.layer, text);
    }

    image(rows, low, high) {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [rows[0].length, rows.length];
      const brush = canvas.getContext("2d");
      const pixels = brush.createImageData(canvas.width, canvas.height);
      rows.flat().forEach((value, i) => pixels.data.set([...mapped((value - low) / (high - low)), 255], 4 * i));
      brush.putImageData(pixels, 0, 0);
      const box = { x: this.left, y: this.top, width: this.w, height: this.h, preserveAspectRatio: "none" };
      element("image", { ...box, class: "pixels", href: canvas.toDataURL() }, this.layer);
    }
  }

  return { Panel, element, softmax, linspace, fixed, short, clip };
})();
