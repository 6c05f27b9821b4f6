"""Closed loops of chapter 14 with the two decoders that come trained: times to a target, and one target that stays.

`python notebooks/figures/14_votes.py` lets them steer, in some seconds, and writes 14_votes.json beside it.
"""

import json
from pathlib import Path

import torch

from possm_lite.course.load import load_figures
from possm_lite.course.parallel import in_parallel
from possm_lite.decoder import StreamingDecoder
from possm_lite.recordings import load_recording
from possm_lite.simulate import load_ground_truth

NOTEBOOKS, FILE = Path(__file__).parents[1], Path(__file__).with_suffix(".json")
KAPPAS = {"100 ms ahead": (3.0, 5.0, 10.0), "200 ms ahead": (5.0, 10.0, 20.0)}  # 1/s
PATH = NOTEBOOKS.parent / "data" / "simulated_session.npz"


def steered(stream, kappa):
    return load_figures("14_refit", NOTEBOOKS).seconds_per_target(stream, load_ground_truth(PATH), kappa).tolist()


def held(stream, kappa):
    return load_figures("14_stability", NOTEBOOKS).ends(stream, load_ground_truth(PATH), kappa)


def stored() -> dict[str, list]:
    """By decoder the mean times, (kappas, seeds), s; by "held" what `14_stability.ends` gives of that of 100 ms."""
    return json.loads(FILE.read_text(encoding="utf-8"))


@torch.no_grad()
def main():
    models = load_figures("14_decoders", NOTEBOOKS).load(load_recording(PATH).n_units)
    ahead = {name: StreamingDecoder(models[name], 1, 0.04) for name in KAPPAS}
    found = {name: in_parallel(steered, [(ahead[name], kappa) for kappa in kappas]) for name, kappas in KAPPAS.items()}
    kappas = load_figures("14_stability", NOTEBOOKS).KAPPAS
    found["held"] = in_parallel(held, [(ahead["100 ms ahead"], kappa) for kappa in kappas])
    FILE.write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(found)


if __name__ == "__main__":
    main()
