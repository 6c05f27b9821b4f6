"use strict";
// Chapter 05: F random frequencies, the kernel that their features make, and the one they are an estimate of (5.4).
// first: Waves of random frequencies (left) are averaged into one curve (right, orange). With more of them the
//   curve comes closer to the dashed one. What does their spread change?
// figure "05" at aaa30c5e, from 9bbfcecc:
//   {"eps": torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)}
{
  const { linspace, fixed } = axes;
  const LAGS = linspace(0, 2, 201);
  const N_BARS = 25;

  figures.define("05", {
    parameters: {
      n_freqs: { label: "number of frequencies F", low: 1, high: 1000, value: 20, log: true, text: Math.round },
      sigma: { label: "spread σ (rad/s)", low: 0.5, high: 10, value: 4, log: true },
    },
    panels: [
      { name: "histogram of the frequencies", x: [-30, 30, "ω (rad/s)", [-30, 0, 30]], y: [0, 1], basis: 200 },
      { name: "kernel", x: [0, 2, "time between, τ (s)", [0, 1, 2]], y: [-1.1, 1.1, "kernel ψ", [-1, 0, 1]] },
    ],
    numbers({ n_freqs, sigma }, { eps }) {
      const omega = eps.slice(0, Math.round(n_freqs)).map((noise) => sigma * noise);
      const bars = omega.map((w) => Math.floor(((w + 30) / 60) * N_BARS));
      const counts = linspace(0, N_BARS - 1, N_BARS).map((bar) => bars.filter((at) => at === bar).length);
      const estimate = LAGS.map((lag) => omega.reduce((sum, w) => sum + Math.cos(w * lag), 0) / omega.length);
      const exact = LAGS.map((lag) => Math.exp(-0.5 * (sigma * lag) ** 2));
      const worst = Math.max(...exact.map((psi, i) => Math.abs(psi - estimate[i])));
      return { counts, estimate, exact, worst };
    },
    draw([histogram, kernel], { n_freqs }, n) {
      const most = Math.max(...n.counts);
      const shares = n.counts.map((count) => count / most);
      histogram.bars(linspace(-28.8, 28.8, N_BARS), shares, "blue", 2.1);
      histogram.tick(histogram.left - 6, histogram.py(1) + 4, String(most), "end");
      histogram.title(`F = ${Math.round(n_freqs)}`);
      kernel.line(LAGS, n.exact, "ink", { dash: "7 4" });
      kernel.line(LAGS, n.estimate, "orange");
      kernel.text(1.98, 0.95, "orange: estimate Φ·Φ", "orange", { anchor: "end" });
      kernel.text(1.98, 0.72, "dashed: closed form (5.4)", "ink", { anchor: "end" });
    },
    say: (_p, n) => `At worst the estimate is ${fixed(n.worst, 2)} away from the closed form.`,
  });
}
