"""Trains the decoder that chapter 13 scores where a student has none, and writes ch13_decoder.npz. Half a minute.

python experiments/ch13_decoder.py
"""

from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch13 import trained_decoder
from possm_course.chapters.ch14 import decoders
from possm_course.stored import embedded_session
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, fit, prepare

FILE = Path(__file__).with_suffix(".npz")


def main():
    recording = load_recording(embedded_session())
    torch.manual_seed(0)
    model = trained_decoder.make(recording.n_units)
    config = FitConfig(epochs=6, window_s=1.0, samples=10, lr=3e-3, validations=0)
    fit(model, prepare(recording), config, progress=False)
    np.savez_compressed(FILE, **decoders.pack(model.state_dict()))
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
