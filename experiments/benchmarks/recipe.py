"""Changes of the recipe of training, offered alike to POSSM and to the GRU on counts; and intervals over trials.

Each change is made alone, on the simulated session, with the settings that are best for the decoder without it. Those
that gain at least `WORTH` of R² on its validation part, mean of the seeds, are then made together on each recording.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from possm_course.chapters.ch13.rivals import bootstrap, sums_of_trials
from possm_course.chapters.ch17.measures import pieces_of
from possm_course.parallel import in_parallel
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.recordings import Recording, load_recording
from possm_lite.recordings.timeline import Timeline
from possm_lite.simulate import simulate_session
from possm_lite.training import FitConfig, Session, evaluate, fit, prepare
from possm_lite.training.distributed import SINGLE_PROCESS
from possm_lite.training.evaluate import Decoded, slot_offsets
from possm_lite.training.transfer import combine_sessions, for_new_session, freeze_backbone
from possm_lite.training.windows import MultiSessionSampler

from .comparison import EPOCHS, GRU, RECORDINGS, SIMULATED, present
from .page import ROOT, Item, Note, Table, load_results, with_spread

POSSM_GRU = "POSSM, gru"
DECODERS = (POSSM_GRU, GRU)
N_SEEDS, N_DRAWS = 5, 10_000
N_PRETRAINED = 2  # seeds, as it takes six times as long as the others
WORTH = 0.003
LAGS_S = (0.0, 0.1)
AS_IT_IS, WEIGHTS, SEVERAL = "as it is", "average of weights", "five decoders averaged"
AVERAGED_SHARE = 0.2  # of the steps, the last ones


@dataclass(frozen=True)
class Change:
    """What a training does otherwise.

    Attributes:
        settings: fields of `FitConfig` that are replaced, as (name, value).
        jitter_s: standard deviation of the noise on each spike time in training, seconds.
        n_sessions: number of simulated sessions of other units that the decoder is trained on before.
        times_epochs: by how much the training is longer.
    """

    settings: tuple[tuple[str, float], ...] = ()
    jitter_s: float = 0.0
    n_sessions: int = 0
    times_epochs: int = 1


CHANGES = {
    AS_IT_IS: Change(),
    "spike times moved by 5 ms": Change(jitter_s=0.005),
    "spike times moved by 20 ms": Change(jitter_s=0.020),
    "spike times moved by 40 ms": Change(jitter_s=0.040),
    "up to 30 % of units hidden": Change((("unit_dropout", 0.3),)),
    "up to 60 % of units hidden": Change((("unit_dropout", 0.6),)),
    "windows of 8 s": Change((("window_s", 8.0), ("batch", 4))),
    "twice the epochs": Change(times_epochs=2),
    f"trained before on 4 simulated sessions ({N_PRETRAINED} seeds)": Change(n_sessions=4),
}


def settings_found(source: str, decoder: str) -> dict[str, float]:
    """The settings that the section "accuracy" has found for a decoder on a recording."""
    (table,) = [
        item
        for item in load_results(ROOT)["accuracy"]["items"]
        if isinstance(item, Table) and item.title.startswith("Settings of training")
    ]
    (cells,) = [cells for cells in table.rows if cells[0] == decoder]
    words = cells[table.head.index(source)]
    lr, batch, window_s = re.fullmatch(r"lr (\S+), (\d+) windows of (\S+) s", words).groups()
    return {"lr": float(lr), "batch": int(batch), "window_s": float(window_s)}


class JitteredTimeline(Timeline):
    """A timeline whose spikes are moved at random where windows are cut for training.

    Args:
        timeline: the timeline as recorded.
        jitter_s: standard deviation of the noise on each spike time, seconds.
        seed: of the noise.
    """

    every = 10  # cuts: drawing and sorting takes as long as a step

    def __init__(self, timeline: Timeline, jitter_s: float, seed: int):
        super().__init__(timeline.recording, timeline.lag_s, timeline.bin_width_s)
        self._recorded = self.spike_times, self.spike_units
        self._jitter_s = jitter_s
        self._rng = np.random.default_rng(seed)
        self._n_cuts = 0

    def cut(self, starts, duration_s: float, keep_unit: np.ndarray | None = None):
        """As of `Timeline`."""
        if self._n_cuts % self.every == 0:
            times, units = self._recorded
            times = times + self._jitter_s * self._rng.standard_normal(len(times))
            order = np.argsort(times, kind="stable")
            self.spike_times, self.spike_units = times[order], units[order]
        self._n_cuts += 1
        return super().cut(starts, duration_s, keep_unit)


def train(
    path: Path, decoder: str, changes: Sequence[Change], lag_s: float, seed: int, short: bool, settings: dict
) -> dict[str, dict]:
    """Train a decoder with all of the changes, and score it.

    Args:
        path: the recording.
        decoder: of `DECODERS`.
        changes: all are made.
        lag_s: behaviour minus spikes, seconds.
        seed: of weights, windows, hidden units and moved spikes.
        short: one epoch.
        settings: fields of `FitConfig`, "epochs" among them.

    Returns:
        What `scored` gives of the last weights, and of their average over the last fifth of the steps.
    """
    session = prepare(load_recording(path), lag_s=lag_s)
    settings = dict(settings)
    for change in changes:
        settings |= dict(change.settings)
        settings["epochs"] *= change.times_epochs
    if short:
        settings["epochs"] = 1
    config = FitConfig(seed=seed, validations=0, **settings)
    n_sessions = max(change.n_sessions for change in changes)
    torch.manual_seed(seed)
    model = pretrained(decoder, session, n_sessions, config) if n_sessions else make(decoder, session)
    jitter_s = max(change.jitter_s for change in changes)
    trained_on = session
    if jitter_s:
        trained_on = replace(session, timeline=JitteredTimeline(session.timeline, jitter_s, seed))
    average = average_of_last(model, trained_on, config)
    fit(model, trained_on, config, progress=False)
    return {AS_IT_IS: scored(model, session), WEIGHTS: scored(average.module, session)}


def make(decoder: str, session: Session) -> nn.Module:
    """A decoder of either kind for the units and columns of a session."""
    n_units, n_columns = session.recording.n_units, session.recording.n_columns
    if decoder == POSSM_GRU:
        return POSSM(POSSMConfig(n_units=n_units, n_outputs=n_columns))
    return BinnedGRU(n_units, session.timeline.bin_width_s, len(slot_offsets(session)), n_columns)


def average_of_last(model: nn.Module, session: Session, config: FitConfig) -> AveragedModel:
    """A copy of a model that will hold the mean of its weights over the last steps of a training."""
    average = AveragedModel(model)
    n_steps = config.epochs * MultiSessionSampler([session], config, SINGLE_PROCESS).steps_per_epoch
    begins_at = round((1 - AVERAGED_SHARE) * n_steps)
    n_done = 0

    def before_step(model: nn.Module, _):
        nonlocal n_done
        if not model.training:
            return
        if n_done >= begins_at:
            average.update_parameters(model)
        n_done += 1

    model.register_forward_pre_hook(before_step)
    return average


def pretrained(decoder: str, session: Session, n_sessions: int, config: FitConfig) -> nn.Module:
    """A decoder that was trained on simulated sessions of other units, with its own units learned.

    What belongs to units learns alone first, as in `adapt`, with the settings of the training that follows. A GRU on
    counts reads the sessions one after the other, each with units of its own that are silent in the others.
    """
    others = [simulate_session(3000 + i).recording for i in range(n_sessions)]
    if decoder == POSSM_GRU:
        sessions = combine_sessions([prepare(recording) for recording in others])
        n_units = sum(recording.n_units for recording in others)
        before = POSSM(POSSMConfig(n_units, n_outputs=session.recording.n_columns, n_sessions=n_sessions))
        fit(before, sessions, config, progress=False)
        new = freeze_backbone(for_new_session(before, session.recording.n_units))
        of_units = replace(config, lr=10 * config.lr)
    else:
        joined = prepare(one_after_the_other(others))
        before = make(decoder, joined)
        fit(before, joined, config, progress=False)
        new = make(decoder, session)
        of_units = config
        # all but the input weights, a column for each unit
        kept = {name: w for name, w in before.state_dict().items() if w.shape == new.state_dict()[name].shape}
        new.load_state_dict(kept, strict=False)
        for name, parameter in new.named_parameters():
            parameter.requires_grad_(name not in kept)
    fit(new, session, of_units, progress=False)
    return new.requires_grad_(True)


def one_after_the_other(recordings: list[Recording]) -> Recording:
    """Recordings on one clock, each with units of its own."""
    shifts = np.cumsum([0.0, *(recording.trials[-1, 1] for recording in recordings[:-1])])
    first_units = np.cumsum([0, *(recording.n_units for recording in recordings[:-1])])
    each = list(zip(recordings, shifts, first_units, strict=True))
    return replace(
        recordings[0],
        spike_times=np.concatenate([r.spike_times + shift for r, shift, _ in each]),
        spike_units=np.concatenate([r.spike_units + first for r, _, first in each]),
        unit_ids=np.array([f"{i} {name}" for i, r in enumerate(recordings) for name in r.unit_ids]),
        behavior_times=np.concatenate([r.behavior_times + shift for r, shift, _ in each]),
        behavior=np.concatenate([r.behavior for r in recordings]),
        trials=np.concatenate([r.trials + shift for r, shift, _ in each]),
    )


def scored(model: nn.Module, session: Session) -> dict:
    """What a decoder gives: "valid" and "test", each a `Decoded`, and the test trials, (n, 2)."""
    valid, test = (evaluate(model, session, part) for part in ("valid", "test"))
    return {"valid": valid, "test": test, "trials": session.split.test}


def together(runs: Sequence[dict]) -> dict:
    """What several decoders give together: the mean of their outputs, as of `scored`."""
    of_all = {}
    for part in ("valid", "test"):
        decoded = np.mean([run[part].decoded for run in runs], 0)
        displayed = np.mean([run[part].displayed for run in runs], 0)
        of_all[part] = replace(runs[0][part], decoded=decoded, displayed=displayed)
    return of_all | {"trials": runs[0]["trials"]}


def runs_of(
    keys: Sequence[tuple[str, str, tuple[Change, ...], float]], found: dict[str, Path], n_seeds: int, short: bool
) -> list[list[dict]]:
    """Trainings from `n_seeds` seeds for each (recording, decoder, changes, lag in s), as of `train`."""
    calls = []
    for (source, decoder, changes, lag_s), seed in product(keys, range(n_seeds)):
        settings = settings_found(source, decoder) | {"epochs": EPOCHS[source]}
        calls.append((found[source], decoder, changes, lag_s, seed, short, settings))
    runs = in_parallel(train, calls)
    return [runs[i : i + n_seeds] for i in range(0, len(runs), n_seeds)]


def measure_intervals(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """POSSM against the GRU on counts at both lags, with intervals over the test trials."""
    found, missing = present(recordings)
    yield from missing
    keys = [(source, decoder, (Change(),), lag_s) for source, lag_s, decoder in product(found, LAGS_S, DECODERS)]
    n_seeds = 2 if short else N_SEEDS
    by_key = {}
    for key, runs in zip(keys, runs_of(keys, found, n_seeds, short), strict=True):
        by_key[key] = [run[AS_IT_IS] for run in runs]
    for lag_s in LAGS_S:
        rows = []
        for source in found:
            possm, gru = (by_key[source, decoder, (Change(),), lag_s] for decoder in DECODERS)
            for shown in (False, True):
                r2 = [np.array([r2_of(run["test"], shown) for run in runs]) for runs in (possm, gru)]
                low, high = interval_over_trials(possm, gru, shown)
                what = f"{source}, {'displayed' if shown else 'at the moments asked'}"
                difference = f"{r2[0].mean() - r2[1].mean():+.3f}"
                rows.append([what, *map(with_spread, r2), difference, f"{low:+.3f} to {high:+.3f}"])
        head = ["", "POSSM", GRU, "difference", "95 % of resampled trials"]
        yield Table(f"Intervals over trials, lag {1000 * lag_s:.0f} ms, {n_seeds} seeds", head, rows)
    yield Note(
        f"The test trials, of recordings without trials pieces of 5 s, are drawn {N_DRAWS:,} times with replacement, "
        "the same for both decoders; squared errors are the mean of the seeds. The settings are those of the section "
        "on accuracy, found at a lag of 0."
    )


def r2_of(test: Decoded, shown: bool) -> float:
    """R² at the moments asked, or of what is displayed."""
    return test.r2_displayed if shown else test.r2


def interval_over_trials(runs: Sequence[dict], others: Sequence[dict], shown: bool) -> np.ndarray:
    """Ends of the 95 % interval of the difference of R², (2,), over trials drawn with replacement, in pairs.

    A recording without trials is drawn in pieces of up to five seconds.
    """
    trials = pieces_of(runs[0]["trials"])
    draws = np.random.default_rng(0).integers(0, len(trials), (N_DRAWS, len(trials)))
    r2 = []
    for of_decoder in (runs, others):
        tests = [run["test"] for run in of_decoder]
        sums = [sums_of_trials(t.true, t.displayed if shown else t.decoded, t.times_s, trials) for t in tests]
        r2.append(bootstrap(np.mean(sums, 0), draws))
    return np.percentile(r2[0] - r2[1], [2.5, 97.5])


def measure(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """Each change alone on the simulated session; then those that gain, together on each recording."""
    found, missing = present(recordings)
    yield from missing
    n_seeds = 2 if short else N_SEEDS
    names = list(CHANGES)[:2] if short else list(CHANGES)
    alone = runs_alone(names, found, n_seeds, short)
    gains = {name: {d: gain(runs[d], alone[AS_IT_IS][d]) for d in DECODERS} for name, runs in alone.items()}
    yield Table(f"Changes, each alone: simulated session, {n_seeds} seeds", *rows_alone(alone, gains))

    chosen = {d: best_of_each_kind({name: gains[name][d] for name in names}) for d in DECODERS}
    averaged = {d: gains[WEIGHTS][d] >= WORTH for d in DECODERS}
    for decoder in DECODERS:
        words = [*chosen[decoder], *([WEIGHTS] if averaged[decoder] else [])]
        yield Note(f"{decoder}, gain at least {WORTH} on validation: {', '.join(words) or 'nothing'}.")
    keys = [
        (source, decoder, tuple(CHANGES[name] for name in [AS_IT_IS, *changes]), 0.0)
        for source in found
        for decoder in DECODERS
        for changes in ([], chosen[decoder])
    ]
    done = iter(runs_of(keys, found, n_seeds, short))
    rows = []
    for source, decoder in product(found, DECODERS):
        before = [run[AS_IT_IS] for run in next(done)]
        after = [run[WEIGHTS if averaged[decoder] else AS_IT_IS] for run in next(done)]
        gained = gain(after, before)
        of_five = [f"{together(runs)['test'].r2:.3f}" for runs in (before, after)]
        cells = [r2_with_spread(before), r2_with_spread(after), f"{gained:+.4f}", *of_five]
        rows.append([f"{source}, {decoder}", *cells, of_five[gained > 0]])
    head = ["R², test", AS_IT_IS, "with these changes", "gain, validation"]
    head += [f"{SEVERAL}, {AS_IT_IS}", f"{SEVERAL}, with these changes", f"{SEVERAL}, as validation chooses"]
    yield Table(f"Changes that gain, together, {n_seeds} seeds", head, rows)


def runs_alone(
    names: Sequence[str], found: dict[str, Path], n_seeds: int, short: bool
) -> dict[str, dict[str, list[dict]]]:
    """What each decoder gives on the simulated session with each change alone, by both, a run per seed."""
    of: dict[tuple[str, str], list[dict]] = {}
    for name, decoder in product(names, DECODERS):
        seeds = min(n_seeds, N_PRETRAINED) if CHANGES[name].n_sessions else n_seeds
        (of[name, decoder],) = runs_of([(SIMULATED, decoder, (CHANGES[name],), 0.0)], found, seeds, short)
    alone = {name: {d: [run[AS_IT_IS] for run in of[name, d]] for d in DECODERS} for name in names}
    alone[WEIGHTS] = {d: [run[WEIGHTS] for run in of[AS_IT_IS, d]] for d in DECODERS}
    alone[SEVERAL] = {d: [together(alone[AS_IT_IS][d])] for d in DECODERS}
    return alone


def rows_alone(
    alone: dict[str, dict[str, list[dict]]], gains: dict[str, dict[str, float]]
) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of changes, each alone: gain on validation and R² on the test part, by decoder."""
    rows = []
    for name, runs in alone.items():
        cells = [name]
        for decoder in DECODERS:
            cells += ["" if name == AS_IT_IS else f"{gains[name][decoder]:+.4f}", r2_with_spread(runs[decoder])]
        rows.append(cells)
    return ["", *(f"{decoder}{what}" for decoder in DECODERS for what in (": gain, validation", ": R², test"))], rows


def r2_with_spread(runs: Sequence[dict]) -> str:
    """R² on the test part with its spread over seeds, as text."""
    return with_spread(np.array([run["test"].r2 for run in runs]))


def best_of_each_kind(gains: dict[str, float]) -> list[str]:
    """Of the changes that do the same to another extent, the one that gains most, if that is at least `WORTH`."""
    best: dict[tuple, str] = {}
    for name, gained in gains.items():
        change = CHANGES[name]
        kind = (*dict(change.settings), change.jitter_s > 0, change.n_sessions > 0, change.times_epochs > 1)
        if gained >= max(WORTH, gains[best[kind]] if kind in best else WORTH):
            best[kind] = name
    return list(best.values())


def gain(runs: Sequence[dict], others: Sequence[dict]) -> float:
    """By how much the mean validation R² is better than that of the same seeds; of all, for decoders together."""
    same = others[: len(runs)] if len(runs) > 1 else others
    return float(np.mean([run["valid"].r2 for run in runs]) - np.mean([run["valid"].r2 for run in same]))
