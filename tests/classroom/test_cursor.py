"""The figures of the closed loop: pure, true to the loop, and fast enough to be live."""

import asyncio
import io

import numpy as np
import pytest
from PIL import Image

from possm_lite.classroom.closed_loop import ClosedLoop, Population, Task, star
from possm_lite.classroom.figures.cursor import LiveLoop, frame, picture
from possm_lite.classroom.widgets import Slider, explore, png
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.spikes import simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig

STILL = {"latency_ms": 0, "ahead_ms": 0, "lost": 0, "gain": 1.0}


@pytest.fixture
def streams():
    """Untrained decoders, but such as move."""
    made = {}
    for ahead_ms in (0, 100):
        model = POSSM(POSSMConfig(n_units=30, hidden=32))
        model.velocity_std[1] = 3000.0
        made[ahead_ms] = StreamingDecoder(model, 1, 0.04)
    return made


@pytest.fixture
def loop(streams):
    truth = simulate_session(1, SimulationConfig(n_trials=4, n_units=30)).truth
    return ClosedLoop(streams[0], Population(truth), Task(star()))


def test_the_picture_shows_the_loop(loop, streams):
    draw = picture(loop, streams, seconds=1.0)
    screen, distance = draw(latency_ms=100, ahead_ms=100, lost=20, gain=2.0).axes
    assert loop.stream is streams[100]
    assert loop.latency_s == 0.1 and loop.gain == 2.0
    np.testing.assert_allclose(screen.lines[0].get_xydata(), loop.shown_mm)
    far = np.hypot(*(loop.shown_mm - loop.targets_mm).T)
    np.testing.assert_allclose(distance.lines[0].get_ydata(), far)
    assert len(far) == 100


def test_a_step_leaves_no_trace_in_the_next(loop, streams):
    draw = picture(loop, streams, seconds=0.5)
    first = png(draw(**STILL))
    for changed in ({"latency_ms": 200}, {"ahead_ms": 100}, {"lost": 60}, {"gain": 2.0}):
        assert png(draw(**STILL | changed)) != first
        assert png(draw(**STILL)) == first


def test_it_goes_behind_sliders(loop, streams, capsys):
    explorer = explore(
        picture(loop, streams, 0.3),
        latency_ms=Slider("latency", 0, 400, value=0),
        ahead_ms=Slider("ahead", 0, 100, value=100, step=100),
        lost=Slider("lost", 0, 80, value=0),
        gain=Slider("gain", 0.2, 3.0, value=1.0),
    )
    explorer.sweep()
    assert capsys.readouterr().out == "moved 4 sliders through 16 positions\n"


def pixels(loop):
    return np.asarray(Image.open(io.BytesIO(frame(loop))))


def test_a_frame_shows_the_cursor_where_it_is(loop):
    """The dark disc is at the place of the last moment, y upwards."""
    loop._shown = [60 + 30j]
    rows, columns = np.nonzero((pixels(loop) < 80).all(-1))
    scale = 320 / 250
    assert columns.mean() == pytest.approx(scale * (125 + 60), abs=1)
    assert rows.mean() == pytest.approx(scale * (125 - 30), abs=1)


def test_playing_fast_and_playing_on_time(loop, streams, capsys):
    live = LiveLoop(loop, streams)
    assert live.report() == "nothing played yet"
    live.play(seconds=1.0, realtime=False)
    assert capsys.readouterr().out.startswith("20 bins of 50 ms")
    assert len(live.used_ms) == 20 and live._image.value == frame(loop)
    assert "image/png" in live._repr_mimebundle_()


def test_on_time_it_waits_for_the_clock(loop, streams, monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    LiveLoop(loop, streams).play(seconds=0.5, realtime=True)
    assert len(waits) == 10 and max(waits) <= 0.5 and min(waits) >= 0


def test_sliders_act_while_it_runs(loop, streams):
    live = LiveLoop(loop, streams)
    for n, _ in enumerate(live._bins(0.3)):
        if n == 2:
            assert loop.stream is streams[100]
            live.set(latency=150, ahead=0, lost=50, gain=2.0)
    assert loop.stream is streams[0]
    assert loop.latency_s == 0.15 and loop.gain == 2.0 and loop.population._silent.sum() == 15


def test_the_button_starts_and_stops(loop, streams):
    async def press():
        live = LiveLoop(loop, streams, seconds=60)
        live._start_or_stop()
        await asyncio.sleep(0.2)
        assert not live._task.done()
        live._start_or_stop()
        await asyncio.sleep(0.05)
        return live

    live = asyncio.run(press())
    assert live._task.cancelled() and live.used_ms and "bins of 50 ms" in live._text.value


def test_the_button_plays_to_the_end(loop, streams):
    async def press():
        live = LiveLoop(loop, streams, seconds=0.1)
        live._start_or_stop()
        await live._task
        return live

    assert len(asyncio.run(press()).used_ms) == 2
