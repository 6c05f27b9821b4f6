// Formulas, by KaTeX. Where a displayed one is wider than its column, what \qquad separates is put on lines of its own;
// a line that is too wide even so is set smaller, or, where that would be too small, broken at its operators.
document.addEventListener("DOMContentLoaded", () => {
  const SMALLEST = 0.8;
  const whole = (latex) => [[/\{/, /\}/], [/\\begin\b/, /\\end\b/], [/\\left\b/, /\\right\b/]].every(([open, close]) =>
    latex.split(open).length === latex.split(close).length);

  function display(formula) {
    const latex = formula.textContent, number = latex.match(/\\tag\{([^}]+)\}/)?.[1];
    const pieces = latex.replace(/\\tag\{[^}]+\}/, "").split("\\qquad");
    formula.innerHTML = `<div></div>${number ? `<span>(${number})</span>` : ""}`;
    for (const piece of pieces.every(whole) ? pieces : [pieces.join("\\qquad")]) {
      const line = formula.firstChild.appendChild(document.createElement("div"));
      katex.render(piece, line, { displayMode: true, throwOnError: false });
    }
  }

  function fit({ target }) {
    const room = () => target.firstChild.clientWidth / target.firstChild.scrollWidth;
    target.style.fontSize = "";
    target.classList.remove("broken");
    target.classList.toggle("broken", room() < SMALLEST);
    const share = room();
    if (share < 1) target.style.fontSize = `${Math.floor(99 * share)}%`;
  }

  function keepStop(formula) { // no line begins with the stop or comma after a formula
    const after = formula.nextSibling, stop = after?.nodeType === Node.TEXT_NODE && after.data.match(/^[.,;:?!)]+/)?.[0];
    if (!stop) return;
    after.data = after.data.slice(stop.length);
    const together = document.createElement("span");
    together.className = "together";
    formula.replaceWith(together);
    together.append(formula, stop);
  }

  const displayed = document.querySelectorAll("div.math");
  for (const formula of document.querySelectorAll("span.math")) {
    katex.render(formula.textContent, formula, { throwOnError: false });
    keepStop(formula);
  }
  displayed.forEach(display);
  const columns = new ResizeObserver((resized) => requestAnimationFrame(() => resized.forEach(fit)));
  displayed.forEach((formula) => columns.observe(formula));
  document.fonts.addEventListener("loadingdone", () => displayed.forEach((target) => fit({ target })));
});
