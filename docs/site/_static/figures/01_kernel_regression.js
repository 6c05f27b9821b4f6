"use strict";
// Chapter 01: the estimate at every query, all weights, and the leave-one-out error; w and the query move.
// first: Each dot is a measured velocity of a hand, with an error. Move a slider or an orange handle.
//   When does the blue curve follow the hand, and when does it follow the errors?
// figure "01" at 93e06cbd, from d1b05a9d:
//   {"x": x_i, "y": y_i}
{
  const { linspace, softmax, fixed } = axes;
  const weights = (x, points, w) => softmax(points.map((xi) => -0.5 * (w * (x - xi)) ** 2));
  const mean = (shares, values) => shares.reduce((sum, share, i) => sum + share * values[i], 0);

  function looError({ x, y }, w) {
    const errors = x.map((query, i) => {
      const others = (values) => values.filter((_, j) => j !== i);
      return (y[i] - mean(weights(query, others(x), w), others(y))) ** 2;
    });
    return Math.sqrt(errors.reduce((a, b) => a + b, 0) / errors.length);
  }

  figures.define("01", {
    parameters: {
      w: { label: "w, one over the width (1/s)", low: 1, high: 300, value: 10, log: true },
      query: { label: "query x (s)", low: 0, high: 2, value: 0.4, step: 0.01 },
    },
    start(data) {
      const ws = linspace(0, Math.log10(300), 80).map((power) => 10 ** power);
      return { ...data, queries: linspace(0, 2, 121), ws, errors: ws.map((w) => looError(data, w)) };
    },
    panels({ x, y, errors }) {
      const [low, high] = [Math.min(...y), Math.max(...y)];
      const heights = [low - 0.45 * (high - low), high + 0.08 * (high - low), "y (mm/s)", [-400, -200, 0, 200, 400]];
      const losses = [0, 1.1 * Math.max(...errors), "error (mm/s)", [0, 50, 100, 150]];
      const [times, queries] = [[0, 2, "x (s)", [0, 0.5, 1, 1.5, 2]], [2, 0, "query x (s)", [0, 1, 2]]];
      const columns = [0.5, x.length + 0.5, "point, in order of x", [1, x.length]];
      return [
        { name: "points, estimate and kernel", x: times, y: heights, wide: true, height: 240 },
        { name: "weights of all points, a row for each query", x: columns, y: queries, height: 200 },
        { name: "leave-one-out error", x: [1 / 1.2, 360, "w (1/s)", [1, 10, 100]], y: losses, log: true, height: 200 },
      ];
    },
    numbers({ w, query }, { x, y, queries }) {
      const matrix = queries.map((q) => weights(q, x, w));
      const share = weights(query, x, w);
      const effective = 1 / mean(share, share);
      const estimate = matrix.map((row) => mean(row, y));
      return { matrix, estimate, share, effective, answer: mean(share, y), error: looError({ x, y }, w) };
    },
    draw([points, matrix, error], { w, query }, n, { x, y, queries, ws, errors }) {
      const [floor, top] = points.y;
      const u = linspace(-4, 4, 81);
      const bump = u.map((at) => floor + 0.24 * (top - floor) * Math.exp(-0.5 * at ** 2));
      points.area(u.map((at) => axes.clip(query + at / w, 0, 2)), bump, "orange");
      points.dots(x, y, "gray", n.share.map((share) => Math.sqrt(6 + 260 * share)), "ink");
      points.line(queries, n.estimate, "blue");
      points.line([query, query], [floor, n.answer], "orange", { width: 1.2, dash: "5 4" });
      const largest = Math.max(...n.matrix.flat());
      matrix.image(n.matrix, 0, largest);
      matrix.line([0.5, x.length + 0.5], [query, query], "orange", { width: 1.5, dash: "5 4" });
      matrix.title(`weights, from 0 to ${fixed(largest, 2)}`);
      error.line(ws, errors, "blue");
      error.title(`leave-one-out ${fixed(n.error, 0)} mm/s`);
    },
    handles: [
      { panel: 0, moves: "query", at: ({ query }, n) => [query, n.answer] },
      { panel: 2, moves: "w", at: ({ w }, n) => [w, n.error] },
    ],
    say: ({ query }, n) =>
      `At ${fixed(query, 2)} s the estimate is ${fixed(n.answer, 0)} mm/s. ` +
      `It listens to about ${fixed(n.effective, 1)} of the ${n.share.length} points.`,
  });
}
