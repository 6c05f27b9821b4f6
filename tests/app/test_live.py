"""Live input: bins of the stream's clock; one line for each event that cannot be used, for a source that restarts."""

import signal
import subprocess
import sys
from threading import Timer

import numpy as np
import pytest

from possm_lite.app.cli import main
from possm_lite.app.lsl import LiveBins, SpikeInlet, spike_outlet
from possm_lite.errors import PossmError
from possm_lite.recordings.labels import label_trials
from possm_lite.recordings.timeline import Timeline
from possm_lite.training import prepare
from possm_lite.training.checkpoint import TrainedOn, save_checkpoint

from ..training.helpers import small_possm
from .live_cases import CASES, WIDTH_S, play, unsaid


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def bins(lines) -> LiveBins:
    bins = LiveBins(["a", "b"], WIDTH_S, 0.02, lines.append)
    bins.restart(["b", "other", "a"])
    return bins


def test_bins_equal_those_of_a_recording(small_recording, lines):
    start, stop = small_recording.span
    batch = Timeline(small_recording, bin_width_s=WIDTH_S).cut(start, stop - start)
    units = small_recording.unit_ids.tolist()
    bins = LiveBins(units, WIDTH_S, 0.02, lines.append)
    bins.restart(units)
    first, last = np.searchsorted(small_recording.spike_times, (start, stop))
    events = [(0, start), *zip(small_recording.spike_units + 1, small_recording.spike_times, strict=True)][: last + 1]
    found = []
    for number, (unit, time_s) in enumerate(events[first:]):
        bins.add(unit, number, 1e6 + time_s, 1e6 + time_s)  # as a computer that has run for days
        found += bins.finished(1e6 + time_s)
    for index, (start_s, units, offsets, _) in enumerate(found):
        expected = (batch.bin == index) & (batch.unit > 0)
        assert units == batch.unit[expected].tolist() and start_s == pytest.approx(1e6 + start + index * WIDTH_S)
        np.testing.assert_allclose(offsets, batch.offset[expected], rtol=0, atol=1e-9)
    assert len(found) == int(batch.n_bins[0]) - 1 and not lines


def test_bin_is_over_when_a_later_event_comes_or_time_is_up(bins):
    bins.add(3, 0, 7.0, 7.0)
    bins.add(1, 1, 7.01, 7.01)
    assert list(bins.finished(7.069)) == [] and bins.due_s() == pytest.approx(7.07)
    assert list(bins.finished(7.07)) == [(7.0, [1, 2], [0.0, pytest.approx(0.01)], 7.01)]
    bins.add(0, 2, 7.151, 7.151)
    silent = list(bins.finished(7.151))
    assert [units for _, units, _, _ in silent] == [[], []] and all(np.isnan(last) for *_, last in silent)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ((1, 1, 7.11, 7.3), {"late": 1}),
        ((1, 4, 7.21, 7.21), {"lost": 3}),
        ((2, 1, 7.21, 7.21), {"of unknown units": 1}),
        ((9, 1, 7.21, 7.21), {"of unknown units": 1}),
        ((1, 1, 7.01, 7.21), {"late": 1}),
        ((1, 1, 9.21, 7.21), {"off the clock": 1}),
        ((1, 1, 7.255, 7.21), {}),  # ahead by less than a bin
    ],
)
def test_unusable_events_are_counted_and_reported_once(bins, lines, event, expected):
    bins.add(1, 0, 7.1, 7.1)
    assert len(list(bins.finished(7.2))) == 1
    bins.add(*event)
    assert dict(bins.counts) == expected
    bins.add(1, 8, 7.22, 7.22)  # until one can be used again, it may be a jump of the clock
    assert len([line for line in lines if "number 8" not in line]) == len(expected)
    n_lines = len(lines)
    bins.add(*event[:1], 9, *event[2:])
    bins.add(1, 10, 7.23, 7.23)
    assert len(lines) == n_lines


def test_clock_of_another_device_is_reported(bins, lines):
    bins.add(1, 0, 7.0, 5000.0)
    assert bins.counts["off the clock"] == 1 and list(bins.finished(5000.0)) == [] and not lines
    assert bins.due_s() == np.inf and list(bins.finished(5001.1)) == []
    assert "4993.000 s behind its LSL clock" in lines[0]


@pytest.mark.parametrize("off_s", [-4993.0, -3.0, 86400.0])
def test_clock_that_is_wrong_from_the_first_event_is_followed(bins, lines, off_s):
    """As where each computer stamps with its own clock."""
    found = play(bins, lambda t: t + off_s)
    where = f"{abs(off_s)} s {'behind' if off_s < 0 else 'ahead of'} the LSL clock from the first on"
    assert [line for line in lines if where in line] == lines and len(lines) == 1
    starts = [start_s for _, start_s, *_ in found]
    np.testing.assert_allclose(starts, 7.0 + WIDTH_S * np.arange(len(starts)), atol=1e-6)
    assert len(found) >= 76 and all(4 <= len(units) <= 6 for _, _, units, _, _ in found)


def test_silence_is_reported_once_and_decoded(bins, lines):
    bins.add(1, 0, 7.0, 7.0)
    assert len(list(bins.finished(8.0))) == 19 and not lines
    assert len(list(bins.finished(9.0))) == 20 and lines == ["no event for 1 s: silent bins are decoded"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stream_of_a_public_report(case):
    assert not unsaid(case)


@pytest.mark.parametrize("jump_s", [-3.0, 2.0, -0.4, -0.12, 0.3, -86400.0, 5e5])
def test_clock_that_jumps_is_followed(bins, lines, jump_s):
    """labstreaminglayer #131: bins go on, none without its spikes, on the clock of before."""
    found = play(bins, lambda t: t + (jump_s if t > 9.004 else 0.0))
    (line,) = [line for line in lines if "jumped" in line]
    assert f"has jumped by {round(jump_s, 1 if abs(jump_s) >= 1 else 2):+} s: decoding goes on" in line
    assert not any("no event" in line for line in lines) and len(lines) == 1
    starts = [start_s for _, start_s, *_ in found]
    np.testing.assert_allclose(starts, 7.0 + WIDTH_S * np.arange(len(starts)), atol=1e-6)
    assert len(found) >= 78 and all(4 <= len(units) <= 6 for _, _, units, _, _ in found)
    assert sum(bins.counts.values()) <= 3  # all of the others were sorted in


def test_clock_that_jumps_twice_is_reported_twice(bins, lines):
    play(bins, lambda t: t + (-3.0 if 9 < t < 12 else 0.0), 9.0)
    assert [line.split(" s: ")[0].split()[-1] for line in lines if "jumped" in line] == ["-3.0", "+3.0"]


@pytest.mark.parametrize("stamp", [lambda t: 8.0, lambda t: 1000 * t, lambda t: 9.0 - (t - 9.0)])
def test_nothing_is_published_while_no_event_can_be_used(bins, lines, stamp):
    """Stamps that stand still, in ms, or that run back: no clock to follow."""
    found = play(bins, lambda t: stamp(t) if 9.004 < t < 12.004 else t, 6.0)
    assert all(units for _, _, units, _, _ in found)  # no silent bin among them
    during = [now_s for now_s, *_ in found if 9.1 < now_s < 11.99]
    assert not during and len([1 for now_s, *_ in found if now_s > 12.1]) >= 15
    assert not any("no event" in line or "jumped" in line for line in lines) and lines


def test_stall_of_the_network_is_no_jump(bins, lines):
    """Events of a second come at once, then as before."""
    for number in range(100):
        bins.add(1, number, 7.0 + 0.01 * number, 7.0 + 0.01 * number)
        list(bins.finished(7.0 + 0.01 * number))
    for number in range(100, 200):
        list(bins.finished(8.99))
        bins.add(1, number, 7.0 + 0.01 * number, 8.99)
    assert bins.counts["late"] > 80 and len(lines) == 1 and "late" in lines[0]


def test_source_that_sends_late_events_and_ends_becomes_silent(bins, lines):
    play(bins, lambda t: t - (0.5 if t > 8 else 0.0), 1.2)
    assert len(list(bins.finished(12.0))) > 50 and "no event for 1 s: silent bins are decoded" in lines


def test_streams_of_one_name_are_refused_unless_one_is_chosen(tmp_path, pylsl):
    """sccn/labstreaminglayer: the first that answers would be heard, whichever that is."""
    infos = [pylsl.StreamInfo(tmp_path.name, "Spikes", 2, pylsl.IRREGULAR_RATE, "int32", id) for id in ("a", "b")]
    for info in infos:
        info.desc().append_child("units").append_child("unit").append_child_value("id", info.source_id())
    outlets = [pylsl.StreamOutlet(info) for info in infos]
    with pytest.raises(PossmError, match=r"2 streams are called .*host \S+ \(source id a\).*source id b.*--source"):
        SpikeInlet(tmp_path.name)
    with pytest.raises(PossmError, match="2 streams"):  # both are of this host
        SpikeInlet(tmp_path.name, outlets[0].get_info().hostname())
    inlet = SpikeInlet(tmp_path.name, "b")
    assert inlet.unit_ids == ["b"] and "source id b" in inlet.origin
    uid = outlets[0].get_info().uid()
    assert SpikeInlet(tmp_path.name, uid).unit_ids == ["a"]
    del outlets


def test_streams_of_one_name_and_source_are_told_apart(tmp_path, pylsl):
    """Two programs of one kind on one computer."""
    outlets = [spike_outlet(tmp_path.name, [name]) for name in ("a", "b")]
    first = outlets[0].get_info().uid()
    with pytest.raises(PossmError, match=rf"2 streams are called .*number {first}\).*--source"):
        SpikeInlet(tmp_path.name)
    assert SpikeInlet(tmp_path.name, first).unit_ids == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to another process there")
def test_source_that_fails_and_restarts_is_reported_and_decoded(small_recording, tmp_path, pylsl):
    session = prepare(small_recording)
    save_checkpoint(path := tmp_path / "a.npz", small_possm(session), TrainedOn.from_session(session))
    command = [sys.executable, "-m", "possm_lite", "live", str(path), "--stream", name := f"test-{tmp_path.name}"]
    command += ["--wait", "0.5"]  # a busy machine makes no event late
    units = [*small_recording.unit_ids[:-1], "other"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as live:
        timeout = Timer(180, live.kill)
        timeout.start()

        def expect(text: str):
            line = live.stderr.readline()
            assert line.startswith(f"possm-lite: {name}: ") and text in line, line

        def send(place, number):
            outlet.push_sample([place, number], pylsl.local_clock())

        def connect():
            while not outlet.wait_for_consumers(0.1):
                assert live.poll() is None

        expect("waiting for the stream")
        outlet = spike_outlet(name, units)
        expect("connected, 12 units, without 1 of the run: sim011")
        connect()
        decoded = pylsl.StreamInlet(pylsl.resolve_byprop("name", f"{name}-decoded", timeout=10)[0])
        decoded.open_stream(10)
        send(0, 0)
        send(12, 1)
        send(1, 5)
        expect("unit 12 of the stream is not one of the run")
        expect("3 events are lost")
        expect("no event for 1 s: silent bins are decoded")
        del outlet
        expect("the source stopped; waiting for it")
        before, stamps = decoded.pull_chunk(0.2)
        outlet = spike_outlet(name, units)
        expect("connected, 12 units")
        connect()
        send(1, 0)
        after, times = decoded.pull_chunk(10, 10)
        live.send_signal(signal.SIGINT)
        out, err = live.communicate()
        timeout.cancel()
    assert live.returncode == 0, err
    assert "0 late, 3 lost, 1 of unknown units, 0 off the clock" in out
    assert len(before) >= 5 * 20 and len(after) == 10  # five samples a bin, twenty silent bins a second
    np.testing.assert_allclose(np.diff(times), 0.01, atol=1e-3)
    info = decoded.info()
    assert info.get_channel_labels() == ["x", "y"] and info.get_channel_units() == ["mm/s", "mm/s"]


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to another process there")
def test_classes_are_sent_as_probabilities(small_recording, tmp_path, pylsl):
    sides = np.resize(["left", "right"], len(small_recording.trials))
    session = prepare(label_trials(small_recording, sides, "side"))
    possm = small_possm(session, n_outputs=2, decodes="classes")
    save_checkpoint(path := tmp_path / "a.npz", possm, TrainedOn.from_session(session))
    outlet = spike_outlet(name := f"test-{tmp_path.name}", list(small_recording.unit_ids))
    command = [sys.executable, "-m", "possm_lite", "live", str(path), "--stream", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as live:
        timeout = Timer(180, live.kill)
        timeout.start()
        while not outlet.wait_for_consumers(0.1):
            assert live.poll() is None
        decoded = pylsl.StreamInlet(pylsl.resolve_byprop("name", f"{name}-decoded", timeout=10)[0])
        decoded.open_stream(10)
        outlet.push_sample([0, 0], pylsl.local_clock())
        samples, _ = decoded.pull_chunk(10, 10)
        live.send_signal(signal.SIGINT)
        _, err = live.communicate()
        timeout.cancel()
    assert live.returncode == 0, err
    np.testing.assert_allclose(np.sum(samples, 1), np.ones(10), rtol=1e-6)
    assert decoded.info().get_channel_labels() == ["left", "right"]
    assert decoded.info().get_channel_units() == ["probability"] * 2


@pytest.mark.parametrize(
    ("n_channels", "form", "message"), [(2, "float32", "two int32 channels"), (2, "int32", "must list its units")]
)
def test_stream_of_another_format_is_refused(tmp_path, pylsl, n_channels, form, message):
    outlet = pylsl.StreamOutlet(pylsl.StreamInfo(tmp_path.name, "Spikes", n_channels, pylsl.IRREGULAR_RATE, form))
    with pytest.raises(PossmError, match=message):
        SpikeInlet(tmp_path.name)
    del outlet


def test_commands_without_lsl_end_in_one_line(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "pylsl", None)
    assert main(["simulate", "--stream", "test"]) == 2
    out, err = capfd.readouterr()
    assert not out and err.count("\n") == 1 and '"possm-lite[live]"' in err
