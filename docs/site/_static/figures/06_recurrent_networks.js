"use strict";
// Chapter 06: a state that a gate holds on to (6.3), and how long half of it lasts (6.4).
// first: Two pulses come, one up and one down (gray bars). In each bin the gate Z (orange) says how much of the
//   old state is kept (blue). With which values of the sliders is most of the first pulse left at the end?
// figure "06" at 4e9803ee
{
  const { linspace, fixed } = axes;
  const SECONDS = linspace(0, 3.45, 70);
  const TIME = [0, 3.45, "time (s)", [0, 1, 2, 3]];
  const PULSES = { 10: 1, 40: -1 };

  figures.define("06", {
    parameters: {
      hold: { label: "Z while nothing comes", low: 0.5, high: 0.99, value: 0.9, step: 0.001 },
      second: { label: "Z at the second pulse", low: 0, high: 1, value: 0.5, step: 0.05 },
    },
    panels: [
      { name: "gate over time", x: TIME, y: [-0.05, 1.1, "gate Z", [0, 1]], wide: true, height: 150 },
      { name: "state over time", x: TIME, y: [-1.1, 1.1, "state H", [-1, 0, 1]], wide: true, height: 250 },
    ],
    numbers({ hold, second }) {
      const gate = SECONDS.map((_, t) => ({ 10: 0.1, 40: second })[t] ?? hold);
      const state = [0];
      for (let t = 1; t < 70; t++) state.push(gate[t] * state[t - 1] + (1 - gate[t]) * (PULSES[t] ?? 0));
      return { gate, state, half: (0.05 * Math.log(0.5)) / Math.log(hold) };
    },
    draw([above, below], _p, { gate, state }) {
      const edges = SECONDS.flatMap((at) => [Math.max(at - 0.025, 0), Math.min(at + 0.025, 3.45)]);
      above.line(edges, gate.flatMap((z) => [z, z]), "orange");
      below.line([0, 3.45], [0, 0], "gray", { width: 1 });
      below.bars([SECONDS[10], SECONDS[40]], [1, -1], "gray", 0.03);
      below.line(SECONDS, state, "blue", { width: 1.5 });
      below.dots(SECONDS, state, "blue", 2.5);
    },
    handles: [
      { panel: 0, moves: "hold", vertical: true, color: "orange", at: ({ hold }) => [1.2, hold] },
      { panel: 0, moves: "second", vertical: true, color: "blue", at: ({ second }) => [2, second] },
    ],
    say: (_p, { half }) => `Half is left after ${fixed(half, 2)} s.`,
  });
}
