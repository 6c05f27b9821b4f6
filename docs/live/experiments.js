// Four experiments, the game among them, and the picture that one may keep. Each sets the switches of the page. An
// experiment starts once the visitor has guessed, and its answer appears when it is over.
"use strict";

const LOSE_EVERY_BINS = 5, KEPT_SIZE = 480, WRITE_S = 20;

class Experiments {
  constructor() {
    this.running = "";  // name of the experiment whose button is pressed
    this.writing = null;  // points of the grid since writing began, and when it ends
    for (const item of document.querySelectorAll("[data-experiment]")) {
      const button = item.querySelector("button"), name = item.dataset.experiment;
      button.dataset.start = button.textContent;
      button.textContent = "Guess first";
      button.disabled = true;
      button.setAttribute("aria-pressed", false);
      for (const input of item.querySelectorAll(".guess input")) {
        for (const kind of ["input", "pointerup"]) input.addEventListener(kind, () => this.guess(item, input));
      }
      button.addEventListener("click", () => (this.running === name ? this.stop() : this.start(name)));
    }
    find("#write").addEventListener("click", () => (this.writing ? this.written() : this.write()));
    find("#copy").addEventListener("click", () => this.copy());
  }

  guess(item, input) {
    const button = item.querySelector("button"), output = item.querySelector(".guess output");
    item.dataset.guess = output ? `${input.value} of ${output.dataset.of}` : input.value;
    if (output) output.value = item.dataset.guess;
    if (!button.disabled) return;
    button.disabled = false;
    button.textContent = button.dataset.start;
  }

  start(name) {
    this.stop();
    if (guide.step !== "network") guide.show("network");
    this.running = name;
    const item = find(`[data-experiment=${name}]`), button = item.querySelector("button");
    button.setAttribute("aria-pressed", true);
    button.textContent = "Stop, and see";
    item.querySelector(".why").hidden = true;
    if (paused) setPaused(false);
    if (name === "noise") setNoise(30);
    if (name === "ahead") check("ahead", 2);
    if (name === "loop") this.play();
    for (const part of stuck.matches ? [item, button] : []) part.scrollIntoView({ block: "nearest" });
  }

  play() {
    check("drawn", "cursor");
    setDemonstrating(false);
    loop.game = new Game();
    find(".target").hidden = false;
    document.body.classList.add("playing");
    this.follow();
    arena.focus({ preventScroll: true });
    if (!stuck.matches) arena.scrollIntoView({ block: "nearest" });
  }

  /** Ends what is running and shows its answer, after the visitor's guess and result. */
  stop(result = "") {
    if (!this.running) return;
    const item = find(`[data-experiment=${this.running}]`), button = item.querySelector("button"), name = this.running;
    button.setAttribute("aria-pressed", false);
    button.textContent = button.dataset.start;
    const why = item.querySelector(".why"), guessed = why.querySelector("b") ?? document.createElement("b");
    guessed.textContent = `You guessed: ${item.dataset.guess}. ${result}`;
    why.prepend(guessed);
    why.hidden = false;
    if (stuck.matches) why.scrollIntoView({ block: "nearest" });
    this.running = "";
    if (name === "lose") setLost(0);
    if (name === "noise") setNoise(0);
    if (name === "ahead") check("ahead", 1);
    if (name === "loop") {
      loop.game = null;
      find("#message").textContent = "";
      find(".target").hidden = true;
      document.body.classList.remove("playing");
      check("drawn", "paths");
    }
  }

  /** After a bin. */
  update() {
    const lost = loop.units.silent.reduce((a, b) => a + b, 0);
    if (this.running === "lose" && lost === loop.units.n) this.stop();
    if (this.running === "lose" && loop.nBins % LOSE_EVERY_BINS === 0) setLost(lost + 1);
    if (loop.game) this.follow();
  }

  /** A game is one of one setting. */
  restart() {
    if (loop.game) loop.game = new Game();
  }

  follow() {
    const { game } = loop, reached = game.times.filter((time) => time !== null);
    if (game.target) {  // who listens is told of the rings, not of the seconds
      const left = Math.ceil(game.timeoutS - game.shownS - 1e-9);
      const said = `Ring ${game.times.length + 1} of 8<span aria-hidden="true"> · ${left} s left</span> · ${reached.length} reached`;
      if (find("#message").innerHTML !== said) find("#message").innerHTML = said;
      return;
    }
    // a target that was not reached counts with the time that it was shown
    const times = game.times.map((time) => time ?? game.timeoutS).sort((a, b) => a - b);
    const median = (times[3] + times[4]) / 2;
    const ahead = ["of now", "50 ms ahead", "100 ms ahead"][loop.ahead], lost = loop.units.silent.reduce((a, b) => a + b, 0);
    const cells = [NAMES[loop.decoder], ahead, lost, `${loop.units.noiseHz} Hz`, loop.pulled ? "yes" : "no",
      `${reached.length} of 8`, `${median.toFixed(1)} s`];
    find("#results tbody").insertRow(0).append(...cells.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    find("#results").hidden = false;
    this.stop(`You reached ${reached.length} of 8. `);
    find("#message").textContent = `${reached.length} of 8 rings, median time ${median.toFixed(1)} s.`;
  }

  // ---- a picture to keep: the path of the hand, and below it what the neurons said
  write() {
    setDemonstrating(false);
    if (paused) setPaused(false);
    if (guide.step !== "network") guide.show("network");
    this.stop();
    loop.anewS = Infinity;  // one path, that does not drift away
    document.body.classList.add("own-way");
    loop.pulled = true;
    loop.fromHand();
    this.writing = { from: loop.nBins * loop.perBin, hand: [], decoded: [] };
    find("#write").setAttribute("aria-pressed", true);
    find("#write").textContent = "Done";
    find("#message").textContent = `Write your name in the square, in ${WRITE_S} s.`;
    find("#kept").hidden = false;
  }

  /** While a name is written: the points that were drawn since the last frame are kept. */
  keep() {
    if (!this.writing) return;
    const { from, hand, decoded } = this.writing, end = loop.nBins * loop.perBin;
    for (let i = from + hand.length; i < end; i++) {
      hand.push(Array.from(loop.handAt(i * GRID_S).slice(0, 2)));
      decoded.push(loop.path[i % KEPT]);
    }
    this.drawKept();
    if (hand.length * GRID_S >= WRITE_S) this.written();
  }

  written() {
    this.writing = null;
    choose();  // what is drawn, as before
    find("#write").setAttribute("aria-pressed", false);
    find("#write").textContent = "Write your name";
    find("#message").textContent = "";
    find("#save").href = find("#kept canvas").toDataURL("image/png");
  }

  drawKept() {
    const canvas = find("#kept canvas"), pen = canvas.getContext("2d"), scale = KEPT_SIZE / (2 * edge);
    [canvas.width, canvas.height] = [2 * KEPT_SIZE, KEPT_SIZE + 40];
    pen.fillStyle = theme.paper;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.lineJoin = pen.lineCap = "round";
    for (const [i, color, title] of [[0, theme.hand, "my hand"], [1, theme.decoded, "what the neurons said"]]) {
      pen.beginPath();
      (i ? this.writing.decoded : this.writing.hand).forEach(([x, y]) => {
        pen.lineTo(i * KEPT_SIZE + (x + edge) * scale, 40 + (edge - y) * scale);
      });
      pen.strokeStyle = color;
      pen.lineWidth = 4;
      pen.stroke();
      label(pen, title, i * KEPT_SIZE + 12, 28, color, 22);
    }
  }

  async copy() {
    const blob = await new Promise((done) => find("#kept canvas").toBlob(done));
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
      find("#message").textContent = "Copied.";
    } catch {
      find("#message").textContent = "This browser does not copy pictures from here: save it instead.";
    }
  }
}

const stuck = matchMedia("(max-width: 700px)");  // where the style sheet keeps the square in view
const experiments = new Experiments(), guide = new Guide();
setLost(0);
setNoise(0);
find("#delay").textContent = (loop.w.handDelayS + 2 * loop.w.armS).toFixed(2);  // and the arm's, when it moves steadily
choose();
guide.show("network");
find("#told").innerHTML = "New here? Meet one neuron first, then eight, then all. It takes a minute.";
if (still) {
  begin = performance.now();
  draw();
} else {
  setDemonstrating(true);
  setPaused(false);
}
