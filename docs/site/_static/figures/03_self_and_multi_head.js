"use strict";
// Chapter 03: eight people in a room, and whom two heads read at each stage of training.
// first: Eight people are in a room, and two heads look at them. The arcs show whom the chosen person reads.
//   Move the training step from 0 to 200. What has each head learned to look for?
// figure "03" at 17be9541, from 42cacb73 eacccd38:
//   {"seated": seated, "friend": friend, "rival": rival, "watched": torch.stack(toy.train(
//   lambda: toy.Asker(2), toy.rooms(4096, seed=0)[::3], n_starts=1, watch=X, n_steps=201, lr=0.02)[1])}
{
  const { linspace, fixed } = axes;
  const HALF_TURN = linspace(0, Math.PI, 40);

  figures.define("03", {
    parameters: {
      person: { label: "who asks", low: 0, high: 7, value: 0, step: 1, text: (seat, { seated }) => seated[seat] },
      step: { label: "training step", low: 0, high: 200, value: 200, step: 10 },
    },
    panels: [{ name: "who is read", x: [-0.75, 7.5], y: [-1.85, 1.85], bare: true, wide: true, height: 310 }],
    numbers: ({ person, step }, { watched }) => ({ weights: watched[step / 10].map((head) => head[person]) }),
    draw([room], { person }, { weights }, { seated, friend, rival }) {
      weights.forEach((head, h) => {
        const [color, side] = [["blue", 1], ["orange", -1]][h];
        head.forEach((weight, other) => {
          const [middle, radius] = [(person + other) / 2, Math.abs(person - other) / 2];
          const ys = HALF_TURN.map((angle) => side * (0.55 + 0.3 * Math.max(radius, 0.25) * Math.sin(angle)));
          const xs = HALF_TURN.map((angle) => middle + radius * Math.cos(angle));
          if (weight > 0.02) room.line(xs, ys, color, { width: 12 * weight });
          room.text(other, side * 0.36, fixed(weight, 2), color, { size: 12 });
        });
        room.text(-0.7, side * 1.6, `head ${h}`, color, { anchor: "start", size: 14 });
      });
      seated.forEach((name, seat) => {
        const mark = seat === friend[person] ? " F" : seat === rival[person] ? " R" : "";
        room.text(seat, 0, name + mark, "ink", { size: 13, weight: mark ? 700 : 400 });
      });
      room.dots([person], [0], "none", 19, "ink");
    },
    say: ({ person, step }, { weights }, { seated, friend, rival }) =>
      `After ${step} steps ${seated[person]} reads friend and rival with ` +
      weights.map((w, h) => `${fixed(w[friend[person]], 2)} and ${fixed(w[rival[person]], 2)} (head ${h})`).join(", ") +
      ".",
  });
}
