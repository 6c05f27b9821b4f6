// The search. Order of its results: chapters, what they can do without, guides, and then the reference.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false; // there, no page may read another
var Scorer = {
  score([name, , , , score]) {
    const orders = [/^(?!possm_|api$)/, /_deeper$/, /^\d\d_(?!.*_deeper$)/]; // the last that fits counts
    return score + 1000 * orders.findLastIndex((order) => order.test(name));
  },
  // as Sphinx has them (searchtools.js)
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};

// A search that finds nothing offers the words of the glossary and of all headings that are spelled almost the same.
document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");

  function distance(a, b) { // letters to change, to leave out or to put in
    let row = [...Array(b.length + 1).keys()];
    for (let i = 1; i <= a.length; i++) {
      const above = row;
      row = [i];
      for (let j = 1; j <= b.length; j++) {
        row.push(Math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] !== b[j - 1])));
      }
    }
    return row[b.length];
  }

  function meant(query) {
    const headings = Object.keys(Search._index.alltitles).join(" ").toLowerCase().match(/[a-z]{4,}/g);
    const known = new Set([...GLOSSARY_WORDS, ...headings]);
    const words = (query.toLowerCase().match(/[a-z]{4,}/g) ?? []).filter((word) => !known.has(word));
    const pairs = words.flatMap((word) => [...known].map((other) => ({ word, other, far: distance(word, other) })));
    const near = pairs.filter(({ word, far }) => far <= (word.length > 5 ? 2 : 1)).sort((a, b) => a.far - b.far);
    return near.slice(0, 3).map(({ word, other }) => query.toLowerCase().replace(word, other));
  }

  function link(text, url) {
    return Object.assign(document.createElement("a"), { textContent: text, href: url });
  }

  function offer() {
    const status = results.querySelector(".search-summary");
    if (!status?.textContent) return; // still searching
    observer.disconnect();
    if (results.querySelector("ul.search > li")) return;
    const queries = meant(new URLSearchParams(location.search).get("q"));
    const offers = queries.flatMap((query) => [", ", link(query, `search.html?q=${encodeURIComponent(query)}`)]).slice(1);
    status.replaceChildren("Nothing was found. ", ...(offers.length ? ["Did you mean: ", ...offers, "? "] : []),
      "The words of the course are in the ", link("glossary", "GLOSSARY.html"), ".");
  }

  const observer = new MutationObserver(offer);
  observer.observe(results, { childList: true, subtree: true });
  offer();
});
