// Plays `decoded` (decoded_data.js): spikes in, coloured by preferred direction, and the path of the hand, recorded and
// decoded. Draws with the functions of the live page (live/pictures.js).
document.addEventListener("DOMContentLoaded", () => {
  const RASTER_MS = 3000, LIT_MS = 120, REST_MM_S = 25, START_MS = 4290, REACH_MM = 110;
  const GRAY = "#999999", ORANGE = "#d55e00";
  const canvas = find("#decoded"), button = find("#decoded-button");
  const { times_ms: times, directions_deg: directions, spike_times_ms: spikes, spike_units: units } = decoded;
  const stepS = (times[1] - times[0]) / 1000, radians = directions.map((degrees) => (degrees * Math.PI) / 180);
  const colors = radians.map(directionColor);
  const row = [];
  [...directions.keys()].sort((a, b) => directions[a] - directions[b]).forEach((unit, i) => { row[unit] = i; });

  // The decoder gives velocities. While the hand rests, the decoded path starts again from the hand.
  const hand = [[0, 0]], cursor = [[0, 0]], begins = [0];
  for (let i = 1; i < times.length; i++) {
    const rests = Math.hypot(...decoded.recorded[i]) < REST_MM_S;
    const moved = (from, velocity) => from.map((x, axis) => x + velocity[axis] * stepS);
    hand.push(moved(hand[i - 1], decoded.recorded[i]));
    cursor.push(rests ? hand[i] : moved(cursor[i - 1], decoded.decoded[i]));
    begins.push(rests ? i : begins[i - 1]);
  }
  let nowMs = START_MS, running = false, previous = 0;

  function draw() {
    const { pen, width, height } = fresh(canvas), ink = getComputedStyle(canvas).color, left = 0.64 * width, top = 22;
    const glow = new Float64Array(directions.length), each = (height - top) / directions.length;
    label(pen, "spikes in", 4, 14, ink);
    label(pen, "movement out", left + 16, 14, ink);
    spikes.forEach((ms, i) => {
      const ago = nowMs - ms;
      if (ago < 0 || ago > RASTER_MS) return;
      pen.fillStyle = colors[units[i]];
      pen.fillRect(left * (1 - ago / RASTER_MS), top + row[units[i]] * each, 2.5, Math.max(2, each));
      glow[units[i]] += Math.exp(-ago / LIT_MS) / 2;
    });
    const last = times.findLastIndex((ms) => ms <= nowMs);
    const scale = (Math.min(width - left - 16, height - 44) / 2 - 4) / REACH_MM, middle = (left + 16 + width) / 2;
    const place = ([x, y]) => [middle + x * scale, 22 + height / 2 - y * scale], at = place(cursor[last]);
    [pen.lineCap, pen.lineJoin] = ["round", "round"];
    glow.forEach((lit, unit) => {  // an arrow for each unit, which lights up as it fires
      const rad = radians[unit], share = Math.min(1, lit);
      pen.globalAlpha = 0.12 + 0.88 * share;
      line(pen, colors[unit], 1.2 + share, 0, 2, (end) => {
        const radius = end ? 16 + 24 * share : 13;
        return [at[0] + radius * Math.cos(rad), at[1] - radius * Math.sin(rad)];
      });
    });
    pen.globalAlpha = 1;
    for (const [path, color, wide, radius] of [[hand, GRAY, 5, 9], [cursor, ORANGE, 2.5, 6]]) {
      line(pen, color, wide, begins[last], last + 1, (i) => place(path[i]));
      disc(pen, ...place(path[last]), radius, color);
    }
  }

  function frame(ms) {
    nowMs += Math.min(ms - previous, 100);
    if (nowMs > times[times.length - 1]) nowMs = RASTER_MS;
    previous = ms;
    draw();
    if (running) requestAnimationFrame(frame);
  }

  function run(wanted) {
    running = wanted;
    button.textContent = running ? "Pause" : "Play";
    if (running) requestAnimationFrame(frame);
  }

  button.addEventListener("click", () => run(!running));
  addEventListener("resize", draw);
  draw();
  run(!matchMedia("(prefers-reduced-motion: reduce)").matches);
});
