"use strict";
// Chapter 04: a query and a key that rotate with their positions, and the score of many pairs at a distance.
// first: A query and a key are arrows that rotate with their positions. Move the first slider: both arrows
//   rotate, but their dot product stays the same. Which slider changes it?
// figure "04 rotation" at ec7fa854:
//   {"q": [1.2, 0.5], "k": [0.9, 1.0]}
// figure "04 phasors" at 835818e7
{
  const { linspace, fixed } = axes;
  const dot = ([a, b], [c, d]) => a * c + b * d;
  const rotate = ([x, y], a) => [x * Math.cos(a) - y * Math.sin(a), x * Math.sin(a) + y * Math.cos(a)];
  const arrow = (panel, [x, y], color, name) => {
    panel.line([0, x], [0, y], color, { width: 2.6 });
    panel.dots([x], [y], color, 5);
    panel.text(1.16 * x, 1.16 * y, name, color, { size: 15 });
  };
  const DISTANCES = linspace(-20, 20, 321);

  figures.define("04 rotation", {
    parameters: {
      m: { label: "position m of the query", low: 0, high: 20, value: 3, step: 1 },
      distance: { label: "distance n − m", low: -20, high: 20, value: 4, step: 1 },
      theta: { label: "angle per position θ (°)", low: 0, high: 60, value: 20, step: 1 },
    },
    panels({ q, k }) {
      const [size, most] = [1.3 * Math.max(Math.hypot(...q), Math.hypot(...k)), Math.hypot(...q) * Math.hypot(...k)];
      const ticks = [[-most, fixed(-most, 1)], 0, [most, fixed(most, 1)]];
      const distances = [-21, 21, "distance n − m", [-20, -10, 0, 10, 20]];
      return [
        { name: "query and key", x: [-size, size], y: [-size, size], square: true, bare: true, height: 250 },
        { name: "dot product", x: distances, y: [-1.25 * most, 1.25 * most, "dot product", ticks], height: 250 },
      ];
    },
    numbers({ m, distance, theta }, { q, k }) {
      const angle = (theta * Math.PI) / 180;
      const at = (n) => dot(q, rotate(k, angle * n));
      const arrows = [rotate(q, angle * m), rotate(k, angle * (m + distance))];
      return { arrows, curve: DISTANCES.map(at), product: dot(...arrows) };
    },
    draw([plane, scores], { m, distance }, n, { q, k }) {
      plane.line(plane.x, [0, 0], "gray", { width: 0.7 });
      plane.line([0, 0], plane.y, "gray", { width: 0.7 });
      [q, k].forEach(([x, y], i) => plane.line([0, x], [0, y], ["blue", "orange"][i], { width: 1.4, dash: "5 4" }));
      arrow(plane, n.arrows[0], "blue", "q");
      arrow(plane, n.arrows[1], "orange", "k");
      plane.title(`query at m = ${m}, key at n = ${fixed(m + distance, 0)}`);
      scores.line(DISTANCES, n.curve, "gray");
      scores.title(`dot product ${fixed(n.product, 2)}`);
    },
    handles: [{ panel: 1, moves: "distance", color: "ink", at: ({ distance }, n) => [distance, n.product] }],
    say: ({ distance }, n) => `Dot product ${fixed(n.product, 2)} at n − m = ${fixed(distance, 0)}, whatever m is.`,
  });

  const HALF = 16; // pairs, of d = 32 and base 10,000
  const GRID = linspace(0, 60, 61);
  const turned = (distance) => linspace(0, HALF - 1, HALF).map((j) => distance * 1e4 ** (-j / HALF));
  const score = (distance) => turned(distance).reduce((sum, angle) => sum + Math.cos(angle), 0) / HALF;

  figures.define("04 phasors", {
    parameters: {
      distance: { label: "distance n − m (positions)", low: 0, high: 60, value: 8, step: 1 },
    },
    panels: [
      { name: "phasors of 16 pairs", x: [-0.6, 4.05], y: [-4.05, 0.6], square: true, bare: true, height: 270 },
      { name: "score", x: [0, 60, "n − m", [0, 30, 60]], y: [-1.1, 1.1, "score", [-1, 0, 1]], height: 270 },
    ],
    numbers: ({ distance }) => ({ angles: turned(distance), curve: GRID.map(score), score: score(distance) }),
    draw([faces, scores], _p, n) {
      const radius = 0.5 * (faces.px(1) - faces.px(0));
      n.angles.forEach((angle, j) => {
        const [x, y] = [1.15 * (j % 4), -1.15 * Math.floor(j / 4)];
        const [color, width] = angle < Math.PI / 2 ? ["blue", 4] : ["gray", 1.6];
        faces.dots([x], [y], "none", radius, "gray");
        faces.line([x, x + 0.42 * Math.cos(angle)], [y, y + 0.42 * Math.sin(angle)], color, { width });
      });
      faces.title("thick: less than a quarter of a round");
      scores.line(GRID, GRID.map(Math.cos), "gray", { width: 1.2, dash: "5 4" });
      scores.line(GRID, n.curve, "blue", { width: 1.6 });
      scores.title("dashed: one frequency, 1");
    },
    handles: [{ panel: 1, moves: "distance", color: "ink", at: ({ distance }, n) => [distance, n.score] }],
    say: ({ distance }, n) => `The score at a distance of ${distance} is ${fixed(n.score, 2)}.`,
  });
}
