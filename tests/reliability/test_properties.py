"""Properties for every shape, with sizes, options, spikes and numbers drawn by hypothesis.

Fixed examples of the same are in tests/decoder, tests/nn and tests/course.
"""

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from possm_lite.decoder.cross_attention import softmax_by_bin
from possm_lite.nn.attention import masked_log_softmax, masked_softmax

from .strategies import FORMS, decoding_cases

DTYPES = {torch.float64: 1e-9, torch.float32: 1e-3}  # tolerance, relative to the largest velocity
SEEDS = st.integers(0, 2**31)


def assert_close(velocities, expected, limit):
    """Two lists of velocities are equal up to `limit` of the largest."""
    for a, b in zip(velocities, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.isfinite(a).all() and np.abs(a - b).max() <= limit * (1 + np.abs(a).max())


@pytest.mark.parametrize(("dtype", "limit"), DTYPES.items(), ids=str)
def test_ragged_padded_and_streaming_forms_are_equal(for_all, dtype, limit):
    @for_all(60, 3000, decoding_cases(dtype))
    def check(case):
        ragged = case.velocity("ragged")
        assert_close(ragged, case.velocity("padded"), limit)
        assert_close(ragged, case.velocity("streaming"), limit)


@pytest.mark.parametrize("form", [*FORMS, "streaming"])
@pytest.mark.parametrize(("dtype", "limit"), DTYPES.items(), ids=str)
def test_batch_and_order_of_spikes_in_a_bin_are_irrelevant(for_all, form, dtype, limit):
    @for_all(15, 1500, decoding_cases(dtype), SEEDS)
    def check(case, seed):
        rng, shuffled = np.random.default_rng(seed), case
        for i, bins in enumerate(case.trials):
            for bin_, (units, _) in enumerate(bins):
                order = rng.permutation(len(units))
                shuffled = shuffled.changed(i, bin_, lambda spikes, order=order: (spikes[0][order], spikes[1][order]))
        expected = case.velocity(form)
        assert_close(expected, shuffled.velocity(form), limit)
        assert_close(expected, [case.only(i).velocity(form)[0] for i in range(len(case.trials))], limit)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_are_finite_and_zero_for_silent_units(for_all, form, dtype):
    @for_all(15, 1500, decoding_cases(dtype))
    def check(case):
        parameters = dict(case.model.named_parameters())
        loss = case.decode(form).square().sum()
        # parameters that a configuration does not use have no gradient
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
        gradients = dict(zip(parameters, gradients, strict=True))
        assert all(gradient.isfinite().all() for gradient in gradients.values())
        assert gradients["readout.bias"].abs().max() > 0
        active = case.batch().unit.unique()
        silent = np.setdiff1d(np.arange(case.model.config.n_units + 1), active)
        assert (gradients["unit_embedding.weight"][silent] == 0).all()


def extreme(rng, shape, dtype):
    """Difficult numbers for a softmax: ties, far apart, large and small; the lowest stands for a masked score."""
    info = torch.finfo(dtype)
    few = [0.0, -0.0, 1.0, -1.0, 80.0, -800.0, info.max, info.min / 2, info.max / 2, info.tiny, -info.tiny, info.eps]
    return torch.tensor(rng.choice(few[: rng.integers(1, len(few) + 1)], shape), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_masked_softmax_is_never_nan(for_all, dtype):
    """For extreme scores, and arbitrary values where the mask is False."""
    limit = 4 * torch.finfo(dtype).eps

    leading, shares = st.lists(st.integers(1, 4), max_size=2), st.sampled_from([0, 0.3, 0.8, 1])

    @for_all(60, 3000, leading, st.integers(1, 9), shares, SEEDS)
    def check(lead, n_keys, share, seed):
        rng = np.random.default_rng(seed)
        shape = (*lead, n_keys)
        mask = torch.from_numpy(rng.random(shape) < share)
        clean = extreme(rng, shape, dtype)
        masked = torch.tensor(rng.choice([np.nan, np.inf, -np.inf, 7.0], shape), dtype=dtype)
        scores = torch.where(mask, clean, masked).requires_grad_()
        weights, log_weights = masked_softmax(scores, mask), masked_log_softmax(scores, mask)
        assert (weights >= 0).all() and not weights[~mask].any()  # a NaN is not >= 0
        assert not log_weights.isnan().any() and (log_weights[~mask] == -torch.inf).all()
        exact = torch.softmax(clean.detach().double().masked_fill(~mask, -torch.inf), -1).nan_to_num()
        assert (weights.double() - exact).abs().max() <= limit * n_keys
        assert (weights.double().sum(-1) - mask.any(-1).double()).abs().max() <= limit * n_keys
        (gradient,) = torch.autograd.grad((weights * extreme(rng, shape, dtype).clamp(-1, 1)).sum(), scores)
        assert gradient.isfinite().all() and not gradient[~mask].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_by_bin_equals_softmax_in_each_bin(for_all, dtype):
    limit = 8 * torch.finfo(dtype).eps

    sizes, trailing = st.lists(st.integers(1, 6), min_size=1, max_size=6), st.lists(st.integers(1, 3), max_size=2)

    @for_all(60, 3000, sizes, trailing, SEEDS)
    def check(counts, trail, seed):
        rng = np.random.default_rng(seed)
        bins = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        scores = extreme(rng, (len(bins), *trail), dtype).requires_grad_()
        wanted = torch.from_numpy(rng.normal(size=scores.shape)).to(dtype)
        weights = softmax_by_bin(scores, bins, len(counts))
        expected = torch.cat([torch.softmax(part, 0) for part in scores.split(counts)])
        gradients = [torch.autograd.grad((w * wanted).sum(), scores)[0] for w in (weights, expected)]
        assert (weights >= 0).all() and (weights - expected).abs().max() <= limit
        assert gradients[0].isfinite().all() and (gradients[0] - gradients[1]).abs().max() <= 8 * limit
