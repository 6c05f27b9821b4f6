"""Colours and matplotlib defaults of all figures of the course."""

import matplotlib.pyplot as plt
from matplotlib_inline.config import InlineBackend

# Okabe and Ito 2008: distinguishable for colour-blind readers, and in print by their lightness
INK, GRAY = "#333333", "#999999"
BLUE, ORANGE, SKY = "#0072b2", "#d55e00", "#56b4e9"
GREEN, PURPLE, YELLOW = "#009e73", "#cc79a7", "#e69f00"


def use_style() -> None:
    """Set matplotlib's defaults for the chapters: readable from the back row, without frames."""
    plt.rcParams.update(
        {
            "figure.dpi": 100,
            "font.size": 11,
            "legend.frameon": False,
            "image.cmap": "cividis",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titley": 1.0,  # fixed: looking for room is slow
            "figure.constrained_layout.h_pad": 0.07,  # inches
            "figure.constrained_layout.w_pad": 0.07,
        }
    )
    InlineBackend.instance().print_figure_kwargs = {"bbox_inches": None}  # to look for a tight box is to draw twice
