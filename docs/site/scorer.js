// Order of the results of a search: chapters, what they can do without, guides, and then the reference.
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
