// The streaming step of POSSM and of the Wiener filter: possm_lite/decoder/stream.py and cells.py for one latent query,
// one head, sigmoid reading and one GRU layer, with their names. Arrays are flat, row after row; complex ones in pairs.
"use strict";

/** Arrays in base64, as tools/site/live.py packs them, as typed arrays with a `shape`; nested objects stay nested. */
function unpack(packed) {
  if (typeof packed !== "object" || Array.isArray(packed)) return packed;
  if (!packed.data) return Object.fromEntries(Object.entries(packed).map(([name, value]) => [name, unpack(value)]));
  const { buffer } = Uint8Array.from(atob(packed.data), (character) => character.charCodeAt(0));
  const array = packed.type === "float32" ? Float64Array.from(new Float32Array(buffer)) : new Float64Array(buffer);
  return Object.assign(array, { shape: packed.shape });
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
const rowOf = (array, i, n) => array.subarray(i * n, (i + 1) * n);

/** x @ W + b, with W (x.length, n), two rows of it at a time: sizes are even. */
function linear(x, { weight, bias }) {
  const y = bias.slice(), n = y.length;
  for (let i = 0; i < x.length; i += 2) {
    const a = x[i], b = x[i + 1];
    for (let j = 0, k = i * n; j < n; j++, k++) y[j] += a * weight[k] + b * weight[k + n];
  }
  return y;
}

function layerNorm(x, { gain, shift }) {
  const mean = x.reduce((sum, value) => sum + value) / x.length, centred = x.map((value) => value - mean);
  const deviation = Math.sqrt(dot(centred, centred) / x.length + 1e-5);
  return centred.map((value, i) => (value / deviation) * gain[i] + shift[i]);
}

/** Adds weight * value, its pairs rotated by the phasors, to `sum`. */
function addRotated(sum, weight, value, phasors) {
  for (let f = 0; f < sum.length; f += 2) {
    sum[f] += weight * (value[f] * phasors[f] - value[f + 1] * phasors[f + 1]);
    sum[f + 1] += weight * (value[f] * phasors[f + 1] + value[f + 1] * phasors[f]);
  }
}

/** Normal distribution function: 1 / 2 + density (x + x³ / 3 + x⁵ / 15 + ...), all terms of one sign. */
function ndtr(x) {
  if (Math.abs(x) > 8) return x > 0 ? 1 : 0;
  let term = x, sum = x;
  for (let n = 3; Math.abs(term) > 1e-16 * Math.abs(sum); n += 2) sum += term *= (x * x) / n;
  return 0.5 + sum * Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
}

/** Output projection, residual and feed-forward layer of an attention; gelu(g) = g ndtr(g). */
function projectOut(pooled, { query, out, feed_forward: layer }) {
  const x = linear(pooled, out).map((value, i) => value + query[i]);
  const expanded = linear(layerNorm(x, layer.norm), layer.expand), half = expanded.length / 2;
  const gated = rowOf(expanded, 0, half).map((value, i) => value * expanded[half + i] * ndtr(expanded[half + i]));
  return linear(gated, layer.contract).map((value, i) => value + x[i]);
}

/** A trained POSSM that decodes one bin at a time. */
class PossmStream {
  constructor(constants) {
    const hidden = new Float64Array(constants.cell.from_h.weight.shape[0]);
    Object.assign(this, { c: constants, hidden, recent: [] });  // keys and values of the last k states, oldest first
    [this.nQueries, , this.contextBins, this.size] = constants.output.queries.shape;
  }

  /**
   * Units from 1 and seconds since the bin began, of each spike: behaviour at each query, Q rows of C in one array.
   * What was computed on the way is kept in `trace`.
   */
  step(units, offsets) {
    this.trace = { units, offsets, scores: [], weights: [], before: this.hidden, attention: [] };
    const x = units.length ? this.encode(units, offsets) : this.encode([0], [0]);  // a silent bin has a blank token
    this.hidden = this.gru(x, this.hidden);
    const kv = linear(layerNorm(this.hidden, this.c.output.norm_context), this.c.output.to_kv);
    this.recent = [...this.recent.slice(1 - this.contextBins), kv];
    const decoded = Float64Array.from(Array(this.nQueries).fill().flatMap((_, q) => [...this.decode(q)]));
    Object.assign(this.trace, { latent: x, after: this.hidden, decoded });
    return decoded;
  }

  /** e^{i omega (offset - middle)}, in pairs. */
  phasors(offset) {
    const { omega } = this.c.input, phasors = new Float64Array(this.size), time = offset - this.c.middleS;
    for (let f = 0; f < omega.length; f++) {
      phasors[2 * f] = Math.cos(omega[f] * time);
      phasors[2 * f + 1] = Math.sin(omega[f] * time);
    }
    return phasors;
  }

  /** What the latent asks, against what a spike of that unit offers at that time. */
  score(unit, phasors) {
    return dot(rowOf(this.c.input.table, unit, this.size), phasors);
  }

  weight(score) {
    return this.c.input.gain[0] * sigmoid(score + this.c.input.bias[0]);
  }

  /** Input attention: each spike adds its value, rotated by its time and weighted by its score. */
  encode(units, offsets) {
    const pooled = new Float64Array(this.size), { scores, weights } = this.trace;
    for (let i = 0; i < units.length; i++) {
      const phasors = this.phasors(offsets[i]);
      scores.push(this.score(units[i], phasors));
      weights.push(this.weight(scores[i]));
      addRotated(pooled, weights[i], rowOf(this.c.input.values, units[i], this.size), phasors);
    }
    return projectOut(pooled, this.c.input);
  }

  gru(x, h) {
    const n = h.length, fromX = linear(x, this.c.cell.from_x), fromH = linear(h, this.c.cell.from_h);
    const update = (this.trace.update = h.map((_, i) => sigmoid(fromX[n + i] + fromH[n + i])));
    return h.map((old, i) => {
      const reset = sigmoid(fromX[i] + fromH[i]);
      const candidate = Math.tanh(fromX[2 * n + i] + reset * fromH[2 * n + i]);
      return candidate + update[i] * (old - candidate);
    });
  }

  /** Output attention: behaviour (C,) at query q. */
  decode(q) {
    const { queries, phase, readout } = this.c.output, { recent, size } = this, pooled = new Float64Array(size);
    const oldest = (q + 1) * this.contextBins - recent.length;  // each state is read at its own age
    const weights = recent.map((kv, i) => Math.exp(dot(rowOf(kv, 0, size), rowOf(queries, oldest + i, size))));
    const total = weights.reduce((a, b) => a + b);
    this.trace.attention[q] = weights.map((weight) => weight / total);  // oldest state first
    recent.forEach((kv, i) => addRotated(pooled, weights[i] / total, rowOf(kv, 1, size), rowOf(phase, oldest + i, size)));
    return linear(projectOut(pooled, this.c.output), readout);
  }
}

/** Ridge regression on the root counts of the last bins; of a step only the number of spikes of each unit matters. */
class WienerStream {
  constructor(readout, nUnits) {
    Object.assign(this, { readout, nUnits, history: new Float64Array(readout.weight.shape[0]) });  // oldest bin first
  }

  step(units) {
    const counts = new Float64Array(this.nUnits);
    for (const unit of units) counts[unit - 1]++;
    this.history = Float64Array.from([...this.history.subarray(this.nUnits), ...counts.map(Math.sqrt)]);
    return linear(this.history, this.readout);
  }
}
