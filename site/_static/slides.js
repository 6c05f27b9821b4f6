// Formulas first, while all slides can be measured; then the show. Keys: space, s for the notes, o for all slides.
const WIDEST = 1180; // px, of a formula

function fit(formula) {
    const drawn = formula.querySelector("svg").getBoundingClientRect().width;
    if (drawn > WIDEST) formula.style.fontSize = `${Math.floor(100 * WIDEST / drawn)}%`;
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
