"""One to forty columns of behaviour, through training, baselines, streaming, results, files and figures."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.app.report import plot_decoded, table
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.baselines import BinnedGRU, BinnedStream
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.evaluate import batch_decode, replay, slot_offsets
from possm_lite.training.linear import fit_kalman, fit_wiener


def with_columns(recording, n):
    """The recording with n mixtures of the velocity."""
    mixed = recording.behavior @ np.random.default_rng(n).normal(size=(2, n))
    names = {"behavior_columns": [f"joint$_{i}" for i in range(n)], "behavior_name": "ve$l^{"}  # no formulas
    return replace(recording, behavior=mixed, behavior_unit="deg/s", **names)


@pytest.mark.parametrize("n", [1, 40])
def test_any_number_of_columns_is_decoded(small_recording, tmp_path, n):
    recording = with_columns(small_recording, n)
    session, config = prepare(recording), FitConfig(epochs=20, lr=1e-2, validations=0)
    slots = slot_offsets(session)
    model = POSSM(POSSMConfig(12, dim=8, head_dim=8, n_freqs=4, hidden=8, n_outputs=n))
    gru = BinnedGRU(12, n_slots=len(slots), n_outputs=n, hidden=8)
    for trained in (model, gru):
        history = fit(trained, session, config, progress=False)
        assert history.loss[-1] < history.loss[0]
    wiener = fit_wiener(session)
    streams = {gru: BinnedStream(gru), wiener: BinnedStream(wiener), model: StreamingDecoder(model, 1, slots)}
    for decoder, stream in streams.items():
        decoded, played = evaluate(decoder, session), replay(stream, session)
        assert decoded.true.shape == decoded.decoded.shape and played.decoded.shape[1] == len(decoded.r2_columns) == n
    np.testing.assert_allclose(played.outputs, batch_decode(model, session, played), rtol=0, atol=1e-2)
    assert evaluate(fit_kalman(session), session).decoded.shape[1] == n

    numbers = dict.fromkeys(("r2", "r2_displayed", "params", "train_s", "step_us_p50", "step_us_p99"), 1)
    text = table({"possm": {"r2_columns": [0.5] * n, **numbers}}, recording.behavior_columns)
    assert all(name in text for name in recording.behavior_columns if n > 1)
    figure = plot_decoded(decoded, session)
    figure.savefig(tmp_path / "decoded.png")
    assert len({axis.get_ylabel() for axis in figure.axes} - {""}) == min(n, 6)
