"""The package's decoder as chapter 12 builds it, trained for six passes: chapter 13 scores it where no own one is.

`python notebooks/figures/13_decoder.py` trains it, in half a minute, and writes 13_decoder.npz beside it.
"""

from pathlib import Path

import numpy as np
import torch

from possm_lite.course.load import load_figures
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, fit, prepare

HERE = Path(__file__).parent
FILE, DATA = Path(__file__).with_suffix(".npz"), HERE.parents[1] / "data" / "simulated_session.npz"
decoders = load_figures("14_decoders", HERE.parent)  # how weights are stored


def make(n_units):
    return POSSM(POSSMConfig(n_units, head_dim=32, n_freqs=8, reading="softmax"))


def load(n_units):
    with np.load(FILE) as stored:
        return decoders.unpack(make(n_units), stored)


def main():
    recording = load_recording(DATA)
    torch.manual_seed(0)
    model = make(recording.n_units)
    config = FitConfig(epochs=6, window_s=1.0, samples=10, lr=3e-3, validations=0)
    fit(model, prepare(recording), config, progress=False)
    np.savez_compressed(FILE, **decoders.pack(model.state_dict()))
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
