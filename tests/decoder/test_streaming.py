"""The streaming decoder is the batch decoder, one bin at a time."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch

from possm_lite.cli import main
from possm_lite.decoder import StreamingDecoder
from possm_lite.decoder.config import BACKBONES
from possm_lite.spikes import SpikeBatch

from .helpers import VARIANTS, make_model

N_BINS, OFFSETS = 40, (0.0, 0.011, 0.049)


def bins_of(rng, n_units=8):
    """Units and offsets of each bin, some of them silent, and the same as a batch."""
    bins = []
    for i in range(N_BINS):
        n = 0 if i in (0, 7, 8, 9) else rng.integers(0, 12)
        bins.append((rng.integers(1, n_units + 1, n), rng.random(n) * 0.05))
    unit, time = (np.concatenate(x) for x in zip(*[(u, i * 0.05 + o) for i, (u, o) in enumerate(bins)], strict=True))
    return bins, SpikeBatch.from_events(np.zeros(len(unit), int), unit, time, 1, N_BINS * 0.05)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_streaming_equals_batch(rng, variant, dtype, limit):
    model, (bins, batch) = make_model(dtype, **VARIANTS[variant]), bins_of(rng)
    times = torch.from_numpy((np.arange(N_BINS)[:, None] * 0.05 + np.array(OFFSETS)).reshape(1, -1))
    with torch.no_grad():
        expected = model(batch, times, torch.tensor([2]))[0].numpy()
    stream = StreamingDecoder(model, session=2, query_offsets_s=OFFSETS)
    answers = [stream.step(*spikes) for spikes in bins]
    np.testing.assert_allclose(np.concatenate([t for t, _ in answers]), times[0], rtol=0, atol=1e-12)
    streamed = np.concatenate([v for _, v in answers])
    assert streamed.dtype == expected.dtype
    assert np.abs(streamed - expected).max() < limit


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
def test_every_backbone_streams(rng, backbone, n_layers, dtype, limit):
    model, (bins, batch) = make_model(dtype, backbone=backbone, n_layers=n_layers), bins_of(rng)
    times = torch.from_numpy(np.arange(N_BINS) * 0.05)[None]
    with torch.no_grad():
        expected = model(batch, times, torch.tensor([2]))[0].numpy()
    stream = StreamingDecoder(model, session=2)
    streamed = np.concatenate([stream.step(*spikes)[1] for spikes in bins])
    assert streamed.dtype == expected.dtype and expected.std() > 0.1
    assert np.abs(streamed - expected).max() < limit
    for arrays in stream._state:
        assert all(np.finfo(array.dtype).dtype == expected.dtype for array in arrays)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_changed_spike_changes_nothing_streamed_before_it_and_something_long_after(rng, backbone):
    model, (bins, _) = make_model(backbone=backbone), bins_of(rng)
    played, changed = StreamingDecoder(model), StreamingDecoder(model)
    for i, (units, offsets) in enumerate(bins):
        a = played.step(units, offsets)[1]
        b = changed.step(*((np.r_[units, 3], np.r_[offsets, 0.02]) if i == 20 else (units, offsets)))[1]
        assert np.array_equal(a, b) == (i < 20)
        if i == 26:  # behind the bins that a query sees by itself: this is memory
            assert np.abs(a - b).max() > 1e-8


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_is_trained_kept_and_streamed_by_the_command_line(
    small_recording, backbone, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    small_recording.save(tmp_path / "recording.npz")
    assert main(["decode", "recording.npz", "--epochs", "1", "--backbone", backbone, "--out", "run"]) == 0
    assert main(["stream", "run"]) == 0
    line = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("largest difference"))
    assert float(line.split("  ")[1].split()[0]) < 1e-3  # mm/s, of velocities of hundreds


def test_reset_begins_anew(rng):
    stream, (bins, _) = StreamingDecoder(make_model()), bins_of(rng)
    first = [stream.step(*spikes) for spikes in bins]
    stream.reset()
    for (t, v), spikes in zip(first, bins, strict=True):
        again = stream.step(*spikes)
        assert np.array_equal(t, again[0]) and np.array_equal(v, again[1])


def test_the_order_of_spikes_does_not_matter(rng):
    streams = [StreamingDecoder(make_model()) for _ in range(2)]
    units, offsets = rng.integers(1, 9, 30), rng.random(30) * 0.05
    turned = rng.permutation(30)
    streams[1] = copy.deepcopy(streams[0])
    a, b = streams[0].step(units, offsets)[1], streams[1].step(units[turned], offsets[turned])[1]
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("units", "offsets", "message"),
    [
        ([9], [0.01], "units must lie in 1..8, not 9"),
        ([1, 0], [0.01, 0.02], "units must lie in 1..8, not 0"),
        ([1.0], [0.01], "units must be whole numbers"),
        ([1, 2], [0.01, 0.05], "offset < 0.05 s, not 0.05"),
        ([1], [-0.001], "not -0.001"),
        ([1], [np.nan], "not nan"),
        ([1, 2], [0.01], "flat and alike"),
        ([[1]], [[0.01]], "flat and alike"),
    ],
)
def test_bad_spikes_are_refused_and_change_nothing(rng, units, offsets, message):
    model, (bins, _) = make_model(), bins_of(rng)
    untouched, attacked = StreamingDecoder(model), StreamingDecoder(model)
    for spikes in bins[:5]:
        untouched.step(*spikes), attacked.step(*spikes)
    with pytest.raises(ValueError, match=message):
        attacked.step(np.array(units), np.array(offsets))
    for spikes in bins[5:]:
        a, b = untouched.step(*spikes), attacked.step(*spikes)
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"session": 3}, "session must lie in 1..2, not 3"),
        ({"query_offsets_s": (0.05,)}, "offset < 0.05 s"),
        ({"query_offsets_s": ()}, "query_offsets_s"),
    ],
)
def test_a_stream_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        StreamingDecoder(make_model(), **arguments)


def test_the_millionth_bin_is_as_exact_as_the_first(rng):
    model, (bins, _) = make_model(), bins_of(rng)
    early, late = StreamingDecoder(model, query_offsets_s=OFFSETS), StreamingDecoder(model, query_offsets_s=OFFSETS)
    for spikes in bins[:5]:
        early.step(*spikes), late.step(*spikes)
    late._n_bins += 1_000_000
    for spikes in bins[5:]:
        (t_early, v_early), (t_late, v_late) = early.step(*spikes), late.step(*spikes)
        assert np.array_equal(v_early, v_late)
        np.testing.assert_allclose(t_late - t_early, 50_000.0, rtol=0, atol=1e-10)


def test_streaming_needs_no_torch():
    """A rig imports the streaming decoder without torch."""
    program = "import sys; from possm_lite.decoder import StreamingDecoder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
