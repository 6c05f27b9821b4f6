// The hand, the units and the loop in which the decoders read them: all of the simulation, nothing of the page.
//
// Times are seconds since the start, on a grid of 10 ms; a bin has 5 of its points. Positions are mm from the centre,
// velocities mm/s. The hand that is shown is that of `handDelayS` ago, so that units can fire ahead of it.
"use strict";

const MS = 0.001, GRID_S = 0.01, SCORED_S = 10, KEPT_S = 12, KEPT = KEPT_S / GRID_S;
const REST_S = 3, REST_MM_S = 10;  // a hand that has been slower for so long is at rest
const WALL_MM = 8;  // a hand this close to the wall cannot push on; a ring is further away

/** A hand that follows the pointer, critically damped, ms by ms; the last seconds are kept. */
class Arm {
  constructor(timeConstantS) {
    this.timeConstantS = timeConstantS;
    this.decay = Math.exp(-MS / timeConstantS);
    this.size = KEPT_S / MS;
    this.path = new Float64Array(4 * this.size);  // x, y and their velocity
    this.n = 1;  // ms so far
    this.once = [0, 0];
  }

  follow(pointer) {
    const now = 4 * (this.n % this.size), before = 4 * ((this.n - 1) % this.size);
    for (let axis = 0; axis < 2; axis++) {
      this.once[axis] += (1 - this.decay) * (pointer[axis] - this.once[axis]);
      const last = this.path[before + axis], position = last + (1 - this.decay) * (this.once[axis] - last);
      this.path[now + axis] = position;
      this.path[now + 2 + axis] = (this.once[axis] - position) / this.timeConstantS;
    }
    this.n++;
  }

  /** Index into `path` of a time, of the newest ms at most. */
  at(timeS) {
    return 4 * (Math.min(Math.max(Math.floor(timeS / MS + 1e-6), 0), this.n - 1) % this.size);
  }
}

/** Simulated units, by the rules of possm_lite/simulate/neurons.py. */
class Units {
  constructor(weights) {
    Object.assign(this, weights.units);
    ({ refractoryS: this.refractoryS, commonDecay: this.commonDecay, binS: this.binS } = weights);
    this.n = this.baseline_hz.length;
    this.silent = new Uint8Array(this.n);
    this.noiseHz = 0;  // spikes at random, added to the rate
    this.last = new Float64Array(this.n).fill(-1);  // spike of each unit, seconds since the bin began
    this.common = this.drawCommon(new Float64Array(this.common_gain.shape[1]), 1);  // fluctuations, a bin apart
    this.nextCommon = this.drawCommon(this.common, Math.sqrt(1 - this.commonDecay ** 2));
  }

  drawCommon(before, scale) {
    return before.map((z) => this.commonDecay * z + scale * normal());
  }

  /** Cosine tuning with saturation: rate in Hz for the hand (x, y, vx, vy) one lag later and the fluctuations z. */
  rate(u, x, y, vx, vy, z) {
    const { turning_rad_per_mm: turning, position_gain_per_mm: position, common_gain: common } = this;
    const preferred = this.preferred_direction_rad[u] + x * turning[2 * u] + y * turning[2 * u + 1];
    let drive = this.depth_s_per_mm[u] * (vx * Math.cos(preferred) + vy * Math.sin(preferred));
    drive += this.speed_gain_s_per_mm[u] * Math.hypot(vx, vy) + x * position[2 * u] + y * position[2 * u + 1];
    for (let i = 0; i < z.length; i++) drive += z[i] * common[z.length * u + i];
    return this.saturation_hz[u] / (1 + (this.saturation_hz[u] / this.baseline_hz[u] - 1) * Math.exp(-drive));
  }

  /** The spikes of a bin that begins at `startS`: Poisson by thinning, blocked for a time after each spike. */
  fire(arm, startS, handDelayS) {
    const units = [], offsets = [], z = new Float64Array(this.common.length);
    for (let u = 0; u < this.n; u++) {
      const limit = this.saturation_hz[u] + this.noiseHz;
      this.last[u] -= this.binS;
      for (let t = wait(limit); t < this.binS; t += wait(limit)) {
        if (this.silent[u] || t < this.last[u] + this.refractoryS) continue;
        const i = arm.at(startS + t - handDelayS + this.lag_s[u]), p = arm.path, share = t / this.binS;
        for (let c = 0; c < z.length; c++) z[c] = this.common[c] + share * (this.nextCommon[c] - this.common[c]);
        const rate = this.rate(u, p[i], p[i + 1], p[i + 2], p[i + 3], z) + this.noiseHz;
        if (Math.random() * limit < rate) {
          units.push(u + 1);
          offsets.push(t);
          this.last[u] = t;
        }
      }
    }
    this.common = this.nextCommon;
    this.nextCommon = this.drawCommon(this.common, Math.sqrt(1 - this.commonDecay ** 2));
    return { units, offsets };
  }
}

const wait = (rateHz) => -Math.log(1 - Math.random()) / rateHz;
const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());

/** Hand, units, both decoders and the cursor, one bin at a time. */
class Loop {
  constructor(weights) {
    this.w = weights;
    this.arm = new Arm(weights.armS);
    this.units = new Units(weights);
    this.decoders = { possm: new PossmStream(weights.possm), wiener: new WienerStream(weights.wiener, this.units.n) };
    this.outputs = { possm: [], wiener: [] };  // velocities at each lead, at the last points of the grid
    this.decoder = "possm";
    this.ahead = 1;  // index into `aheadS`: how much later than the spikes the decoded velocity is
    this.anewS = 2;  // every so often the decoded path sets off from the hand again; Infinity: never
    this.pulled = false;  // the cursor to the hand, slowly
    this.pullS = 2;
    this.game = null;
    this.perBin = weights.queriesS.length;
    this.nBins = 0;
    this.cursor = [0, 0];
    this.path = Array(KEPT).fill([0, 0]);  // where the cursor was, at the last points of the grid
    this.pathFrom = this.pathBefore = 0;  // points of the grid at which it set off from the hand, the last two
    this.stepMs = [];
  }

  /** The hand as it is shown at `timeS`: position and velocity (4,). */
  handAt(timeS) {
    const i = this.arm.at(timeS - this.w.handDelayS);
    return this.arm.path.subarray(i, i + 4);
  }

  get timeS() {
    return this.nBins * this.w.binS;
  }

  /** One bin; `pointerAt(seconds)` says where the pointer was. Returns its spikes; `cursor` is that of the next. */
  step(pointerAt) {
    const start = this.timeS;
    for (let ms = 0; ms < this.w.binS / MS; ms++) this.arm.follow(pointerAt(start + ms * MS));
    const spikes = this.units.fire(this.arm, start, this.w.handDelayS);
    for (const [name, decoder] of Object.entries(this.decoders)) {
      const before = performance.now(), decoded = decoder.step(spikes.units, spikes.offsets);
      if (name === this.decoder) this.stepMs.push(performance.now() - before);
      const size = decoded.length / this.perBin, first = (this.nBins * this.perBin) % KEPT;
      for (let q = 0; q < this.perBin; q++) this.outputs[name][first + q] = decoded.subarray(q * size, (q + 1) * size);
    }
    this.stepMs.splice(0, this.stepMs.length - 1200);  // of the last minute
    this.nBins++;
    this.moveCursor(spikes.units.length > 0);
    return spikes;
  }

  /** While the next bin is recorded, the cursor moves with what is known. A bin without spikes pulls nothing. */
  moveCursor(anySpikes) {
    const edge = this.w.workspaceMm, pull = this.pulled && anySpikes ? GRID_S / this.pullS : 0;
    const first = this.nBins * this.perBin;
    const due = (first - this.pathFrom) * GRID_S >= this.anewS - 1e-9;
    if (due || this.game?.begins() || (this.game && this.atWall)) this.fromHand();
    for (let i = first; i < first + this.perBin; i++) {
      this.path[i % KEPT] = this.cursor;
      const hand = this.handAt(i * GRID_S), velocity = this.displayed(this.decoder, i, first);
      this.cursor = this.cursor.map((at, axis) => {
        const moved = at + GRID_S * velocity[axis] + pull * (hand[axis] - at);
        return Math.min(Math.max(moved, -edge), edge);
      });
      this.game?.update(this.cursor);
    }
    this.path[(first + this.perBin) % KEPT] = this.cursor;
  }

  /** The cursor sets off from the hand. */
  fromHand() {
    this.pathBefore = this.pathFrom;
    this.pathFrom = this.nBins * this.perBin;
    this.cursor = Array.from(this.handAt(this.timeS).slice(0, 2));
    this.path[this.pathFrom % KEPT] = this.cursor;
  }

  get atWall() {
    return Math.max(...this.handAt(this.timeS).slice(0, 2).map(Math.abs)) > this.w.workspaceMm - WALL_MM;
  }

  /** Whether the hand has hardly moved in the last seconds, so that there is nothing to explain. */
  get resting() {
    const end = this.nBins * this.perBin, n = REST_S / GRID_S;
    let sum = 0;
    for (let i = end - n; i < end; i++) {
      const [, , vx, vy] = this.handAt(i * GRID_S);
      sum += vx ** 2 + vy ** 2;
    }
    return sum < n * REST_MM_S ** 2;
  }

  /** The cursor as it is shown at `timeS`, of the last seconds: (2,). */
  shown(timeS) {
    const last = this.nBins * this.perBin + this.perBin, at = Math.min(Math.max(timeS / GRID_S, this.pathFrom), last);
    const i = Math.min(Math.floor(at + 1e-6), last - 1), a = this.path[i % KEPT], b = this.path[(i + 1) % KEPT];
    return a.map((value, axis) => value + (at - i) * (b[axis] - value));
  }

  /** How many points of the grid the chosen output is ahead of its spikes. */
  get lead() {
    return Math.round(this.w.aheadS[this.ahead] / GRID_S);
  }

  /** Velocity shown at grid point i: the newest output that is finished, and not of the future (`newest_finished`). */
  displayed(name, i, nFinished) {
    return this.output(name, Math.min(i - this.lead, nFinished - 1));
  }

  output(name, i) {
    return i < 0 ? [0, 0] : this.outputs[name][i % KEPT].subarray(2 * this.ahead, 2 * this.ahead + 2);
  }

  /** R² of the last seconds, mean of x and y, and the same of what was shown at each moment; NaN at rest. */
  score(name) {
    if (this.resting) return { r2: NaN, displayed: NaN };
    const pairs = { r2: [], displayed: [] }, end = this.nBins * this.perBin;
    for (let i = Math.max(0, end - SCORED_S / GRID_S); i < end; i++) {
      const known = Math.floor(i / this.perBin) * this.perBin;
      pairs.r2.push([this.handAt((i + this.lead) * GRID_S).slice(2), this.output(name, i)]);
      pairs.displayed.push([this.handAt(i * GRID_S).slice(2), this.displayed(name, i, known)]);
    }
    return { r2: r2(pairs.r2), displayed: r2(pairs.displayed) };
  }
}

/** Mean over both axes of 1 - squared error / squared deviation of pairs (true, decoded); NaN below 10 mm/s rms. */
function r2(pairs) {
  let sum = 0;
  for (let axis = 0; axis < 2; axis++) {
    const mean = pairs.reduce((total, [v]) => total + v[axis], 0) / pairs.length;
    let error = 0, deviation = 0;
    for (const [v, decoded] of pairs) {
      error += (v[axis] - decoded[axis]) ** 2;
      deviation += (v[axis] - mean) ** 2;
    }
    sum += deviation > 100 * pairs.length ? (1 - error / deviation) / 2 : NaN;
  }
  return sum;
}

/** Eight targets on a circle, one after the other; one is reached when the cursor has stayed in it for 0.2 s. */
class Game {
  constructor() {
    this.radiusMm = 20;
    this.holdS = 0.2;
    this.timeoutS = 5;
    this.targets = Array.from({ length: 8 }, (_, i) => {  // each three eighths of a circle after the last
      const angle = (2 * Math.PI * 3 * (i + 1)) / 8;
      return [70 * Math.cos(angle), 70 * Math.sin(angle)];
    });
    this.nBegun = 0;
    this.times = [];  // until the successful hold began; null where time was up
    this.shownS = this.heldS = 0;
  }

  get target() {
    return this.targets[this.times.length];
  }

  /** True once for each target: the cursor then sets off from the hand. */
  begins() {
    const isNew = this.nBegun === this.times.length;
    this.nBegun = this.times.length + 1;
    return isNew;
  }

  /** After one point of the grid. */
  update(cursor) {
    if (!this.target) return;
    const distance = Math.hypot(cursor[0] - this.target[0], cursor[1] - this.target[1]);
    this.shownS += GRID_S;
    this.heldS = distance <= this.radiusMm ? this.heldS + GRID_S : 0;
    const reached = this.heldS > this.holdS - 1e-9;
    if (!reached && this.shownS < this.timeoutS - 1e-9) return;
    this.times.push(reached ? this.shownS - this.heldS : null);
    this.shownS = this.heldS = 0;
  }
}
