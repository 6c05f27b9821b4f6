// Formulas first, while all slides can be measured; then the show. Keys: space, s for the notes, o for all slides.
const WIDEST = 1180; // px, of a formula
const ROOM = 600; // px, of the height of 720

function fit(formula) {
    const drawn = formula.querySelector("svg").getBoundingClientRect().width;
    if (drawn > WIDEST) formula.style.fontSize = `${Math.floor(100 * WIDEST / drawn)}%`;
}

// a printed table whose lines would be broken is set smaller
function narrow(result) {
    result.style.whiteSpace = "pre";
    if (result.scrollWidth > result.clientWidth) Object.assign(result.style, {fontSize: "20px", letterSpacing: "-0.5px"});
    result.style.whiteSpace = "";
}

// few words without a picture are set larger, as far as they leave room around them
function enlarge(slide) {
    if (slide.querySelector("img")) return;
    slide.style.height = "auto";
    for (const size of [1.4, 1.2, 1]) {
        slide.style.setProperty("--larger", size);
        if (slide.offsetHeight <= ROOM) break;
    }
    slide.style.height = "";
}

window.MathJax = {
    tex: { inlineMath: [["$", "$"], ["\\(", "\\)"]], tags: "none" },
    svg: { fontCache: "local" },
    options: { enableMenu: false },
    startup: {
        typeset: false,
        ready() {
            MathJax.startup.defaultReady();
            MathJax.typesetPromise().then(() => {
                document.querySelectorAll(".jp-OutputArea-output pre").forEach(narrow);
                document.querySelectorAll("section section").forEach(enlarge);
                document.querySelectorAll("section mjx-container[display='true']").forEach(fit);
                // the speaker's window has none of our styles, and would show both
                document.querySelectorAll("aside.notes mjx-assistive-mml").forEach(extra => extra.remove());
                Reveal.initialize({
                    width: 1280, height: 720, margin: 0, center: false, hash: true, transition: "none",
                    slideNumber: "c/t", controls: false, plugins: [RevealNotes],
                });
            });
        },
    },
};
