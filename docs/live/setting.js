// Where the page is shown, before anything is drawn: in the frame of the first page, in light or in dark.
"use strict";

document.documentElement.classList.toggle("framed", window.name === "live");

/** As the switch of the course's pages has stored it, or else as the system prefers; on paper, light. */
function chooseTheme(event) {
  const system = matchMedia("(prefers-color-scheme: dark)").matches;
  let mode = null;
  try { mode = localStorage.getItem("mode"); } catch { /* a browser may keep nothing */ }
  const dark = event?.type !== "beforeprint" && (mode === "dark" || (mode !== "light" && system));
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  dispatchEvent(new Event("theme"));
}
chooseTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", chooseTheme);
for (const happens of ["storage", "pageshow", "beforeprint", "afterprint"]) addEventListener(happens, chooseTheme);
