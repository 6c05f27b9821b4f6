// Plays `decoded` (decoded_data.js): spikes in, velocity out, and the path of the hand, recorded and decoded.
document.addEventListener("DOMContentLoaded", () => {
  const INK = "#333333", GRAY = "#999999", PALE = "#e4e4e4", ORANGE = "#d55e00"; // as in possm_lite.course.style
  const SHOWN_MS = 3000, REST_MM_S = 25, START_MS = 4290, LIMIT_MM_S = 800, REACH_MM = 110;
  const canvas = document.getElementById("decoded"), button = document.getElementById("decoded-button");
  const pen = canvas.getContext("2d");
  const times = decoded.times_ms, length = times[times.length - 1];
  const step_s = (times[1] - times[0]) / 1000;

  // The decoder gives velocities. While the hand rests, the decoded path starts again from the hand.
  const hand = [[0, 0]], cursor = [[0, 0]], begins = [0];
  for (let i = 1; i < times.length; i++) {
    const rests = Math.hypot(...decoded.recorded[i]) < REST_MM_S;
    const moved = (from, velocity) => from.map((x, axis) => x + velocity[axis] * step_s);
    hand.push(moved(hand[i - 1], decoded.recorded[i]));
    cursor.push(rests ? hand[i] : moved(cursor[i - 1], decoded.decoded[i]));
    begins.push(rests ? i : begins[i - 1]);
  }
  const trail = (points, last) => points.slice(begins[last] === last ? Math.max(0, last - 1) : begins[last], last + 1);

  let now_ms = START_MS, running = false, previous = 0;

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio)) {
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const left = 0.64 * width, gap = 16, top = 22, raster = 0.52 * height;
    const x = (ms) => ((ms - now_ms) / SHOWN_MS + 1) * left;
    pen.font = "600 13px sans-serif";
    pen.textBaseline = "top";
    label("spikes in", 4, 2, INK);
    label("velocity out", 4, raster + 4, INK);
    label("the hand", left + gap, 2, GRAY);
    label("decoded", left + gap, 19, ORANGE);

    pen.fillStyle = INK;
    const from = firstAfter(decoded.spike_times_ms, now_ms - SHOWN_MS), row = (raster - top) / decoded.n_units;
    for (let i = from; i < decoded.spike_times_ms.length && decoded.spike_times_ms[i] <= now_ms; i++) {
      pen.fillRect(x(decoded.spike_times_ms[i]), top + decoded.spike_units[i] * row, 1.5, Math.max(2, row));
    }
    const last = Math.min(firstAfter(times, now_ms), times.length - 1), first = firstAfter(times, now_ms - SHOWN_MS);
    const track = (height - raster - top) / 2;
    for (const axis of [0, 1]) {
      const middle = raster + top + (axis + 0.5) * track;
      for (const [velocity, color, line] of [[decoded.recorded, GRAY, 3.5], [decoded.decoded, ORANGE, 1.8]]) {
        const y = (i) => middle - (velocity[i][axis] / LIMIT_MM_S) * 0.5 * track;
        stroke(range(first, last).map((i) => [x(times[i]), y(i)]), color, line);
      }
    }
    const scale = (Math.min(width - left - gap, height - 40) / 2 - 4) / REACH_MM;
    const center = [(left + gap + width) / 2, 36 + (height - 36) / 2];
    const place = ([px, py]) => [center[0] + px * scale, center[1] - py * scale];
    stroke(range(first, last).map((i) => place(hand[i])), PALE, 5);
    for (const [points, color, line] of [[hand, GRAY, 5], [cursor, ORANGE, 2.5]]) {
      const path = trail(points, last).map(place);
      stroke(path, color, line);
      pen.beginPath();
      pen.arc(...path[path.length - 1], color === GRAY ? 9 : 6, 0, 2 * Math.PI);
      pen.fillStyle = color;
      pen.fill();
    }
  }

  function label(text, px, py, color) {
    pen.fillStyle = color;
    pen.fillText(text, px, py);
  }

  function stroke(points, color, line) {
    pen.beginPath();
    points.forEach((point) => pen.lineTo(...point));
    [pen.strokeStyle, pen.lineWidth, pen.lineJoin] = [color, line, "round"];
    pen.stroke();
  }

  const range = (first, last) => Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

  function firstAfter(sorted, value) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function frame(ms) {
    if (!running) return;
    now_ms += Math.min(ms - previous, 100);
    if (now_ms > length) now_ms = SHOWN_MS;
    previous = ms;
    draw();
    requestAnimationFrame(frame);
  }

  function run(wanted) {
    running = wanted;
    button.textContent = running ? "Pause" : "Play";
    previous = performance.now();
    if (running) requestAnimationFrame(frame);
  }

  button.addEventListener("click", () => run(!running));
  window.addEventListener("resize", draw);
  draw();
  run(!matchMedia("(prefers-reduced-motion: reduce)").matches);
});
