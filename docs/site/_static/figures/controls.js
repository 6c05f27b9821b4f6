"use strict";
// Figures that react: sliders, and points that are dragged or moved with the arrow keys.
// A file beside this one calls figures.define(name, {...}) with
//   parameters  {name: {label, low, high, value, step, log, hidden, text(value)}}: a slider each, but for hidden ones
//   panels      [{name, x: [low, high, label, ticks], y: as x, height, log, square, bare, wide, basis}]
//   start(data) made once of the page's data;  numbers(p, data): all that is drawn;  draw(panels, p, numbers, data)
//   handles     [{panel, color, at(p, numbers, data) -> [x, y]}] of the parameter that x moves, or y if vertical
// and say(p, numbers, data), the line below. prepare.py puts <figure class="moving" data-figure="name"> in the page.
const figures = (() => {
  const { Panel, element, short, clip } = axes;
  const defined = {};
  const mounted = {};

  function mount(place) {
    const spec = defined[place.dataset.figure];
    const given = JSON.parse(place.querySelector("script").textContent);
    const data = spec.start ? spec.start(given) : given;
    const sliders = element("div", {}, place); // above the panels, so that both are in view
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
      const row = element("label", {}, sliders);
      element("span", {}, row, label);
      const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
      const input = element("input", { type: "range", min: from, max: to, step: step ?? (to - from) / 100 }, row);
      shown[name] = { input, output: element("output", {}, row) };
      input.addEventListener("input", () => set({ [name]: log ? 10 ** Number(input.value) : Number(input.value) }));
    }
    const caption = element("figcaption", { "aria-live": "polite" }, place);

    const knobs = handles.map((handle) => {
      const panel = panels[handle.panel];
      const { label, low, high, step = (high - low) / 50, log } = spec.parameters[handle.moves];
      const range = { role: "slider", "aria-label": label, "aria-valuemin": low, "aria-valuemax": high };
      const look = { class: "handle", r: 9, tabindex: 0, ...range };
      const knob = element("circle", { ...look, style: `fill:var(--${handle.color ?? "orange"})` }, panel.svg);
      knob.addEventListener("pointerdown", (event) => knob.setPointerCapture(event.pointerId));
      knob.addEventListener("pointermove", (event) => {
        if (!knob.hasPointerCapture(event.pointerId)) return;
        const corner = panel.svg.getBoundingClientRect();
        const place = panel.inverse(event.clientX - corner.left, event.clientY - corner.top);
        set(handle.to ? handle.to(...place, p, data) : { [handle.moves]: place[handle.vertical ? 1 : 0] });
      });
      knob.addEventListener("keydown", (event) => {
        const sign = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
        if (!sign) return;
        event.preventDefault();
        set({ [handle.moves]: log ? p[handle.moves] * 1.1 ** sign : p[handle.moves] + sign * step });
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
        const now = { "aria-valuenow": p[handle.moves], "aria-valuetext": short(p[handle.moves]) };
        const where = { cx: panels[handle.panel].px(x), cy: panels[handle.panel].py(y) };
        Object.entries({ ...now, ...where }).forEach(([key, value]) => knobs[i].setAttribute(key, value));
      });
      caption.textContent = spec.say(p, numbers, data);
    }

    new ResizeObserver(render).observe(box);
    mounted[place.dataset.figure] = (changed) => spec.numbers({ ...p, ...changed }, data);
    render();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("figure.moving").forEach(mount));
  return { define: (name, spec) => (defined[name] = spec), numbers: (name, changed) => mounted[name](changed) };
})();
