"""The drawings of chapter 09: patterns as pictures."""

import matplotlib.pyplot as plt
from torch import Tensor


def show(pictures: dict[str, Tensor]) -> None:
    """Draws patterns as pictures side by side, each under its name.

    Args:
        pictures: name to pattern of 12 x 12 units, shape (144,).
    """
    size = (6.4, 6.4 / len(pictures) + 0.25)  # squares in one row, and their names
    figure, axes = plt.subplots(1, len(pictures), figsize=size, layout="constrained")
    for ax, (name, picture) in zip(axes, pictures.items(), strict=True):
        ax.imshow(picture.reshape(12, 12), cmap="cividis", vmin=-1, vmax=1)
        ax.set_title(name, fontsize=11)
        ax.set(xticks=[], yticks=[])
    plt.show()
