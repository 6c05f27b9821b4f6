"use strict";
// Chapter 02: what the size d does to the weights of sixteen keys.
// first: On the left a query shares its weight among sixteen keys. The longer the vectors are, the more of
//   the weight goes to a single key, unless the scores are divided by √d. Move both sliders.
// figure "02 size" at 60a4792b, from 7f82da53 340a7e07 6d939fa1:
//   {"scores": [all_k[:, :d] @ all_q[0, :d] for d in sizes], "mean": [mean_entropy[on] for on in (False, True)]}
{
  const { softmax, linspace, fixed } = axes;
  const entropy = (p) => -p.reduce((sum, x) => sum + (x > 0 ? x * Math.log2(x) : 0), 0);
  const SIZES = [[0, "1"], [5, "32"], [10, "1024"]];

  figures.define("02 size", {
    parameters: {
      d: { label: "size d", low: 1, high: 1024, value: 256, step: Math.log10(2), log: true, text: Math.round },
      scaled: { label: "divide by √d", low: 0, high: 1, value: 0, step: 1, text: (on) => (on ? "yes" : "no") },
    },
    panels: [
      { name: "weights of one query", x: [0.4, 16.6, "key", [1, 8, 16]], y: [0, 1, "weight", [0, 0.5, 1]] },
      { name: "mean entropy", x: [0, 10, "size d", SIZES], y: [0, 4.1, "mean entropy (bits)", [0, 2, 4]] },
    ],
    numbers({ d, scaled }, { scores, mean }) {
      const power = Math.round(Math.log2(d));
      const weights = softmax(scores[power].map((s) => (scaled ? s / Math.sqrt(2 ** power) : s)));
      return { power, weights, bits: entropy(weights), mean: mean[scaled][power] };
    },
    draw([bars, curves], { scaled }, n, { mean }) {
      bars.bars(linspace(1, 16, 16), n.weights, scaled ? "blue" : "orange");
      bars.line([0.4, 16.6], [1 / 16, 1 / 16], "gray", { width: 1.2, dash: "2 3" });
      bars.title(`one query, d = ${2 ** n.power}: ${fixed(n.bits, 2)} bits`);
      curves.line(linspace(0, 10, 11), mean[1], "blue");
      curves.line(linspace(0, 10, 11), mean[0], "orange", { dash: "7 4" });
      curves.dots([n.power], [n.mean], "ink", 6);
      curves.text(9.6, 2.95, "divided by √d", "blue", { anchor: "end" });
      curves.text(6.2, 1.2, "not divided", "orange", { anchor: "start" });
    },
    say: ({ scaled }, n) =>
      `At d = ${2 ** n.power}, ${scaled ? "divided by √d" : "not divided"}, ` +
      `the mean of 400 queries is ${fixed(n.mean, 2)} of 4 bits.`,
  });
}
