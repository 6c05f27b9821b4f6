"""The drawings of chapter 12 have no text that overlaps."""

import pytest

from possm_lite.classroom.load import load_figures

from ..exercises.helpers import NOTEBOOKS

figures = load_figures("12_spike_decoder", NOTEBOOKS)


@pytest.mark.parametrize("draw", [figures.decoder, figures.feed_forward])
def test_drawing_has_no_overlaps(draw):
    assert draw().axes
