"use strict";
// Chapter 11: one bin as its query reads it (11.2): the weights of its spikes, and one pair of what is read.
// first: On the left are the spikes of one bin, each with its weight. On the right each adds an arrow, from
//   tip to tail, and the dashed line leads to their sum, which is what a query reads. Drag the orange spike: what
//   becomes of its arrow?
// figure "11" below 83e8cb49, from 8d631e26 4580e617 637861d7 82343e08 83e8cb49 f7294a94:
//   (lambda own: {"units": batch.unit[own], "ms": 1000 * batch.offset[own], "omega": omega,
//   "score": P[batch.unit[own]], "value": V[batch.unit[own], :2 * F]})(batch.bin == tokens_in_bin.argmin())
{
  const { softmax, fixed } = axes;
  const HALVES = [0, 25, 50];
  const later = (x, _y, { spike }, { ms }) => ({ shift: x - ms[spike - 1] });
  const place = ({ spike }, { moved }, { units }) => [moved[spike - 1], units[spike - 1]];

  function read({ spike, shift, pair }, { ms, omega, score, value }) {
    const moved = ms.map((at, i) => (i === spike - 1 ? axes.clip(at + shift, 0, 50) : at));
    const angles = moved.map((at) => omega.map((w) => (w * (at - 25)) / 1000));
    const wave = (row, P) => row.reduce((sum, a, f) => sum + P[f] * Math.cos(a) + P[8 + f] * Math.sin(a), P[16]);
    const weights = softmax(angles.map((row, i) => wave(row, score[i])));
    const [x, y] = [[0], [0]]; // the sum (11.3) of the pair, spike by spike
    weights.forEach((p, i) => {
      const [a, re, im] = [angles[i][pair - 1], value[i][2 * pair - 2], value[i][2 * pair - 1]];
      x.push(x[i] + p * (re * Math.cos(a) - im * Math.sin(a)));
      y.push(y[i] + p * (re * Math.sin(a) + im * Math.cos(a)));
    });
    return { moved, weights, x, y };
  }

  // the square that holds the arrows of a pair, wherever the chosen spike is moved to: its middle, and half its side
  function square({ spike, pair }, data) {
    const drawn = axes.linspace(0, 50, 40).map((to) => read({ spike, pair, shift: to - data.ms[spike - 1] }, data));
    const numbers = [drawn.flatMap(({ x }) => x), drawn.flatMap(({ y }) => y)];
    const ends = numbers.map((all) => [Math.min(...all), Math.max(...all)]);
    const half = 0.55 * Math.max(...ends.map(([low, high]) => high - low));
    return { middle: ends.map(([low, high]) => (low + high) / 2), half };
  }

  figures.define("11", {
    parameters: {
      spike: { label: "spike to move", low: 1, high: 8, value: 4, step: 1, text: (i, at) => `unit ${at.units[i - 1]}` },
      shift: { label: "later by (ms)", low: -50, high: 50, value: 0, step: 0.5 },
      pair: { label: "pair f", low: 1, high: 8, value: 5, step: 1 },
    },
    panels: [
      { name: "spikes of the bin", x: [-1, 57, "time in the bin (ms)", HALVES], y: [0, 121, "unit", [1, 60, 120]] },
      { name: "values", x: [-1, 1, "first number"], y: [-1, 1, "second number"], square: true },
    ].map((panel) => ({ ...panel, height: 300 })),
    numbers: read,
    draw([bin, plane], { spike, pair }, n, data) {
      const { units, omega } = data, { middle, half } = square({ spike, pair }, data);
      const tick = [5, 2, 1].map((n) => n * 10 ** Math.floor(Math.log10(half))).find((step) => step < half);
      const within = (at) => axes.linspace(-4, 4, 9).map((n) => n * tick).filter((to) => Math.abs(to - at) < half);
      [plane.x, plane.y] = middle.map((at) => [at - half, at + half]);
      [plane.xticks, plane.yticks] = middle.map(within);
      plane.begin();
      bin.line([25, 25], [0, 121], "gray", { width: 1, dash: "4 4" });
      bin.dots(n.moved, units, "blue", n.weights.map((p) => 14 * Math.sqrt(p)));
      bin.title("weights; dashed: the query");
      n.weights.forEach((p, i) => {
        bin.text(n.moved[i] + 2, units[i] + 4, fixed(p, 3), "ink", { anchor: "start", size: 11 });
        const color = i === spike - 1 ? "orange" : "sky";
        plane.arrow(n.x.slice(i, i + 2), n.y.slice(i, i + 2), color);
      });
      plane.line([0, n.x.at(-1)], [0, n.y.at(-1)], "blue", { width: 2, dash: "6 4" });
      plane.dots([n.x.at(-1)], [n.y.at(-1)], "blue", 6);
      plane.title(`pair ${pair}: a period of ${axes.short((2000 * Math.PI) / omega[pair - 1])} ms`);
    },
    handles: [{ panel: 0, moves: "shift", at: place, to: later }],
    say: (_p, n) => `The pair of z is (${fixed(n.x.at(-1), 3)}, ${fixed(n.y.at(-1), 3)}), all weights together are 1.`,
  });
}
