"""The examples of CONVERTERS.md, run on files and objects of their layouts."""

import numpy as np
import pytest

from possm_lite.spikes import load_recording

from . import layouts

EXAMPLES = {title: code for title, code in layouts.examples().items() if title and code}
DERIVED = ("Arrays", "SpikeInterface")  # their behaviour is the derivative of a position


@pytest.mark.parametrize("title", EXAMPLES)
def test_example_arrives_at_the_recording(title, tmp_path, small_recording):
    if "NWB" in title:
        pytest.importorskip("pynwb")
    layout = layouts.WRITERS[title](tmp_path, small_recording)
    recording, expected = layouts.convert(title, tmp_path, layout.objects), layout.expected
    np.testing.assert_allclose(recording.spike_times, expected.spike_times, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(recording.spike_units, expected.spike_units)
    assert recording.unit_ids.tolist() == expected.unit_ids.tolist()
    np.testing.assert_allclose(recording.trials, expected.trials, rtol=0, atol=2e-6)  # pynapple cuts 1 µs
    np.testing.assert_allclose(recording.behavior_times, expected.behavior_times, rtol=0, atol=1e-9)
    tolerance = 0.1 * expected.behavior.std() if title in DERIVED else 1e-9
    assert np.sqrt(((recording.behavior - expected.behavior) ** 2).mean(axis=0)).max() < tolerance
    assert recording.behavior_unit == expected.behavior_unit
    assert recording.behavior_columns.tolist() == expected.behavior_columns.tolist()
    saved = [load_recording(path) for path in tmp_path.glob("*.npz") if path.stem not in ("arrays", "two_blocks")]
    assert recording.spike_times.tolist() in [one.spike_times.tolist() for one in saved]


def test_blocks_of_a_clock_are_both_saved(tmp_path, small_recording):
    title = "Two blocks whose clocks restart"
    layouts.convert(title, tmp_path, layouts.WRITERS[title](tmp_path, small_recording).objects)
    blocks = [load_recording(tmp_path / f"block_{i}.npz") for i in (1, 2)]
    assert sum(len(block.spike_times) for block in blocks) == len(small_recording.spike_times)
    assert sum(len(block.behavior) for block in blocks) == len(small_recording.behavior[::10])


def test_every_example_is_short():
    for title, code in EXAMPLES.items():
        assert 3 <= len([line for line in code.splitlines() if line]) <= 10, title
    assert list(EXAMPLES) == list(layouts.WRITERS)
