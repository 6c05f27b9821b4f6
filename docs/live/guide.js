// From one neuron to the network, in four steps: which units are drawn, what is said of them, and their sound.
"use strict";

const OFF_S = 4, MOVING_MM_S = 60;  // the error of a direction is averaged for so long, over bins with a faster hand
const STEPS = {
  one: (unit) => `This is one neuron. It fires most when you move ${pictures.directionName(unit)}: the arrow points there,
    and the colour stands for that direction. Move that way, then the other way.`,
  eight: () => `Eight neurons vote. Each lays down an arrow in its own direction, the longer the faster it fires, and the
    arrows are laid end to end. One last arrow goes from the start to the end: it says where you move.`,
  all: () => `All 120 vote in the same way. Chance decides when a neuron fires, so eight are often wrong. In a vote of 120,
    most of the chance cancels.`,
  network: () => `The network needs no arrows of ours. It has learned, from minutes of movement, what each spike says about the
    velocity. <a href="live.html#inside" target="_top">Follow one spike through it</a>.`,
};

class Guide {
  constructor() {
    this.step = "network";
    // The strongest neuron is met first. Of eight directions, a neuron each that is better than most, not the best.
    this.one = pictures.order.reduce((best, u) => (this.depth(u) > this.depth(best) ? u : best));
    this.eight = Array.from({ length: 8 }, (_, i) => this.near((2 * Math.PI * i) / 8));
    this.sound = null;
    for (const button of document.querySelectorAll("#guide [data-step]")) {
      button.addEventListener("click", () => {
        find("#guide").className = "begun";
        this.show(button.dataset.step);
      });
    }
    find("#sound").addEventListener("click", () => this.setSound(!this.sound));
  }

  /** How much faster a unit fires in its preferred direction than in the opposite one, in Hz, at 300 mm/s. */
  depth(u) {
    const along = [300 * Math.cos(pictures.directions[u]), 300 * Math.sin(pictures.directions[u])];
    const z = new Float64Array(loop.units.common.length);
    return loop.units.rate(u, 0, 0, ...along, z) - loop.units.rate(u, 0, 0, ...along.map((v) => -v), z);
  }

  /** The upper quartile, by depth, of the units that prefer about this direction. */
  near(rad) {
    const units = pictures.order.filter((u) => Math.cos(pictures.directions[u] - rad) > Math.cos(Math.PI / 12));
    return units.sort((a, b) => this.depth(a) - this.depth(b))[Math.floor(0.75 * units.length)];
  }

  show(step) {
    this.step = step;
    this.error = [0, 0];  // of the direction: decaying sum, and weight
    const shown = { one: [this.one], eight: this.eight, all: pictures.order, network: pictures.order }[step];
    pictures.show(shown, step !== "network");
    if (step !== "network") {
      experiments.stop();
      inside.met = this.one;
    }
    document.body.classList.toggle("voting", step !== "network");
    for (const button of document.querySelectorAll("#guide [data-step]")) {
      button.setAttribute("aria-pressed", button.dataset.step === step);
    }
    find("#sound").hidden = shown.length > 8;
    find("#told").innerHTML = STEPS[step](this.one);
    find("#measured").textContent = "";
    if (paused) pictures.frame(loop.timeS);
  }

  /** After a bin. */
  update({ units, offsets }) {
    if (this.sound && pictures.shown.length <= 8) {
      units.forEach((unit, i) => {
        const row = pictures.shown.indexOf(unit - 1);
        if (row >= 0) this.click(offsets[i], row);
      });
    }
    const [, , vx, vy] = loop.handAt(loop.timeS);
    const n = loop.nBins * loop.perBin;
    const [x, y] = pictures.voting ? pictures.vote() : loop.displayed(loop.decoder, n, n);
    const decay = Math.exp(-loop.w.binS / OFF_S), moves = Math.hypot(vx, vy) > MOVING_MM_S;
    if (moves) {
      const off = Math.abs(Math.atan2(vx * y - vy * x, vx * x + vy * y));
      this.error = [decay * this.error[0] + off, decay * this.error[1] + 1];
    }
    if (loop.nBins % 10 === 0) find("#measured").textContent = this.measured();
  }

  measured() {
    if (this.step === "one") return `Now it fires ${Math.round(pictures.rates[this.one])} times a second.`;
    if (this.error[1] < 10 || !find("#guide.begun")) return "";
    const who = this.step === "network" ? WHO[loop.decoder] : "their vote";
    return `On average, ${who} points ${Math.round((this.error[0] / this.error[1]) * 180 / Math.PI)}° off.`;
  }

  // ---- sound: a click for each spike of the units that are shown, higher for later rows
  setSound(on) {
    find("#sound").setAttribute("aria-pressed", on);
    if (!on) this.sound.close();
    this.sound = on ? new AudioContext() : null;
    if (!on) return;
    const rate = this.sound.sampleRate, n = Math.round(0.012 * rate);
    this.clicks = Array.from({ length: 8 }, (_, row) => {
      const buffer = this.sound.createBuffer(1, n, rate), wave = buffer.getChannelData(0), hz = 500 * 2 ** (row / 4);
      for (let i = 0; i < n; i++) wave[i] = 0.3 * Math.exp((-6 * i) / n) * Math.sin((2 * Math.PI * hz * i) / rate);
      return buffer;
    });
  }

  click(offset, row) {
    const source = this.sound.createBufferSource();
    source.buffer = this.clicks[row];
    source.connect(this.sound.destination);
    source.start(this.sound.currentTime + 0.02 + offset);
  }
}
