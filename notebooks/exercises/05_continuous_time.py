"""Exercises of chapter 05: features of time, kernels, draws that learn, periods, scores of events and units."""

import math

import torch

from possm_lite.course.checks import Case, ValueCheck, as_tensor, exercise, normal


def _float64(*rows):
    return tuple(torch.tensor(row, dtype=torch.float64) for row in rows)


# Exercise 5.1: features of time. The order of the features is free, so their kernel is compared
def _shape(function, *args):
    result = as_tensor(function(*args))
    return torch.zeros(*result.shape) if hasattr(result, "shape") else result


def _kernel(function, t, omega):
    """Of the features of two calls, as those of queries and keys are made, with other times first and last."""
    first, second = (as_tensor(function(times, omega)) for times in (t, torch.cat([t[1:], t[:1] + 2])))
    return first @ second.mT


@exercise(
    cases={
        "three times and two frequencies": Case(lambda: _float64([0.0, 0.1, 0.7], [2.0, 3.0]), _shape),
        "a single frequency": Case(lambda: _float64([0.0, 0.1, 0.7], [2.0]), _kernel),
        "three frequencies": Case(lambda: _float64([0.0, 0.1, 0.7, -3.0], [0.5, 2.0, 9.0]), _kernel),
        "negative frequencies": Case(lambda: _float64([0.0, 0.4], [-1.5, 1.0, 4.0, -8.0]), _kernel),
        "spikes one hour after the start, given in float64": Case(
            lambda: _float64([3600.0, 3600.003, 3600.0101], [310.0, 40.0]), _kernel
        ),
    },
    mistakes={
        " / math.sqrt(len(omega)) → ": (
            "the dot product grows with the number of frequencies: the factor sqrt(1/F) of (5.3) is missing."
        ),
        "math.sqrt(len(omega)) → math.sqrt(2 * len(omega))": (
            "the dot product of a time with itself is one half: F counts frequencies, not the 2F features."
        ),
        ", angle.sin()] → ]": (
            "only the cosines are there. cos a cos b alone is not cos(a - b): the sines are the other half."
        ),
        "t[:, None] → t.float()[:, None]": (
            "times in float32 cannot tell spikes of one millisecond apart after an hour."
        ),
    },
)
def time_features(t, omega):
    """Bochner features of times t (N,) with frequencies omega (F,): shape (N, 2F)."""
    angle = t[:, None] * omega  # (N, F)
    return torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(len(omega))  # (N, 2F)


# Exercise 5.2: the price of precision
my_factor = ValueCheck(
    "my_factor",
    expected=100.0,
    tolerance=0.005,
    mistakes={
        10.0: "ten would do if the error fell as 1/F. Look at the slope you have just seen: it is not -1.",
        math.sqrt(10): "that is the root of ten: you went the wrong way round.",
        0.01: "more frequencies are needed, not fewer: say F_new / F_old.",
    },
)


# Exercise 5.3: catch the box
def _sum_of_box(function):
    t, alpha = (torch.as_tensor(x, dtype=torch.float64).flatten() for x in function())
    if len(t) != len(alpha):
        return f"{len(t)} times and {len(alpha)} weights"
    if (alpha >= 0).all() or (alpha <= 0).all():
        return "weights of one sign, which make no negative sum from ones and zeros"
    box = ((t[:, None] - t).abs() < 1).double()
    if box.sum() == len(t):
        return "no two events within the box, which leaves a sum of squares"
    return "a negative sum" if alpha @ box @ alpha < -1e-9 * alpha @ alpha else "a sum that is not negative"


@exercise(
    cases={"the sum (5.6) for the box": Case(lambda: (), _sum_of_box)},
    mistakes={
        "-1.0 → 1.0": "the weights have one sign, and the box has ones and zeros: no such sum is negative.",
        "[0.0, 0.6, 1.2] → [0.0, 0.1, 0.2]": "this sum is not negative. Which sign should the middle event have?",
    },
)
def catch_box():
    """Times t (n,) in s and weights alpha (n,) for which the sum (5.6) of the box is negative."""
    return torch.tensor([0.0, 0.6, 1.2]), torch.tensor([1.0, -1.0, 1.0])


# Exercise 5.4: draws with gradients
def _mu_sigma(mu=3.0, n=15_000):
    """By default so many draws that statistics of right answers differ by 0.01 or less; few enough for a loop."""
    return torch.tensor(mu, requires_grad=True), torch.tensor(0.5, requires_grad=True), n


def _statistics(function, *args):
    omega = as_tensor(function(*args)).detach()
    near = (omega - omega.mean()).abs() < omega.std()  # 0.68 of a Gaussian, 0.58 of a uniform
    share = near.double().mean()
    return {"their mean": omega.mean(), "their spread": omega.std(), "the share within one spread": share}


def _gradients(function, mu, sigma, n):
    """Zero, by `nothing`, where the draw has lost mu or sigma."""
    omega = as_tensor(function(mu, sigma, n))
    nothing = 0 * (mu + sigma)
    (by_mu,) = torch.autograd.grad(omega.mean() + nothing, mu, retain_graph=True)
    (by_sigma,) = torch.autograd.grad(omega.std() + nothing, sigma)
    return {"that of the mean with respect to mu": by_mu, "that of the spread with respect to sigma": by_sigma}


def _mean_of_few(function, mu, sigma, n):
    means = [as_tensor(function(mu, sigma, n)).detach().mean() for _ in range(20)]
    return "scatters around mu" if torch.stack(means).std() > 0.02 else "is the same at every call"


def _two_calls(function, *args):
    same = (as_tensor(function(*args)) == as_tensor(function(*args))).all()
    return "the same numbers again" if same else "other numbers"


@exercise(
    cases={
        "seven draws": Case(lambda: _mu_sigma(n=7), _shape),
        "many draws": Case(_mu_sigma, _statistics, 0.025),
        "many draws around -1": Case(lambda: _mu_sigma(-1.0), _statistics, 0.025),
        "the gradient of many draws": Case(_mu_sigma, _gradients, 0.05),
        "a second call": Case(lambda: _mu_sigma(n=7), _two_calls),
        "the mean of four draws, which": Case(lambda: _mu_sigma(n=4), _mean_of_few),
    },
    mistakes={
        "mu + sigma * torch.randn(n) → torch.normal(mu.expand(n), sigma.expand(n))": (
            "the gradient is zero: the draw has swallowed mu and sigma. Draw noise that knows neither."
        ),
        "sigma * torch → sigma.item() * torch": (
            "mu gets its gradient, sigma gets none: something took sigma out of the graph."
        ),
        "randn → rand": "the noise is uniform: torch.rand lies in 0..1, torch.randn is Gaussian.",
        "randn(n) → randn(1).expand(n)": "every draw is the same: one noise was drawn for all, n are needed.",
        "return mu → torch.manual_seed(0)\n    return mu": (
            "every call gives the same draws: the noise must be new each time, so set no seed inside the function."
        ),
    },
)
def draw_frequencies(mu, sigma, n):
    """n draws from the Gaussian of mean mu and standard deviation sigma, shape (n,), differentiable in both."""
    return mu + sigma * torch.randn(n)


# Exercise 5.5: half periods with equal ratios
@exercise(
    tolerance=1e-4,
    cases={
        "three half periods from 100 to 10,000 ms": lambda: (3, 100.0, 10_000.0),
        "six from 1,000 to 2,000 ms": lambda: (6, 1000.0, 2000.0),
        "eight from 10 to 500 ms": lambda: (8, 10.0, 500.0),
    },
    mistakes={
        "shortest * (longest / shortest) ** (i / (n - 1)) → longest - (longest - shortest) ** ((i + 1) / n)": (
            "this is (5.10): plot it once in seconds and once in milliseconds."
        ),
        "* (longest / shortest) ** (i / (n - 1)) → + (longest - shortest) * i / (n - 1)": (
            "the steps are equal, the ratios should be."
        ),
        "i / (n - 1) → i / n": "the longest is missing: n values have n - 1 steps between them.",
        "i / (n - 1) → (i + 1) / n": "the shortest is missing: the first of the n values is the shortest itself.",
    },
)
def spread_half_periods(n, shortest, longest):
    """n half periods with equal ratios, from shortest to longest, both included; shape (n,)."""
    i = torch.arange(n, dtype=torch.float64)  # 0 ... n - 1
    return shortest * (longest / shortest) ** (i / (n - 1))  # (n,)


# Exercise 5.6: score of two events
def _events(content=1.0, span=2.0, start=0.0):
    """Two queries, three keys, their times, two frequencies; content has 4 numbers, so that Z + Phi can be added."""
    z_q, z_k, t_q, t_k = (normal(*n, seed=i).double() for i, n in enumerate(((2, 4), (3, 4), (2,), (3,))))
    return content * z_q, content * z_k, start + span * t_q, start + span * t_k, torch.tensor([1.0, 7.0]).double()


def _added(z_q, z_k, t_q, t_k, omega):
    features = time_features.reference
    return (z_q + features(t_q, omega)) @ (z_k + features(t_k, omega)).T


@exercise(
    cases={
        "events that happen all at once": lambda: _events(span=0.0),
        "events without content": lambda: _events(content=0.0),
        "two queries and three keys": _events,
        "a clock that was started an hour earlier": lambda: _events(start=3600.0),
    },
    mistakes={
        _added: "content and time were added, and the dot product of sums has cross terms of content with time.",
        ".mean(-1) → .sum(-1)": "the part of the time is too large: it is the mean over the frequencies.",
        "t_q[:, None] - t_k → t_q[:, None] + t_k": (
            "the times were added, not subtracted: cos a cos b + sin a sin b has the difference in it."
        ),
    },
)
def event_score(z_q, z_k, t_q, t_k, omega):
    """Scores of queries (z_q, t_q) and keys (z_k, t_k): content plus Bochner kernel of the time between, (Q, M)."""
    lag = t_q[:, None] - t_k  # (Q, M)
    kernel = torch.cos(lag[..., None] * omega).mean(-1)  # (Q, M)
    return z_q @ z_k.T + kernel


# Exercise 5.7: one function of time for each unit
@exercise(
    cases={
        "a key that is the query": lambda: (normal(8).double(), normal(8).double()[None], 2),
        "three units": lambda: (normal(8).double(), normal(3, 8, seed=1).double(), 2),
        "keys that are rotated as a whole": lambda: (normal(4).double(), normal(3, 4, seed=1).double(), 2),
    },
    mistakes={
        "-product.imag → product.imag": "all b have the other sign: minus the imaginary part.",
        "x[..., 0 : 2 * n_freqs : 2], x[..., 1 : 2 * n_freqs : 2] → x[..., :n_freqs], x[..., n_freqs : 2 * n_freqs]": (
            "these pairs are a number of the first half with one of the second. A pair is two neighbours."
        ),
        ", rest[:, None]] → ]": "the last column is missing: a_0, the dot product of what is not rotated.",
        ".conj() → ": "the bar is missing: of q_f the complex conjugate is wanted.",
    },
)
def unit_table(q, k, n_freqs):
    """The table P (U, 2F + 1) of (5.14): rows a_1 ... a_F, b_1 ... b_F, a_0, from q (d,) and k (U, d)."""
    q_f, k_f = (torch.complex(x[..., 0 : 2 * n_freqs : 2], x[..., 1 : 2 * n_freqs : 2]) for x in (q, k))  # (F,), (U, F)
    product = q_f.conj() * k_f  # (U, F)
    rest = k[:, 2 * n_freqs :] @ q[2 * n_freqs :]  # (U,)
    return torch.cat([product.real, -product.imag, rest[:, None]], -1)  # (U, 2F + 1)
