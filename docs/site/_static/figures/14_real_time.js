"use strict";
// Chapter 14: the user (14.4) and the cursor (14.5) of the closed loop, with a decoder that makes no mistake.
// first: A user steers a cursor into eight rings, one after the other. Make the decoder later. From which latency
//   on does the cursor swing around its ring?
// figure "14" below 0480586d
{
  const { linspace, fixed } = axes;
  const TARGETS = linspace(0, 7, 8).map((i) => [80 * Math.cos(0.75 * Math.PI * i), 80 * Math.sin(0.75 * Math.PI * i)]);
  const [DT, STEPS, BINS, EYE_S, KAPPA, FASTEST, RADIUS, HOLD, TIMEOUT] = [0.01, 5, 80, 0.1, 5, 400, 20, 20, 300];
  const [SCREEN, MM] = [[-125, 125], [-100, 0, 100]];

  figures.define("14", {
    parameters: {
      latency_ms: { label: "extra latency (ms)", low: 0, high: 400, value: 0, step: 10 },
      gain: { label: "gain of the cursor", low: 0.2, high: 3, value: 1, step: 0.1 },
    },
    panels: [
      { name: "path", x: [...SCREEN, "x (mm)", MM], y: [...SCREEN, "y (mm)", MM], square: true, height: 320 },
      { name: "distance", x: [0, 4, "time (s)", [0, 2, 4]], y: [0, 260, "distance (mm)", [0, 100, 200]], height: 320 },
    ],
    numbers({ latency_ms, gain }) {
      const [cursor, path, distance, arrivals] = [[[0, 0]], [], [], []];
      let [velocity, number, shownAt, outside] = [[0, 0], 0, 0, 0];
      const late = (delay) => Math.round((delay + latency_ms / 1000) / DT);
      const after = (delay) => cursor[Math.max(0, cursor.length - 1 - late(delay))];
      for (let bin = 0; bin < BINS; bin++) {
        const mean = [0, 0];
        for (let step = 0; step < STEPS; step++) {
          cursor.push(cursor.at(-1).map((x, axis) => x + DT * gain * velocity[axis]));
          const [screen, seen] = [after(0), after(EYE_S)];
          const away = (from) => TARGETS[number % 8].map((x, axis) => x - from[axis]);
          path.push(screen);
          distance.push(Math.hypot(...away(screen)));
          if (distance.at(-1) > RADIUS) outside = path.length;
          const reached = path.length - outside >= HOLD;
          if (reached) arrivals.push(outside * DT);
          if (reached || path.length - shownAt >= TIMEOUT) {
            number += 1;
            shownAt = outside = path.length;
          }
          const error = away(seen); // of the next target, where one was reached
          const factor = Math.min(KAPPA, FASTEST / Math.max(Math.hypot(...error), 1e-9));
          error.forEach((x, axis) => (mean[axis] += (x * factor) / STEPS));
        }
        velocity = mean; // what the user intended in this bin moves the cursor in the next one
      }
      return { x: path.map((at) => at[0]), y: path.map((at) => at[1]), distance, arrivals };
    },
    draw([screen, course], _p, n) {
      const radius = screen.px(RADIUS) - screen.px(0);
      TARGETS.forEach(([x, y], i) => {
        screen.dots([x], [y], "none", radius, "gray");
        screen.text(1.42 * x, 1.42 * y, String(i + 1));
      });
      screen.line(n.x, n.y, "blue", { width: 1.6 });
      screen.dots([n.x.at(-1)], [n.y.at(-1)], "blue", 6);
      course.line([0, 4], [RADIUS, RADIUS], "gray", { width: 1.2, dash: "5 4" });
      course.line(linspace(DT, 4, STEPS * BINS), n.distance, "blue", { width: 1.6 });
      course.dots(n.arrivals, n.arrivals.map(() => RADIUS), "orange", 5);
    },
    say: (_p, { arrivals }) => `${arrivals.length} targets reached in 4 s, with a decoder that makes no mistake.`,
  });
}
