"use strict";
// Figures that react: sliders, and points that are dragged or moved with the arrow keys.
// A file beside this one calls figures.define(name, {...}) with
//   parameters  {name: {label, low, high, value, step, log, hidden, text(value)}}: a slider each, but for hidden ones
//   panels      [{name, x: [low, high], y, xlabel, ylabel, xticks, yticks, height, log, square, bare}]
//   start(data) made once of the page's data;  numbers(p, data): all that is drawn;  draw(panels, p, numbers, data)
//   handles     [{panel, label, at(p, numbers) -> [x, y], to(x, y, p) -> changed parameters, keys: [dx, dy]}]
//   say(p, numbers): the line below the figure
// and prepare.py puts <figure class="moving" data-figure="name">, with the data inside, where the figure belongs.
const figures = (() => {
  const { Panel, element, short, clip } = axes;
  const defined = {};
  const mounted = {};

  function mount(place) {
    const spec = defined[place.dataset.figure];
    const given = JSON.parse(place.querySelector("script").textContent);
    const data = spec.start ? spec.start(given) : given;
    const box = element("div", { class: "panels" }, place);
    const looks = typeof spec.panels === "function" ? spec.panels(data) : spec.panels;
    const handles = spec.handles ?? [];
    const panels = looks.map((look, i) => new Panel(look, box, handles.some((handle) => handle.panel === i)));
    const p = Object.fromEntries(Object.entries(spec.parameters).map(([name, { value }]) => [name, value]));
    const shown = {};
    let numbers;

    function set(changed) {
      for (const [name, wanted] of Object.entries(changed)) {
        const { low, high, step, log } = spec.parameters[name];
        const value = clip(wanted, low, high);
        p[name] = step && !log ? Number((low + Math.round((value - low) / step) * step).toFixed(6)) : value;
      }
      render();
    }

    for (const [name, { label, low, high, step, log, hidden }] of Object.entries(spec.parameters)) {
      if (hidden) continue;
      const row = element("label", {}, place);
      element("span", {}, row, label);
      const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
      const input = element("input", { type: "range", min: from, max: to, step: step ?? (to - from) / 100 }, row);
      shown[name] = { input, output: element("output", {}, row) };
      input.addEventListener("input", () => set({ [name]: log ? 10 ** Number(input.value) : Number(input.value) }));
    }
    const caption = element("figcaption", { "aria-live": "polite" }, place);

    const knobs = handles.map((handle) => {
      const panel = panels[handle.panel];
      const look = { class: "handle", r: 9, tabindex: 0, role: "slider", "aria-label": handle.label };
      const knob = element("circle", { ...look, style: `fill:var(--${handle.color ?? "orange"})` }, panel.svg);
      const move = (px, py) => set(handle.to(...panel.inverse(px, py), p));
      knob.addEventListener("pointerdown", (event) => knob.setPointerCapture(event.pointerId));
      knob.addEventListener("pointermove", (event) => {
        if (!knob.hasPointerCapture(event.pointerId)) return;
        const corner = panel.svg.getBoundingClientRect();
        move(event.clientX - corner.left, event.clientY - corner.top);
      });
      knob.addEventListener("keydown", (event) => {
        const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!step) return;
        event.preventDefault();
        const [x, y] = handle.at(p, numbers, data);
        const keys = handle.keys ?? [(panel.x[1] - panel.x[0]) / 50, (panel.y[1] - panel.y[0]) / 50];
        set(handle.to(x + step[0] * keys[0], y + step[1] * keys[1], p));
      });
      return knob;
    });

    function render() {
      numbers = spec.numbers(p, data);
      for (const [name, { input, output }] of Object.entries(shown)) {
        const { log, text } = spec.parameters[name];
        input.value = log ? Math.log10(p[name]) : p[name];
        output.textContent = (text ?? short)(p[name], data);
        input.setAttribute("aria-valuetext", output.textContent);
      }
      panels.forEach((panel) => panel.begin());
      spec.draw(panels, p, numbers, data);
      handles.forEach((handle, i) => {
        const [x, y] = handle.at(p, numbers, data);
        const where = { cx: panels[handle.panel].px(x), cy: panels[handle.panel].py(y) };
        Object.entries(where).forEach(([key, value]) => knobs[i].setAttribute(key, value));
        knobs[i].setAttribute("aria-valuenow", handle.value ? handle.value(p) : y);
        knobs[i].setAttribute("aria-valuetext", short(handle.value ? handle.value(p) : y));
      });
      caption.textContent = spec.say(p, numbers, data);
    }

    new ResizeObserver(render).observe(box);
    mounted[place.dataset.figure] = (changed) => spec.numbers({ ...p, ...changed }, data);
    render();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("figure.moving").forEach(mount));
  const define = (name, spec) => (defined[name] = spec);
  const numbers = (name, changed) => mounted[name](changed); // for the tests
  return { define, numbers };
})();
