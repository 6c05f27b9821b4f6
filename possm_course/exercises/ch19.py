"""Exercises of chapter 19: a loss of classes, balanced accuracy, collapse, a forward step, a running text, a writer;
deeper: the best moment."""

import math
from functools import cache, partial
from itertools import groupby

import numpy as np
import torch

from possm_course.checks import Case, Complaint, as_tensor, edited, exercise, gradient, normal
from possm_course.checks.sandbox import checked

_normal = partial(normal, seed=19)


def _scored(*classes, weights=(1.0, 1.0, 1.0), scale=1.0):
    """Logits (n, 3) of trials of these classes, the classes, and weights."""
    return scale * _normal(len(classes), 3), torch.tensor(classes), torch.tensor(weights)


# Exercise 19.1: the loss of classes
@exercise(
    cases={
        "three trials, all classes alike": partial(_scored, 0, 2, 1),
        "classes that weigh differently": partial(_scored, 0, 2, 0, 0, 1, weights=(0.5, 2.0, 1.5)),
        "logits in the hundreds": partial(_scored, 0, 2, 1, scale=300.0),
        "the gradient": Case(partial(_scored, 0, 2, 0, 1, weights=(0.5, 2.0, 1.5)), gradient(0)),
    },
    mistakes={
        "w[y] * torch → torch": "the weights of the classes are not used. Each trial has the weight of its true class.",
        "torch.log_softmax(logits, -1) → logits": "logits are no logs of probabilities: take `log_softmax` of them.",
        "torch.log_softmax(logits, -1) → torch.softmax(logits, -1)": (
            "these are probabilities. The loss is of their logarithms."
        ),
        "torch.log_softmax(logits, -1) → torch.log_softmax(torch.softmax(logits, -1), -1)": (
            "the softmax is taken twice: `cross_entropy` and `log_softmax` want the logits as they are."
        ),
        "torch.log_softmax(logits, -1) → torch.log_softmax(logits, 0)": (
            "the softmax runs over the trials. It should run over the classes."
        ),
        "torch.log_softmax(logits, -1) → torch.softmax(logits, -1).log()": (
            "a probability is rounded to 0, and its logarithm is -inf: `log_softmax` does both in one."
        ),
        "torch.log_softmax(logits, -1) → torch.log(torch.softmax(logits, -1) + 1e-9)": (
            "a small number stands in the logarithm: with large logits it takes over. `log_softmax` needs none."
        ),
        "torch.log_softmax(logits, -1) → torch.softmax(logits, -1).clamp(min=1e-8).log()": (
            "probabilities are kept above a small number: with large logits it takes over. `log_softmax` needs none."
        ),
        "torch.log_softmax(logits, -1) → (logits.exp() / logits.exp().sum(-1, keepdim=True)).log()": (
            "`exp` of a large logit is infinite, and infinity over infinity is NaN. `log_softmax` takes no such `exp`."
        ),
        "[torch.arange(len(y)), y] → [:, y]": (
            "`[:, y]` takes every class in `y` of every trial, (n, n). Each trial has one true class."
        ),
        "w[y] * → (len(y) / (len(w) * torch.bincount(y, minlength=len(w))))[y] *": (
            "the weights were computed again from `y`. Use `w`, which comes from the training trials."
        ),
        "return -( → return (": "the sign: a loss is *minus* the log of the probability.",
        ").mean() → ).sum()": "this is the sum. Divide it by the number of trials.",
        ").mean() → ).sum() / len(w)": "divided by the number of classes. (19.2) divides by the number of trials.",
        ").mean() → ).sum() / w[y].sum()": (
            "divided by the sum of the weights, as torch's `weight=` does. (19.2) divides by the number of trials."
        ),
    },
)
def class_loss(logits, y, w):
    """Formula (19.2): logits (n, K), true classes y (n,), weights of the classes w (K,), to a scalar."""
    return -(w[y] * torch.log_softmax(logits, -1)[torch.arange(len(y)), y]).mean()


def _of_numpy(make):
    """The student gets NumPy arrays."""

    def observe(function, *args):
        return function(*(np.asarray(x) for x in args))

    return Case(make, observe)


def _choices(true, decoded):
    return _of_numpy(lambda: (torch.tensor(true), torch.tensor(decoded)))


# Exercise 19.2: balanced accuracy
@exercise(
    cases={
        "two classes, equally many": _choices([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]),
        "a decoder that always says the commonest class": _choices([0] * 9 + [1], [0] * 10),
        "three classes, unequally many": _choices([0, 0, 0, 0, 1, 1, 2], [0, 0, 1, 0, 1, 2, 2]),
        "a class that is decoded but never there": _choices([0, 0, 1, 1], [0, 2, 1, 1]),
        "classes that are not numbered from 0": _choices([7, 7, 7, 3], [7, 3, 7, 3]),
    },
    mistakes={
        "np.mean([(decoded[true == k] == k).mean() for k in np.unique(true)]) → (true == decoded).mean()": (
            "this is plain accuracy: the commonest class decides. Take the share of each class first, then their mean."
        ),
        "(decoded[true == k] == k).mean() for k in np.unique(true) → "
        "(true[decoded == k] == k).mean() for k in np.unique(decoded)": (
            "the shares are of the trials *decoded* as a class (precision). Take them of the trials that *are* of it."
        ),
        "(decoded[true == k] == k).mean() for k in np.unique(true) → "
        "(true[decoded == k] == k).mean() for k in np.unique(true)": (
            "each share is divided by the trials *decoded* as a class (precision). Divide by those that *are* of it."
        ),
        "(decoded[true == k] == k).mean() for k in np.unique(true) → "
        "(true[decoded == k] == k).mean() if k in decoded else 0.0 for k in np.unique(true)": (
            "each share is divided by the trials *decoded* as a class (precision). Divide by those that *are* of it."
        ),
        "(decoded[true == k] == k).mean() → ((decoded == k) & (true == k)).mean()": (
            "each share is divided by the number of all trials. Divide by the number of those that are of its class."
        ),
        "for k in np.unique(true) → for k in np.unique([*true, *decoded]) if (true == k).any() or True": (
            "a class that never occurs has no share: 0 / 0. Leave it out."
        ),
        "np.mean([(decoded[true == k] == k).mean() for k in np.unique(true)]) → "
        "np.sum([(decoded[true == k] == k).mean() for k in np.unique(true)]) / len(np.unique([*true, *decoded]))": (
            "divided by the number of all classes. A class that never occurs should not count."
        ),
        "np.unique(true) → range(len(np.unique(true)))": "classes need not be numbered from 0: `np.unique(true)`.",
        "np.mean([ → np.sum([": "this is the sum of the shares. Divide it by the number of classes.",
    },
)
def balanced_accuracy(true, decoded):
    """The mean, over the classes in `true` (n,), of the share of their trials that `decoded` (n,) has right."""
    return np.mean([(decoded[true == k] == k).mean() for k in np.unique(true)])


def _blanks_first(path):
    """A mistake: blanks go before repeats become one."""
    signs = [s for s in path if s]
    return [s for s, before in zip(signs, [0, *signs], strict=False) if s != before]


# Exercise 19.3: collapse
@exercise(
    cases={
        "every sign once": lambda: ([1, 2, 3],),
        "signs that last": lambda: ([1, 1, 2, 2, 2, 3],),
        "blanks before, between and after": lambda: ([0, 0, 1, 1, 0, 2, 0],),
        "a double letter": lambda: ([1, 0, 1, 1],),
        "letters that fall": lambda: ([3, 0, 1],),
        "a letter, another one, and the first again": lambda: ([1, 1, 2, 1],),
        "a letter that comes back long after": lambda: ([2, 0, 0, 0, 2, 0, 3, 0, 3],),
    },
    mistakes={
        _blanks_first: "blanks went before repeats became one, so a double letter is single. Repeats first.",
        "if s and s != before → if s": "a sign that lasts several bins is one letter.",
        "if s and s != before → if s != before": "blanks are still there. They say nothing, and go.",
        lambda path: [sign for sign, _ in groupby(path)]: "blanks are still there. They say nothing, and go.",
        lambda path: [path[i] for i in range(len(path)) if path[i] and path[i] != path[i - 1]]: (
            "the first sign was compared with the last one: in Python, index -1 counts from the end."
        ),
        lambda path: list(dict.fromkeys(s for s in path if s)): (
            "a letter that comes a second time is lost. Only repeats *side by side* become one."
        ),
        lambda path: sorted({s for s in path if s}): (
            "`set` forgets order and number. Only repeats *side by side* become one."
        ),
    },
)
def collapse(path):
    """The text of a path, a list of signs (blank: 0): repeats become one, then blanks go. A list."""
    return [s for s, before in zip(path, [0, *path], strict=False) if s and s != before]


def _grid(y, reached=None, K=4, before=0.0):
    """Logs of the states of a text, log-probabilities of one bin, and the text."""
    n = 2 * len(y) + 1
    alpha = _normal(n, seed=len(y)).log_softmax(-1) + before
    if reached is not None:
        alpha[reached:] = -torch.inf
    return alpha, _normal(K + 1, seed=5).log_softmax(-1), y


def _with_infinity(result):
    """Logs, in which every log of 0 is -inf, also where somebody wrote -10³⁰ for it."""
    logs = as_tensor(result)
    is_real = isinstance(logs, torch.Tensor) and logs.is_floating_point()
    return torch.where(logs < -1e20, -torch.inf, logs) if is_real else result


def _step_of(*args, **kwargs):
    """A step of the forward recursion, of which -10³⁰ counts as -inf."""
    return Case(partial(_grid, *args, **kwargs), lambda function, *given: _with_infinity(function(*given)))


_WRAPS = "in Python, index -1 counts from the end: at the first states, you take the *last* ones for those before."
_ZERO = "a state that cannot be reached has the log 0 in yours, but 0 is the log of 1. The log of 0 is -inf."
_OFTEN = "no letter that was there before is skipped to. Only between equal letters *side by side* must the blank stay."


# Exercise 19.4: one step of the forward recursion
@exercise(
    cases={
        "a text of one letter": _step_of([2]),
        "two different letters": _step_of([1, 3]),
        "a double letter": _step_of([2, 2]),
        "the second bin, where only two states were reached": _step_of([1, 3, 2], 2),
        "a long text, whose probabilities are 0 in float32": _step_of([1, 2, 2, 4], before=-300.0),
        "a letter, another one, and the first again": _step_of([1, 2, 1]),
    },
    mistakes={
        "letter != 0 and letter != signs[s - 2] → letter != 0": (
            "between two equal letters the blank was left out: collapsed, such a path has one letter."
        ),
        "letter != 0 and letter != signs[s - 2] → True": (
            "a blank was reached from the blank before: that leaves a letter out. Only a letter may skip a blank."
        ),
        "letter != 0 and letter != signs[s - 2] → letter != 0 and letter not in signs[:s]": _OFTEN,
        "letter != 0 and letter != signs[s - 2] → False": (
            "the way that leaves a blank out is missing: from a letter to the next, if the two differ."
        ),
        "[alpha[s]] → []": "the way that stays is missing: a sign may last several bins.",
        "[alpha[s]] → [alpha[s], *alpha.new_zeros(int(s < 1))]": _ZERO,
        "[alpha[s]] → [alpha[s], *alpha.new_zeros(int(s < 2))]": _ZERO,
        "[alpha[s]] → [alpha[s], alpha.new_zeros(())]": _ZERO,
        ("if s > 0: → if True:", "if s > 1 and → if"): _WRAPS,
        "if s > 0: → if True:": _WRAPS,
        "if s > 1 and → if": _WRAPS,
        ("new = [] → alpha = alpha.clone()", "new.append( → alpha[s] = (", "torch.stack(new) → alpha"): (
            "`alpha` was overwritten from below, so later states already read new numbers. Write to a new list."
        ),
        "ways.append(alpha[s - 1]) → pass": "the way from the state before is missing.",
        "torch.stack(ways).logsumexp(0) → torch.stack(ways).max(0).values": (
            "the best way was taken. (19.6) adds all ways: `logsumexp`."
        ),
        "torch.stack(ways).logsumexp(0) → torch.stack(ways).sum(0)": (
            "logs were added, so probabilities were multiplied. Ways add up: `logsumexp`."
        ),
        "torch.stack(ways).logsumexp(0) → torch.stack(ways).exp().sum().log()": (
            "probabilities were added, which are 0 in float32 in a long text. `logsumexp` adds them in logs."
        ),
        "torch.stack(ways).logsumexp(0) → max(ways) + (torch.stack(ways) - max(ways)).exp().sum().log()": (
            "where no path has come, the largest way is -inf, and -inf minus -inf is NaN. `logsumexp` minds that."
        ),
        "+ log_p[letter] → ": "the probability of the sign in this bin is missing.",
        "+ log_p[letter] → * log_p[letter]": "multiplied by the log of the probability. Logs are added.",
        "signs = [0, *(sign for letter in y for sign in (letter, 0))] → "
        "signs = [*(sign for letter in y for sign in (0, letter)), 0][::-1]": ("the letters stand in the wrong order."),
    },
)
def forward_step(alpha, log_p, y):
    """(19.6): log alpha (2L + 1,) of one bin to that of the next; its log_p (K + 1,), blank 0; y, a list of L signs."""
    signs = [0, *(sign for letter in y for sign in (letter, 0))]  # blanks around every letter
    new = []
    for s, letter in enumerate(signs):
        ways = [alpha[s]]
        if s > 0:
            ways.append(alpha[s - 1])
        if s > 1 and (letter != 0 and letter != signs[s - 2]):
            ways.append(alpha[s - 2])
        new.append(torch.stack(ways).logsumexp(0) + log_p[letter])
    return torch.stack(new)


# Exercise 19.5: how wrong is a text that is not finished?
@exercise(
    cases={
        "a text without an error": lambda: ("the", "there"),
        "a wrong letter": lambda: ("tke", "there"),
        "a letter too few": lambda: ("ter", "there"),
        "a letter too many": lambda: ("tthe", "there"),
        "longer than the right text": lambda: ("theresa", "there"),
        "nothing said": lambda: ("", "hand"),
        "an answer that begins elsewhere": lambda: ("and", "hand"),
        "two letters left out at the beginning": lambda: ("cdefgh", "abcdefgh"),
    },
    mistakes={
        "min(row) → row[-1]": (
            "letters still to come are counted as missing. Compare with the beginning of `right` that fits best."
        ),
        ("min(row) → row[-1]", "errors = [0] → errors = [len(right)]"): (
            "compared with all of `right`. Letters still to come are no errors: compare with its beginnings."
        ),
        "min(row) → min(row[min(i, len(right)) : i + 3])": (
            "only beginnings of about the length of what was said were tried. More letters may be left out or put in."
        ),
        "min(row) → min(row[: i + 2])": (
            "no beginning that is longer than what was said was tried. Letters may have been left out."
        ),
        lambda said, right: [sum(c not in right for c in said[:i]) for i in range(len(said) + 1)]: (
            "letters were counted that `right` does not have at all. Their order counts, too."
        ),
        lambda said, right: [sum(map(str.__ne__, said[:i], right)) for i in range(len(said) + 1)]: (
            "letters at equal places were compared. One letter left out or put in moves all that come after it."
        ),
        "above[j + 1] + 1, row[j] + 1 → row[j] + 1": "the way of a letter too many is missing: e(i - 1, j) + 1.",
        "above[j + 1] + 1, row[j] + 1 → above[j + 1] + 1": "the way of a letter left out is missing: e(i, j - 1) + 1.",
        "row = list( → said, right = right, said; row = list(": "`said` and `right` have changed places.",
        "min(row) → row[min(i + 1, len(right))]": (
            "compared with as many letters as were said. Letters left out or put in move the rest. Wanted is the best."
        ),
        "errors = [0] → errors = []": "the result begins with the empty text, which has no error: n + 1 numbers.",
        "(letter != wanted) → 2 * (letter != wanted)": "a changed letter costs two. It costs one.",
        "above, row = row, [i + 1] → above, row = row, [0]": (
            "letters said before the text begins cost nothing in yours. They were said, so they are errors."
        ),
        "row = list(range(len(right) + 1)) → row = [0] * (len(right) + 1)": (
            "letters left out at the beginning cost nothing in yours. They should cost one each."
        ),
        "return errors → return errors[-1]": "one number for each beginning of `said` is wanted, n + 1 of them.",
    },
)
def running_errors(said, right):
    """Fewest errors of each beginning of `said` (n letters), the empty one first, against the beginning of `right`
    that fits it best: a list of n + 1 whole numbers."""
    row = list(range(len(right) + 1))
    errors = [0]
    for i, letter in enumerate(said):
        above, row = row, [i + 1]
        for j, wanted in enumerate(right):
            row.append(min(above[j] + (letter != wanted), above[j + 1] + 1, row[j] + 1))
        errors.append(min(row))
    return errors


_TABLE = [[1, 2], [1, 1], [1, 3, 2], [2, 3], [1, 2, 1]]


def _bins(path, sure=0.8, K=3):
    """Log-probabilities of bins in which the signs of a path are likeliest, (T, K + 1)."""
    p = torch.full((len(path), K + 1), (1 - sure) / K)
    p[torch.arange(len(path)), torch.tensor(path)] = sure
    return (p.log() + 0.1 * _normal(*p.shape, seed=len(path))).log_softmax(-1)


def _step(writer, row):
    """The text that a student's writer returns after one more bin."""
    try:
        text = checked(writer.step)(row)
    except Complaint as error:  # a stub, or no `return`
        raise Complaint(str(error).replace("the function", "`step`")) from None
    if not isinstance(text, list | tuple | torch.Tensor) or any(isinstance(sign, str) for sign in text):
        raise Complaint("`step` should return a list of signs, which are whole numbers: all letters so far.")
    return list(text)


def _written(observed):
    """Observe a student's writer after all bins of a case."""

    def observe(make, log_p):
        writer = make([list(word) for word in _TABLE])
        texts = [_step(writer, row) for row in log_p]
        if observed == "text":
            return torch.tensor([[*text, *[0] * (len(log_p) - len(text))] for text in texts])
        result = getattr(writer, observed)()
        if result is None or result is ...:
            raise Complaint(f"`{observed}` is not there yet, or returns nothing; the parts before it are right.")
        return _with_infinity(result)

    return observe


def _alone(*edits):
    """A mistake in the writer that is not looked for beside another one: with all pairs, a check takes 9 s."""
    writer = cache(lambda: edited(Writer.reference, edits))
    return lambda words: writer()(words)


_ALL = "return torch.stack([alpha.logsumexp(0) for alpha in self.alphas])"  # of `begun`
_ENDED = "return torch.stack([alpha[-2:].logsumexp(0) for alpha in self.alphas])"  # of `whole`
_WAYS = "torch.stack([alpha, padded[1:-1], skipped])"
_PADDED = (
    "self.words = words → self.words = [[*word, *[0] * (max(map(len, words)) - len(word))] for word in words]; "
    "self.n = [2 * len(word) + 1 for word in words]"
)
_CLIPPED = "alpha, n in zip(self.alphas, self.n, strict=True)])"
_NORMALISED = "the numbers are made to add up over the table. Wanted are the logs as they are."


# Exercise 19.6: a decoder that writes
@exercise(
    cases={
        "the text, bin by bin": Case(lambda: (_bins([0, 1, 1, 0, 2, 2]),), _written("text")),
        "the text with a double letter": Case(lambda: (_bins([1, 0, 1, 1, 3]),), _written("text")),
        "`whole`, of a word": Case(lambda: (_bins([0, 1, 1, 0, 2, 2]),), _written("whole")),
        "`whole`, of a double letter": Case(lambda: (_bins([1, 1, 0, 1, 0]),), _written("whole")),
        "`whole`, of one bin, too short for any word": Case(lambda: (_bins([1]),), _written("whole")),
        "`begun`, of a word that is not finished": Case(lambda: (_bins([0, 1, 0, 3]),), _written("begun")),
        "`whole`, of sixty bins of a letter that most words do not have": Case(
            lambda: (_bins(60 * [3], 0.999999),), _written("whole")
        ),
    },
    mistakes={
        "if sign and sign != self.last → if sign": "a sign that lasts several bins is one letter.",
        "if sign and sign != self.last → if sign and (not self.said or sign != self.said[-1])": (
            "compared with the last *letter*, so a double letter is lost. Compare with the sign of the bin before, "
            "blank or not."
        ),
        "if sign and sign != self.last → if sign != self.last": "blanks are written. They say nothing.",
        "alpha[-2:] → alpha[-1:]": "a word may also end in its last letter, without a blank after it.",
        "alpha[-2:].logsumexp(0) → alpha.logsumexp(0)": (
            "paths that are still within the word were counted: `whole` wants those that have ended."
        ),
        "return torch.stack([alpha.logsumexp(0) → return torch.stack([alpha[-2:].logsumexp(0)": (
            "`begun` counts whole words alone. Paths that are still within the word count, too."
        ),
        "start[:2] = row[[0, word[0]]] → start[:] = row[[0, *(s for letter in word for s in (letter, 0))]]": (
            "in the first bin a path is at the first blank or the first letter, and nowhere else."
        ),
        "start[:2] = row[[0, word[0]]] → start[0] = row[0]": "a path may begin with the first letter, without a blank.",
        _alone(
            "sign = int(row.argmax()) → sign, n = int(row.argmax()), len(self.said)", "self.said\n → self.said[n:]\n"
        ): ("`step` returns the letters of this bin alone. Wanted are all letters so far."),
        _alone(
            "padded = torch.cat([torch.full((2,), -math.inf), alpha]) → padded = torch.cat([torch.zeros(2), alpha])"
        ): _ZERO,
        _alone("(signs[2:] != 0) & (signs[2:] != signs[:-2]) → signs[2:] != 0"): (
            "between two equal letters the blank was left out: collapsed, such a path has one letter."
        ),
        _alone(
            "(signs[2:] != 0) & (signs[2:] != signs[:-2]) → "
            "torch.tensor([s not in signs[:n] for n, s in enumerate(signs[2:], 2)])"
        ): _OFTEN,
        _alone("torch.where(skips, padded[:-2], -math.inf) → padded[:-2]"): (
            "a blank was reached from the blank before: that leaves a letter out. Only a letter may skip a blank."
        ),
        _alone("torch.where(skips, padded[:-2], -math.inf) → torch.full((len(signs),), -math.inf)"): (
            "the way that leaves a blank out is missing: from a letter to the next, if the two differ."
        ),
        _alone(f"{_WAYS}.logsumexp(0) → {_WAYS}.amax(0)"): "the best way was taken. (19.6) adds all ways: `logsumexp`.",
        _alone(f"{_WAYS}.logsumexp(0) → {_WAYS}.sum(0)"): (
            "logs were added, so probabilities were multiplied. Ways add up: `logsumexp`."
        ),
        _alone(f"{_WAYS}.logsumexp(0) → {_WAYS}.exp().sum(0).log()"): (
            "probabilities were added, which are rounded to 0 after many bins. `logsumexp` adds them in logs."
        ),
        _alone("if self.alphas is None: → if True:"): (
            "every bin is the first one in yours. Keep the logs of the bin before, and go on from them."
        ),
        _alone("alpha[-2:].logsumexp(0) → alpha[-2:].sum(0)"): (
            "logs were added, so probabilities were multiplied. The two ends of a word add up: `logsumexp`."
        ),
        _alone("alpha[-2:].logsumexp(0) → alpha[-2:].max()"): "the likelier end of a word was taken. (19.7) adds both.",
        _alone(
            f"{_ALL} → {_ALL.replace('logsumexp(0)', 'max()')}"
        ): "`begun` adds all states. The likeliest one was taken.",
        _alone(
            f"{_ALL} → {_ALL.replace('alpha.', 'alpha[:-1].')}"
        ): "`begun` adds *all* states, also those at the end.",
        _alone(
            f"{_ALL} → {_ALL.replace('alpha.', 'alpha[:-2].')}"
        ): "`begun` adds *all* states, also those at the end.",
        _alone(f"{_ALL} → {_ALL}.log_softmax(0)"): _NORMALISED,
        _alone(f"{_ENDED} → {_ENDED}.log_softmax(0)"): _NORMALISED,
        _alone(_PADDED, f"{_ENDED} → return torch.stack([alpha[n - 2 : n].logsumexp(0) for {_CLIPPED}"): (
            "short words were filled up, and `begun` counts the states that were put in. It should leave them out."
        ),
        _alone(_PADDED, f"{_ALL} → return torch.stack([alpha[:n].logsumexp(0) for {_CLIPPED}"): (
            "short words were filled up, and `whole` takes the states that were put in for the end of the word."
        ),
    },
)
class Writer:
    """Writes while the bins come: `words` is a table, a list of lists of signs; the blank is sign 0."""

    def __init__(self, words):
        self.words = words
        self.said, self.last, self.alphas = [], 0, None

    def step(self, row):
        """One bin, log-probabilities (K + 1,): the text so far by greedy decoding, a list of signs."""
        sign = int(row.argmax())
        if sign and sign != self.last:
            self.said.append(sign)
        self.last = sign
        if self.alphas is None:
            self.alphas = []
            for word in self.words:
                start = torch.full((2 * len(word) + 1,), -math.inf)
                start[:2] = row[[0, word[0]]]
                self.alphas.append(start)
            return self.said
        for i, (alpha, word) in enumerate(zip(self.alphas, self.words, strict=True)):  # (19.6)
            signs = torch.tensor([0, *(s for letter in word for s in (letter, 0))])
            skips = torch.zeros(len(signs), dtype=torch.bool)
            skips[2:] = (signs[2:] != 0) & (signs[2:] != signs[:-2])
            padded = torch.cat([torch.full((2,), -math.inf), alpha])
            skipped = torch.where(skips, padded[:-2], -math.inf)
            self.alphas[i] = torch.stack([alpha, padded[1:-1], skipped]).logsumexp(0) + row[signs]
        return self.said

    def whole(self):
        """log p, by all bins so far, that each word of the table was written, and nothing else: (W,)."""
        return torch.stack([alpha[-2:].logsumexp(0) for alpha in self.alphas])

    def begun(self):
        """log p, by all bins so far, that a beginning of each word was written, or all of it: (W,)."""
        return torch.stack([alpha.logsumexp(0) for alpha in self.alphas])


# Exercise 19.7, deeper: the best moment
def _moments(shares, since_s, pause_s=0.2, n=8):
    """n trials, of which these shares are right at these moments, in other trials at each of them; the pause."""
    right = np.array([[(i + 3 * j) % n < share * n for j, share in enumerate(shares)] for i in range(n)])
    return right, np.array(since_s), pause_s


def _each_its_own(right, since_s, pause_s):
    """A mistake: the moment is another one in each trial."""
    points = (2 * right - 1) / (since_s + pause_s)  # (n, T)
    return best_moment.reference(right, since_s, pause_s)[0], points.max(1).mean()


_MOST_ACCURATE = "this is the moment at which most trials are right. Whoever waits for it presses fewer buttons."


@exercise(
    cases={
        "three moments": partial(_moments, (0.625, 0.875, 1.0), (0.05, 0.1, 0.3)),
        "a long pause": partial(_moments, (0.625, 0.875, 1.0), (0.05, 0.1, 0.3), pause_s=2.0),
        "a first moment at 0 s": partial(_moments, (0.625, 0.75, 0.875, 0.75), (0.0, 0.1, 0.2, 0.3)),
        "answers that are mostly wrong": partial(_moments, (0.125, 0.25, 0.25, 0.375, 0.25), (0.1, 0.2, 0.4, 0.5, 1.0)),
        "two moments that are equally good": partial(
            _moments, (0.375, 0.625, 0.75, 0.75), (0.0, 0.125, 0.375, 0.5), pause_s=0.125
        ),
    },
    mistakes={
        "best = points.argmax() → best = a.argmax()": _MOST_ACCURATE,
        ("best = points.argmax() → best = a.argmax()", "points[best] → a[best]"): _MOST_ACCURATE,
        "since_s + pause_s → since_s": "the pause is left out: a choice takes `since_s` and the pause.",
        "(since_s + pause_s) → since_s + pause_s": "divided by the time alone, and then the pause is added. Brackets?",
        "2 * a - 1 → a": "a wrong answer costs nothing in yours. In (19.4) it costs a point.",
        "2 * a - 1 → a - 0.5": "this is how far the share lies above a half. Count points: one won, or one lost.",
        "2 * a - 1 → a - 1 / 8": "chance is subtracted. (19.4) adds a point if right, and takes one if wrong.",
        "right.mean(0) → right.sum(0)": "this counts the right trials. (19.4) wants their share.",
        "2 * a - 1 → (2 * right - 1).sum(0)": "the points of all trials are added up. Their mean is wanted.",
        _each_its_own: "each trial is decided at its own best moment, which nobody knows. Take one moment for all.",
        "best = points.argmax() → best = len(points) - 1 - points[::-1].argmax()": (
            "of two moments that are equally good this is the later one. The first is wanted."
        ),
        "return best, points[best] → return since_s[best], points[best]": (
            "this is the time of the moment. Its index is wanted, a whole number."
        ),
        "return best, points[best] → return best, a[best]": (
            "this is the share that is right at that moment. The points a second are wanted."
        ),
    },
    results=("the index", "the points a second"),
)
def best_moment(right, since_s, pause_s):
    """The first moment at which (19.4) is largest, its index from 0 to T - 1, and its points a second: `right` (n, T)
    is True where a trial is right, the moments since_s (T,) and the pause are in s."""
    a = right.mean(0)  # (T,)
    points = (2 * a - 1) / (since_s + pause_s)  # (T,), (19.4)
    best = points.argmax()
    return best, points[best]
