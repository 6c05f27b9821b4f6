"use strict";
// Chapter 19: what the Bayes classifier (19.3) says about eight targets as spikes come in, for a number of units.
// first: Which of eight targets will the hand go to? The bars say how probable each is after the spikes that have come, and
//   the curves on the right say it of all moments. The hand starts at 0 ms. How many units are needed to know by then?
// figure "19" at c19k011, from c19k002 c19k003 c19k011:
//   {"counts": counts[test[shown]], "expected": expected[shown], "right": [int(y[test[shown]])]}
{
  const { softmax, fixed } = axes;
  const ARROWS = [..."→↗↑↖←↙↓↘"];
  const [RANGE, TICKS] = [[0, 1], [0, 0.5, 1]];
  const BIN_MS = 50;
  const FIRST_MS = -250; // the end of the first bin, since the hand moves

  figures.define("19", {
    parameters: {
      n_units: { label: "units", low: 1, high: 50, value: 20, step: 1 },
      since_ms: { label: "time (ms)", low: FIRST_MS, high: 400, value: 0, step: BIN_MS },
    },
    panels: [
      { name: "now", x: [-0.6, 7.6, "target", ARROWS.map((arrow, k) => [k, arrow])], y: [...RANGE, "probability", TICKS] },
      { name: "all bins", x: [FIRST_MS, 400, "time since the hand moves (ms)", [-200, 0, 200, 400]], y: [...RANGE, "", TICKS] },
    ],
    numbers({ n_units, since_ms }, { counts, expected, right }) {
      const scores = expected.map(() => 0); // one for each target
      const p = counts.map((bin, t) => {
        expected.forEach((means, k) => {
          for (let unit = 0; unit < n_units; unit++) {
            scores[k] += bin[unit] * Math.log(means[t][unit]) - means[t][unit];
          }
        });
        return softmax(scores);
      });
      const now = Math.round((since_ms - FIRST_MS) / BIN_MS);
      return { p, now, right: right[0], best: p[now].indexOf(Math.max(...p[now])) };
    },
    draw([bars, curves], { since_ms }, n) {
      bars.bars(ARROWS.map((_, k) => k), n.p[n.now], ARROWS.map((_, k) => (k === n.right ? "orange" : "blue")));
      bars.title("orange: the true target");
      const times = n.p.map((_, t) => FIRST_MS + BIN_MS * t);
      curves.line([since_ms, since_ms], [0, 1], "gray", { width: 1.2, dash: "2 3" });
      ARROWS.forEach((_, k) => {
        const values = n.p.map((row) => row[k]);
        if (k !== n.right) curves.line(times, values, "blue", { width: 1.2 });
      });
      curves.line(times, n.p.map((row) => row[n.right]), "orange", { width: 2.5 });
      curves.dots([since_ms], [n.p[n.now][n.right]], "orange", 6);
      curves.title("in all bins");
    },
    say: ({ n_units }, n) =>
      `${n_units} unit${n_units === 1 ? "" : "s"}: ${ARROWS[n.best]} is the likeliest target, with ` +
      `${fixed(n.p[n.now][n.best], 2)}. The true one, ${ARROWS[n.right]}, has ${fixed(n.p[n.now][n.right], 2)}.`,
  });
}
