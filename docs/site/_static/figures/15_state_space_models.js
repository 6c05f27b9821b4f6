"use strict";
// Chapter 15: the powers of a mode, a phasor that rotates and shrinks, by radius and angle and by its step size.
// first: A memory is knocked once and then left alone. Drag the orange point. When does the memory fade quickly,
//   when slowly, and when does it swing?
// figure "15 mode" below 68d01c2a
// figure "15 step" at af96190a
{
  const { linspace, fixed } = axes;
  const polar = (x, y) => ({ r: Math.hypot(x, y), theta: Math.atan2(y, x) });
  const UNIT = [-1, 0, 1];
  const powers = (r, angle, n) => {
    const length = linspace(0, n - 1, n).map((l) => r ** l);
    const part = (of) => length.map((x, l) => x * of(l * angle));
    return { length, real: part(Math.cos), imaginary: part(Math.sin) };
  };
  const panels = (time) => [
    { name: "powers", x: [-1.1, 1.1, "real", UNIT], y: [-1.1, 1.1, "imaginary", UNIT], square: true, height: 280 },
    { name: "their real part over time", x: time, y: [-1.1, 1.1, "real part of λˡ", UNIT], height: 280 },
  ];
  const draw = ([plane, wave], n, times) => {
    const circle = linspace(0, 2 * Math.PI, 90);
    plane.line(circle.map(Math.cos), circle.map(Math.sin), "gray", { width: 0.8 });
    plane.line(n.real, n.imaginary, "blue", { width: 1 });
    plane.dots(n.real, n.imaginary, "blue", 2.5);
    wave.line([0, times[times.length - 1]], [Math.exp(-1), Math.exp(-1)], "gray", { width: 1 });
    wave.line(times, n.length, "orange", { width: 1.6, dash: "6 4" });
    wave.line(times, n.real, "blue", { width: 1 });
    wave.dots(times, n.real, "blue", 2.5);
  };

  figures.define("15 mode", {
    parameters: {
      r: { label: "radius r", low: 0, high: 1.05, value: 0.93, step: 0.005 },
      theta: { label: "angle θ (rad)", low: -3.14, high: 3.14, value: 0.35, step: 0.01 },
    },
    panels: panels([0, 40, "steps since the knock, l", [0, 10, 20, 30, 40]]),
    numbers: ({ r, theta }) => powers(r, theta, 41),
    draw: (both, _p, n) => draw(both, n, linspace(0, 40, 41)),
    handles: [{ panel: 0, moves: "theta", at: (_p, n) => [n.real[1], n.imaginary[1]], to: polar }],
    say: ({ r }) => `Drag λ. The length is ${fixed(r, 3)} after a step, and ${fixed(r ** 40, 3)} after 40.`,
  });

  figures.define("15 step", {
    parameters: {
      delta: { label: "step size Δ", low: 0.01, high: 1, value: 0.05, log: true },
      m: { label: "mode m", low: 0, high: 15, value: 3, step: 1 },
    },
    panels: panels([0, 3, "time since the knock (s)", [0, 1, 2, 3]]),
    numbers: ({ delta, m }) => powers(Math.exp(-0.5 * delta), Math.PI * m * delta, 61),
    draw: (both, _p, n) => draw(both, n, linspace(0, 3, 61)),
    say: ({ delta, m }) => {
      const round = m ? `goes round in ${fixed(2 / (m * delta), 1)} bins` : "does not rotate";
      return `Fades to 1/e in ${fixed(2 / delta, 1)} bins, ${fixed(0.1 / delta, 2)} s, and ${round} (15.10).`;
    },
  });
}
