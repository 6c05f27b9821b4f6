"""The drawings of chapter 09: patterns as pictures."""

import matplotlib.pyplot as plt
from torch import Tensor


def show(pictures: dict[str, Tensor]) -> None:
    """Draws patterns as pictures side by side, each under its name.

    Args:
        pictures: name to pattern of 12 x 12 units, shape (144,).
    """
    figure, axes = plt.subplots(1, len(pictures), figsize=(6.4, 2.0), layout="constrained")
    for ax, (name, picture) in zip(axes, pictures.items(), strict=True):
        ax.imshow(picture.reshape(12, 12), cmap="cividis", vmin=-1, vmax=1)
        ax.set_title(name, fontsize=11)
        ax.set(xticks=[], yticks=[])
    plt.show()
