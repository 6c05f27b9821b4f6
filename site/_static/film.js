// A film is an interactive figure without a kernel: its frames were drawn beforehand, a slider steps through them.
document.addEventListener("DOMContentLoaded", () => {
  for (const film of document.querySelectorAll("figure.film")) {
    const [image, slider, shown] = ["img", "input", "output"].map((name) => film.querySelector(name));
    const label = film.querySelector("label").firstChild.textContent.trim();
    const values = JSON.parse(film.dataset.values);
    const frame = (i) => `${film.dataset.frames}${String(i).padStart(2, "0")}.png`;
    const show = () => {
      image.src = frame(slider.value);
      image.alt = `The figure at ${label} = ${values[slider.value]}.`;
      shown.textContent = values[slider.value];
    };
    slider.addEventListener("input", show);
    const load = () => values.forEach((_, i) => (new Image().src = frame(i)));
    for (const near of ["focus", "pointerenter"]) slider.addEventListener(near, load, { once: true });
  }
});
