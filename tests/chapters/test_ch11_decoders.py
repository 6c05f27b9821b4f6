"""What chapter 11 reads, trains and times: tables are all that a reader needs, stored ones are of the script."""

from possm_course.exercises import ch11

import torch

from experiments.ch11_latent_cross_attention import train
from possm_course.chapters.ch11 import decoders, reading_cost
from possm_course.stored import embedded_session
from possm_lite.recordings import load_recording
from possm_lite.training import prepare

read_list = ch11.read_list.reference


def test_tables_are_all_that_a_reader_needs():
    """The reader of the exercise, with the tables of a decoder, weighs as the decoder does."""
    session = prepare(load_recording(embedded_session()))
    batch = session.timeline.cut(session.split.train[0, :1], 1.0)
    model = decoders.untrained(0)
    tokens = {"unit": batch.unit, "tau": batch.offset - batch.bin_width_s / 2, "bins": batch.bin}
    n_bins = int(batch.n_bins.sum())
    _, p = read_list(**decoders.tables(model), omega=model.rotation.omega, **tokens, n_bins=n_bins)
    torch.testing.assert_close(p, model.attention_weights(batch)[:, 0, 0])
    torch.testing.assert_close(reading_cost.read_with_keys(model, batch), model.encode(batch)[0], atol=1e-5, rtol=1e-4)


def test_stored_readers_are_of_this_script():
    stored = decoders.trained()
    assert {name: tuple(x.shape) for name, x in stored.items()} == {"q": (3, 32), "k": (3, 121, 32), "v": (3, 121, 32)}
    start = train(epochs=1, seeds=(0,))
    untrained = decoders.tables(decoders.untrained(0))["k"][None]
    assert start["k"].shape == (1, 121, 32) and not torch.equal(start["k"], untrained)


def test_every_other_reading_was_scored():
    scores = decoders.reading_scores()
    assert list(scores) == ["softmax", "softmax_blank", "sum", "mean"]
    assert all(0.8 < float(r2.split(" ± ")[0]) < 0.9 for r2 in scores.values())
