"use strict";
// Chapter 09: a damaged face, what a Hopfield network makes of it, and the energy on the way.
// first: A face was damaged (left). A network that has stored it among other patterns repairs it (middle).
//   How much damage can it repair, and among how many patterns?
// figure "09" at ee9f6c40, from 69485728 8a59b9d2 ee9f6c40:
//   {"patterns": ["".join("-+"[int(unit > 0)] for unit in row) for row in torch.cat([face[None], others])[:60]],
//   "shuffle": shuffle, "orders": (lambda g: [torch.randperm(N, generator=g) for _ in range(4)])(
//   torch.Generator().manual_seed(8))}
{
  const { linspace, fixed } = axes;
  const rows = (pattern) => linspace(0, 11, 12).map((row) => pattern.slice(12 * row, 12 * row + 12));

  figures.define("09", {
    parameters: {
      percent: { label: "wrong in the cue (%)", low: 0, high: 100, value: 30, step: 1 },
      n_patterns: { label: "patterns stored M", low: 1, high: 60, value: 12, step: 1 },
    },
    start: (data) => ({ ...data, patterns: data.patterns.map((row) => [...row].map((sign) => Number(`${sign}1`))) }),
    panels: [
      { name: "cue", x: [0, 12], y: [0, 12], bare: true, square: true, basis: 150 },
      { name: "state at the end", x: [0, 12], y: [0, 12], bare: true, square: true, basis: 150 },
      { name: "energy", x: [0, 4, "sweeps", [0, 2, 4]], y: [-115, 10, "energy E", [-100, -50, 0]], basis: 220 },
    ],
    numbers({ percent, n_patterns }, { patterns, shuffle, orders }) {
      const [stored, N] = [patterns.slice(0, n_patterns), shuffle.length];
      const state = [...patterns[0]];
      for (const unit of shuffle.slice(0, Math.round((percent / 100) * N))) state[unit] *= -1;
      const cue = [...state];
      // with s . x for each pattern x, neither a field (9.2) nor an energy (9.3) needs the weights (9.1)
      const products = (s) => stored.map((x) => x.reduce((sum, unit, i) => sum + unit * s[i], 0));
      const energyOf = (all) => -0.5 * (all.reduce((sum, product) => sum + product ** 2, 0) / N - n_patterns);
      const own = products(state);
      const energy = [energyOf(own)];
      for (const order of orders) {
        for (const i of order) {
          const field = stored.reduce((sum, x, m) => sum + x[i] * own[m], 0) - n_patterns * state[i]; // times N
          if (field * state[i] < 0) {
            state[i] *= -1;
            stored.forEach((x, m) => (own[m] += 2 * state[i] * x[i]));
          }
          energy.push(energyOf(own));
        }
        if (energy.at(-1) === energy.at(-1 - N)) break; // each change lowers the energy, so nothing has changed
      }
      return { cue, state, energy, overlap: own[0] / N, of_face: energyOf(products(patterns[0])) };
    },
    draw([cue, end, course], { percent }, n) {
      cue.image(rows(n.cue), -1, 1);
      cue.title(`cue: ${Math.round((percent / 100) * n.cue.length)} wrong`);
      end.image(rows(n.state), -1, 1);
      end.title(`end: overlap ${fixed(n.overlap, 2)}`);
      course.line(n.energy.map((_, i) => i / n.state.length), n.energy, "blue");
      course.line([0, 4], [n.of_face, n.of_face], "orange", { dash: "6 4" });
      course.title("dashed: the face");
    },
    say: (_p, n) => `Of 144 units ${n.state.length * (1 + n.overlap) / 2} are those of the face.`,
  });
}
