"""How good is the decoder of chapter 13, how good can it be, and what would buy more? Writes ch13_how_good.json.

python experiments/ch13_how_good.py filter     the particle filter that knows the simulator: two hours and a half
python experiments/ch13_how_good.py longer     the decoder with more minutes of the same units: about an hour
python experiments/ch13_how_good.py joint      the decoder trained together with sessions of other units: half an hour

Everything is scored on the test part of the embedded session. Each result is written when it is there, and one that is
there already is not computed again.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch13 import particle_filter
from possm_course.chapters.ch13.particle_filter import ParticleFilter
from possm_course.stored import embedded_session
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import Recording, load_recording
from possm_lite.recordings.split import SplitConfig
from possm_lite.simulate import load_ground_truth, simulate_session
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.evaluate import r2_score
from possm_lite.training.session import Session
from possm_lite.training.transfer import combine_sessions

FILE = Path(__file__).with_suffix(".json")
PARTICLES = (250, 1000, 4000, 16000, 64000)
FILTER_SEEDS = (0, 1)
SEEDS = (0, 1, 2)
MORE_MINUTES = {0: 40, 10: 40, 40: 25}  # minutes added to the seven of the training part: epochs
OTHER_SESSIONS = 4


def with_minutes(minutes: int) -> Session:
    """The embedded session after so many minutes of other reaches with the same units.

    Validation and test trials are those of the embedded session.
    """
    embedded, truth = load_recording(embedded_session()), load_ground_truth(embedded_session())
    if not minutes:
        return prepare(embedded)
    per_trial_s = np.ptp(embedded.trials) / len(embedded.trials)
    config = replace(truth.config, n_trials=round(60 * minutes / per_trial_s))
    before = simulate_session(1000 + minutes, config, truth.units).recording
    n_trials = len(before.trials) + len(embedded.trials)
    alone = prepare(embedded).split
    n_valid, n_test = len(alone.valid), len(alone.test)
    shares = (1 - (n_valid + n_test) / n_trials, n_valid / n_trials, n_test / n_trials)
    session = prepare(joined(before, embedded), SplitConfig(shares=shares))
    assert np.allclose(session.split.test - before.trials[-1, 1], alone.test)
    return session


def joined(first: Recording, second: Recording) -> Recording:
    """Two recordings of the same units, the second after the first."""
    shift = first.trials[-1, 1]
    return replace(
        second,
        spike_times=np.concatenate([first.spike_times, second.spike_times + shift]),
        spike_units=np.concatenate([first.spike_units, second.spike_units]),
        behavior_times=np.concatenate([first.behavior_times, second.behavior_times + shift]),
        behavior=np.concatenate([first.behavior, second.behavior]),
        trials=np.concatenate([first.trials, second.trials + shift]),
    )


def train_longer(minutes: int, seed: int) -> dict:
    """Train with `minutes` more, and score."""
    session = with_minutes(minutes)
    torch.manual_seed(seed)
    model = POSSM(POSSMConfig(n_units=session.recording.n_units))
    fit(model, session, FitConfig(epochs=MORE_MINUTES[minutes], seed=seed, validations=0), progress=False)
    seconds = np.ptp(session.split.train, axis=1).sum()
    return {"minutes": round(seconds / 60, 1), "r2": evaluate(model, session).r2}


def train_jointly(n_others: int, seed: int) -> dict:
    """Train on the embedded session and `n_others` simulated ones with units of their own, and score."""
    recordings = [load_recording(embedded_session())]
    recordings += [simulate_session(2000 + i).recording for i in range(n_others)]
    sessions = combine_sessions([prepare(recording) for recording in recordings])
    torch.manual_seed(seed)
    model = POSSM(POSSMConfig(n_units=sum(r.n_units for r in recordings), n_sessions=len(sessions)))
    fit(model, sessions, FitConfig(seed=seed, validations=0), progress=False)
    return {"r2": evaluate(model, sessions[0]).r2}


def score_filter(n_particles: int, seed: int) -> dict:
    """Decode the test part with so many particles, at the moments at which the networks are scored, and score."""
    recording, truth = load_recording(embedded_session()), load_ground_truth(embedded_session())
    session = prepare(recording)
    ((start, stop),) = session.segments("test")
    batch = session.cut(start, stop - start)
    known = batch.mask[0]
    times, true = batch.times_s[0, known].numpy(), batch.behavior[0, known].numpy()
    began = time.process_time()
    decoded, _ = particle_filter.decode(recording, start, times, ParticleFilter(truth, n_particles, seed))
    return {"r2": r2_score(true, decoded).mean(), "seconds": time.process_time() - began}


def keep(name: str, compute: Callable[[int, int], dict], *arguments: int):
    """Compute one result, unless it is in the file, and write it there."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    key = " ".join(map(str, arguments))
    if key in results.setdefault(name, {}):
        return
    result = compute(*arguments)
    results = json.loads(FILE.read_text()) if FILE.exists() else {}  # another process may have written meanwhile
    results.setdefault(name, {})[key] = {k: round(v, 4) for k, v in result.items()}
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    print(name, key, results[name][key], flush=True)


def main():
    torch.set_num_threads(1)
    part = sys.argv[1]
    if part == "filter":
        # With many particles twice as fast; a first run compiles for a minute.
        particle_filter.log_rates = torch.compile(particle_filter.log_rates)
        particle_filter.hand_of = torch.compile(particle_filter.hand_of)
        for n_particles in PARTICLES:
            for seed in FILTER_SEEDS:
                keep(part, score_filter, n_particles, seed)
    if part == "longer":
        for seed in SEEDS:
            for minutes in MORE_MINUTES:
                keep(part, train_longer, minutes, seed)
    if part == "joint":
        for seed in SEEDS:
            keep(part, train_jointly, OTHER_SESSIONS, seed)


if __name__ == "__main__":
    main()
