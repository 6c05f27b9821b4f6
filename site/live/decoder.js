// The streaming step of POSSM and of the Wiener filter, one bin of 50 ms at a time.
//
// The same as possm_lite/decoder/streaming, for one latent query, one head, sigmoid reading and one GRU layer; symbols
// and constants are those of its cells.py. Matrices are flat arrays, row after row: (inputs, outputs), for x @ W.
"use strict";

const LAYER_NORM_EPS = 1e-5;

/** Arrays in base64, as site/live.py packs them, as typed arrays with a `shape`; nested objects stay nested. */
function unpack(packed) {
  if (typeof packed !== "object" || Array.isArray(packed)) return packed;
  if (!packed.data) return Object.fromEntries(Object.entries(packed).map(([name, value]) => [name, unpack(value)]));
  const bytes = Uint8Array.from(atob(packed.data), (character) => character.charCodeAt(0));
  const array = packed.type === "float32" ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
  return Object.assign(array, { shape: packed.shape });
}

/** start + x @ W, with W (x.length, n); `start` (n,) may be missing. */
function affine(x, W, start) {
  const n = W.shape[1];
  const y = start ? Float64Array.from(start) : new Float64Array(n);
  for (let i = 0; i < x.length; i++) {
    const xi = x[i];
    for (let j = 0, k = i * n; j < n; j++, k++) y[j] += xi * W[k];
  }
  return y;
}

/** Divided by its standard deviation, mean subtracted first; gain and shift of the layer norm are in what follows. */
function normalize(x) {
  let mean = 0, square = 0;
  for (const value of x) mean += value / x.length;
  for (const value of x) square += (value - mean) ** 2 / x.length;
  const scale = 1 / Math.sqrt(square + LAYER_NORM_EPS);
  return x.map((value) => (value - mean) * scale);
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// Normal distribution function to 1e-12: a table, and Taylor's polynomial of the third degree around its nearest point
const NDTR_STEP = 1 / 256, NDTR_MAX = 8;
const DENSITY = Float64Array.from({ length: NDTR_MAX / NDTR_STEP + 1 }, (_, i) => (
  Math.exp(-((i * NDTR_STEP) ** 2) / 2) / Math.sqrt(2 * Math.PI)));
const NDTR = DENSITY.map((density, i) => {
  const x = i * NDTR_STEP;  // 1 / 2 + density (x + x³ / 3 + x⁵ / 15 + ...), all terms positive
  let term = x, sum = x;
  for (let n = 1; term > 1e-17 * sum; n++) sum += term *= (x * x) / (2 * n + 1);
  return 0.5 + density * sum;
});

function ndtr(x) {
  if (x < 0) return 1 - ndtr(-x);
  if (x >= NDTR_MAX) return 1;
  const i = Math.round(x / NDTR_STEP), x0 = i * NDTR_STEP, d = x - x0;
  return NDTR[i] + DENSITY[i] * d * (1 - (x0 * d) / 2 + ((x0 * x0 - 1) * d * d) / 6);
}

/** The gated layer of a centred x; gelu(g) = g ndtr(g). */
function feedForward(x, constants) {
  const expanded = affine(normalize(x), constants.expand, constants.expand_bias);
  const half = expanded.length / 2, gated = expanded.subarray(0, half);
  for (let i = 0; i < half; i++) gated[i] *= expanded[half + i] * ndtr(expanded[half + i]);
  return affine(gated, constants.contract);
}

/** A trained POSSM that decodes one bin at a time; `constants` is `possm` of the unpacked weights. */
class PossmStream {
  constructor(constants) {
    this.c = constants;
    [this.contextBins, this.nQueries] = constants.output.rotations.shape;
    this.reset();
  }

  /** Back to before the first bin. */
  reset() {
    this.hidden = new Float64Array(this.c.cell.w_h.shape[0]);
    this.recent = [];  // projections of the last k hidden states, oldest first
  }

  /** Units from 1 and seconds since the bin began, of each spike: behaviour at each query, Q rows of C in one array. */
  step(units, offsets) {
    const x = units.length ? this.encode(units, offsets) : this.encode([0], [0]);  // a silent bin has a blank token
    this.hidden = this.gru(x, this.hidden);
    const { rows, rows_bias: bias } = this.c.output;
    this.recent = [...this.recent.slice(1 - this.contextBins), affine(normalize(this.hidden), rows, bias)];
    const size = this.c.output.feed_forward.contract.shape[1], decoded = new Float64Array(this.nQueries * size);
    for (let q = 0; q < this.nQueries; q++) decoded.set(this.decode(q), q * size);
    return decoded;
  }

  /** Input attention: each spike adds its value, rotated by its time and weighted by its score. */
  encode(units, offsets) {
    const { scores, values, columns, out, start, feed_forward } = this.c.input;
    const nBasis = scores.shape[2], size = values.shape[2], basis = new Float64Array(nBasis);
    const pooled = new Float64Array(size);
    for (let i = 0; i < units.length; i++) {
      let score = 0;
      for (let f = 0; f < nBasis; f++) {  // cos w t, sin w t, ..., 1
        const cycles = offsets[i] * this.c.cycles[f] + this.c.cycles[nBasis + f];
        basis[f] = Math.cos(2 * Math.PI * (cycles - Math.round(cycles)));
        score += scores[units[i] * nBasis + f] * basis[f];
      }
      const weight = sigmoid(score), first = units[i] * size;
      for (let j = 0; j < size; j++) pooled[j] += weight * values[first + j] * basis[columns[j]];
    }
    const x = affine(pooled, out, start), half = x.length / 2;  // centred for the feed-forward layer, and plain
    return feedForward(x.subarray(0, half), feed_forward).map((value, j) => value + x[half + j]);
  }

  gru(x, h) {
    const { w_x, w_h, b_x, b_h } = this.c.cell, n = h.length;
    const fromX = affine(x, w_x, b_x), fromH = affine(h, w_h, b_h);
    return h.map((old, i) => {
      const reset = sigmoid(fromX[i] + fromH[i]), update = sigmoid(fromX[n + i] + fromH[n + i]);
      const candidate = Math.tanh(fromX[2 * n + i] + reset * fromH[2 * n + i]);
      return candidate + update * (old - candidate);
    });
  }

  /** Output attention: behaviour (C,) at query q. */
  decode(q) {
    const { rotations, out, start, feed_forward } = this.c.output, { recent, contextBins: k, nQueries } = this;
    const size = out.shape[0], missing = k - recent.length;
    const scores = recent.map((row, i) => row[(missing + i) * nQueries + q]);  // each state at its own age
    const largest = Math.max(...scores), weights = scores.map((score) => Math.exp(score - largest));
    const total = weights.reduce((a, b) => a + b), pooled = new Float64Array(size);
    for (let i = 0; i < recent.length; i++) {
      const weight = weights[i] / total, values = k * nQueries, first = ((missing + i) * nQueries + q) * size;
      for (let j = 0; j < size; j++) pooled[j] += weight * recent[i][values + j] * rotations[first + j];
    }
    const n = out.shape[1], row = start.shape[0] > 1 ? q : 0;  // centred for the feed-forward layer, and the output
    const x = affine(pooled, out, start.subarray(row * n, (row + 1) * n));
    const decoded = feedForward(x.subarray(0, n - feed_forward.contract.shape[1]), feed_forward);
    return decoded.map((value, j) => value + x[n - decoded.length + j]);
  }
}

/** Ridge regression on the root counts of the last bins; `constants` is `wiener` of the unpacked weights. */
class WienerStream {
  constructor(constants, nUnits) {
    this.c = constants;
    this.nUnits = nUnits;
    this.reset();
  }

  reset() {
    this.history = new Float64Array(this.c.weight.shape[0]);  // oldest bin first
  }

  /** As `PossmStream.step`; only the number of spikes of each unit matters. */
  step(units) {
    const counts = new Float64Array(this.nUnits), { weight, offset, mean, std } = this.c;
    for (const unit of units) counts[unit - 1]++;
    this.history.copyWithin(0, this.nUnits);
    this.history.set(counts.map(Math.sqrt), this.history.length - this.nUnits);
    return affine(this.history, weight, offset).map((value, i) => mean[i % mean.length] + std[i % std.length] * value);
  }
}
