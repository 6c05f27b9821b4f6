"""The sessions, decoders and ways of chapter 16 (path and deeper), and what they reach with few trials.

`RESULTS` is what experiments/ch16_new_sessions.py has measured.
"""

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedDecoder
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, UnitTuning, draw_units
from possm_lite.training import FitConfig, Session, combine_sessions, evaluate, fit, prepare
from possm_lite.training.linear import binned
from possm_lite.training.transfer import for_new_session, freeze_backbone

RESULTS: dict = json.loads(result("ch16_new_sessions.json").read_text(encoding="utf-8"))

# Two subjects, and a shorter session of the second
A = SimulationConfig(n_units=40, n_trials=600, random_target_share=1.0, n_random_reaches=1)
B = replace(A, lag_s=0.13, common_turning_deg=-25.0, bend_deg=20.0)
NEW = replace(B, n_trials=200)
SPLIT = "chronological:70/3/27"  # % of trials for training, validation, test; little is decided by validation here
OWN = ("unit_embedding.weight", "session_embedding.weight")  # what a session does not share
LR = {POSSM: 4e-3}  # from scratch and for all sessions together; of the GRU below
SLOTS = 5  # velocities per bin of 50 ms, one every 10 ms


def sizes(n_units: int, n_sessions: int = 1) -> POSSMConfig:
    return POSSMConfig(n_units, n_sessions, dim=32, head_dim=24, n_freqs=8, hidden=128)


class CountGRU(BinnedDecoder):
    """A GRU on counts with a table of unit embeddings: formula (16.2). The base class counts and takes the root."""

    def __init__(self, n_units: int, n_sessions: int = 1, dim: int = 32, hidden: int = 128):
        super().__init__(n_units, n_slots=SLOTS)
        self.unit_embedding, self.session_embedding = nn.Embedding(1 + n_units, dim), nn.Embedding(1 + n_sessions, dim)
        for table in (self.unit_embedding, self.session_embedding):
            nn.init.normal_(table.weight, std=0.1)
        self.gru, self.readout = nn.GRU(dim, hidden, batch_first=True), nn.Linear(hidden, 2 * SLOTS)
        self.behavior_mean, self.behavior_std = torch.zeros(1 + n_sessions, 2), torch.ones(1 + n_sessions, 2)
        self.day: nn.Module = nn.Identity()  # or a layer for one day, before the table

    def forward(self, batch, output_times_s: Tensor, session: Tensor) -> Tensor:
        self.session = session
        return super().forward(batch, output_times_s, session)

    def decode_counts(self, n: Tensor) -> Tensor:  # square roots of counts, (B, T, U)
        x = self.day(n) @ self.unit_embedding.weight[1:] + self.session_embedding(self.session)[:, None]  # (B, T, D)
        return self.readout(self.gru(x)[0]).unflatten(-1, (SLOTS, 2))


LR[CountGRU] = 8e-3


def train(model, sessions, steps: int, lr: float, seed: int, window_s: float = 1.0, batch: int = 8):
    """Fit in place, for about so many steps of `batch` windows; returns the model."""
    listed = sessions if isinstance(sessions, list) else [sessions]
    seconds = sum(np.diff(s.segments("train")).sum() for s in listed)
    epochs = math.ceil(steps / max(1, round(seconds / window_s / batch)))
    config = FitConfig(epochs, window_s, batch, samples=20, lr=lr, unit_dropout=0.3, validations=0, seed=seed)
    fit(model, sessions, config, progress=False)
    return model


def pretrained(kind: type, sessions: list[Session], steps: int, seed: int, window_s: float = 2.0):
    """One decoder of all these sessions, already combined."""
    torch.manual_seed(seed)
    n_units, n_sessions = sum(s.recording.n_units for s in sessions), len(sessions)
    model = POSSM(sizes(n_units, n_sessions)) if kind is POSSM else CountGRU(n_units, n_sessions)
    return train(model, sessions, steps, LR[kind], seed, window_s)


# Ways to a decoder of a new session
def fresh_table(past, n_units: int):
    """The common weights of the past with fresh embeddings, which alone learn."""
    if isinstance(past, POSSM):
        return freeze_backbone(for_new_session(past, n_units))
    model = CountGRU(n_units)
    own = {name: model.state_dict()[name] for name in (*OWN, "behavior_mean", "behavior_std")}
    model.load_state_dict(past.state_dict() | own)
    return freeze_backbone(model)


def identify(past, session: Session, steps: int, seed: int, lr: float = 1e-2):
    """Unit identification: only the embeddings learn, from the start."""
    torch.manual_seed(seed)
    return train(fresh_table(past, session.recording.n_units), session, steps, lr, seed)


def finetune(model, session: Session, steps: int, seed: int):
    """Go on with all weights."""
    return train(copy.deepcopy(model).requires_grad_(True), session, steps, 1e-3, seed + 100)


def from_scratch(kind: type, session: Session, steps: int, seed: int):
    """All weights learn, from the start: no past."""
    return pretrained(kind, combine_sessions([session]), steps, seed, window_s=1.0)


def old_table(model, session: Session, steps: int, seed: int):
    """Go on from the table of day 0, which alone learns."""
    return train(freeze_backbone(copy.deepcopy(model)), session, steps, 1e-2, seed)


def day_layer(model, session: Session, steps: int, seed: int):
    """A square layer in front of the table is all that learns; it begins as the identity."""
    n_units = session.recording.n_units
    learning = copy.deepcopy(model).requires_grad_(False)
    learning.day = nn.Linear(n_units, n_units)
    learning.day.load_state_dict({"weight": torch.eye(n_units), "bias": torch.zeros(n_units)})
    return train(learning, session, steps, 1e-2, seed)


# Alignment, without a gradient
def rows(session: Session, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Of each bin: root counts (N, U), and the movement from 300 ms before to 300 ms after it, (N, 14)."""
    counts, movements = binned(session, part)
    around = []
    for v in movements:  # (T, slots, 2), in standard deviations
        v = np.pad(np.nan_to_num(v * session.std + session.mean).mean(1), ((6, 6), (0, 0)), mode="edge")
        around.append(np.concatenate([v[k : k + len(v) - 12] for k in range(0, 13, 2)], 1))
    return np.concatenate(counts).astype(float), np.concatenate(around)


def map_in(model) -> tuple[np.ndarray, np.ndarray]:
    """W (U, D) and b (D,) of a decoder on counts: it reads sqrt(n) W + b."""
    E, e = model.unit_embedding.weight, model.session_embedding.weight
    return E[1:].detach().double().numpy(), e[1].detach().double().numpy()


def with_map(model, W: np.ndarray, b: np.ndarray):
    """A copy that reads sqrt(n) W + b; all else is the same."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.unit_embedding.weight[1:], other.session_embedding.weight[1] = torch.tensor(W), torch.tensor(b)
    return other


def components(x: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and the first c principal axes as columns."""
    return x.mean(0), np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:c].T


def when_alike(movement: np.ndarray, movement_first: np.ndarray, latents_first: np.ndarray, alike: int = 5):
    """For each bin of today the mean latents (N, D) of the bins of day 0 with the most similar movements."""
    a, b = movement / movement_first.std(0), movement_first / movement_first.std(0)
    distance = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T  # (N, N of day 0)
    return latents_first[np.argpartition(distance, alike, 1)[:, :alike]].mean(1)


def canonical(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Formula (16.5): the map M (c, c) from latents x to latents y, both (N, c), and the canonical correlations."""
    (q_x, r_x), (q_y, r_y) = (np.linalg.qr(z - z.mean(0)) for z in (x, y))
    U, S, Vt = np.linalg.svd(q_x.T @ q_y)
    return np.linalg.solve(r_x, U @ Vt @ r_y), S


def aligned(model, today: Session, first: Session, align: Callable = canonical, c: int = 16):
    """The decoder of day 0 behind a map that takes the latents of today to those of day 0."""
    (n, movement), (n_first, movement_first), (W, b) = rows(today), rows(first), map_in(model)
    y = when_alike(movement, movement_first, n_first @ W)  # (N, D): what x was when it moved like this
    (n_mean, P), (y_mean, P_y) = components(n, c), components(y, c)
    W_new = P @ align((n - n_mean) @ P, (y - y_mean) @ P_y)[0] @ P_y.T
    return with_map(model, W_new, b + y_mean - n_mean @ W_new)


def mean_paths(session: Session, latents: np.ndarray, n_bins: int = 13) -> np.ndarray:
    """Latents (N, c) of the training bins, averaged over the reaches to each of eight directions, (8, n_bins, c)."""
    r, width, first = session.recording, session.timeline.bin_width_s, session.split.train[0, 0]
    paths = [[] for _ in range(8)]
    for start, stop in session.split.train:
        x, y = r.behavior[slice(*np.searchsorted(r.behavior_times, (start, stop)))].mean(0)
        row = round((start - first) / width)
        if row + n_bins <= len(latents):
            paths[round(np.arctan2(y, x) / (np.pi / 4)) % 8].append(latents[row : row + n_bins])
    return np.stack([np.mean(some, 0) for some in paths])


# Without labels: the statistics of the counts
def moments_of_counts(model, today: Session, first: Session):
    """Mean and spread of each unit's root counts as on day 0."""
    n, n_first, (W, b) = rows(today)[0], rows(first)[0], map_in(model)
    stretch = n_first.std(0) / np.maximum(n.std(0), 1e-3)  # (U,)
    return with_map(model, stretch[:, None] * W, b + (n_first.mean(0) - n.mean(0) * stretch) @ W)


def moments_of_latents(model, today: Session, first: Session):
    """Mean and covariance of the latents as on day 0."""
    (W, b), n, n_first = map_in(model), rows(today)[0], rows(first)[0]
    M = _power(np.cov((n @ W).T), -0.5) @ _power(np.cov((n_first @ W).T), 0.5)  # (D, D)
    return with_map(model, W @ M, b + (n_first @ W).mean(0) - (n @ W).mean(0) @ M)


def imagined(session: Session, timing: bool = False) -> Session:
    """The session as if only targets were known, in training trials: a straight reach, of minimum jerk or as timed."""
    r, velocity = session.recording, np.zeros_like(session.recording.behavior)
    for start, stop in session.split.train:
        inside = (r.behavior_times >= start) & (r.behavior_times < stop)
        t = (r.behavior_times[inside] - start) / (stop - start)  # 0..1
        speed = np.linalg.norm(r.behavior[inside], axis=1) if timing else t**2 * (1 - t) ** 2
        velocity[inside] = r.behavior[inside].mean(0) * (speed / speed.mean())[:, None]  # the same way in the same time
    return prepare(replace(r, behavior=velocity), SPLIT)


def _power(covariance: np.ndarray, p: float) -> np.ndarray:
    values, axes = np.linalg.eigh(covariance)
    return axes * np.maximum(values, 1e-6) ** p @ axes.T


def drift_tuning(
    units: UnitTuning,
    rng: np.random.Generator,
    rotation_deg: float = 20.0,
    gain_spread: float = 0.15,
    replaced_share: float = 0.1,
    config: SimulationConfig | None = None,
) -> UnitTuning:
    """The tuning of the same electrodes on a later day; `units` is not changed.

        preferred direction + rotation_deg z,    baseline and depth x exp(gain_spread z),    z standard normal

    A random share of the units is replaced by others, drawn from `config`, under the same names. How long units stay
    was measured by Chestek et al. 2007 and Dickey et al. 2009; the defaults are a choice of this course.
    """
    n = len(units.tuned)
    config = replace(config or SimulationConfig(), n_units=n, n_common=units.common_gain.shape[1])
    baseline = units.baseline_hz * np.exp(gain_spread * rng.standard_normal(n))
    later = replace(
        units,
        preferred_direction_rad=units.preferred_direction_rad + np.radians(rotation_deg) * rng.standard_normal(n),
        baseline_hz=baseline,
        saturation_hz=np.maximum(units.saturation_hz, 2 * baseline),
        depth_s_per_mm=units.depth_s_per_mm * np.exp(gain_spread * rng.standard_normal(n)),
    )
    new_units = draw_units(rng, config)
    is_replaced = rng.permutation(n) < round(replaced_share * n)
    pairs = zip(vars(later).values(), vars(new_units).values(), strict=True)
    return UnitTuning(*(np.where(is_replaced, new.T, old.T).T for old, new in pairs))


def drifted(units: UnitTuning, days: int, seed: int, **amounts: float) -> UnitTuning:
    """The units after so many days, each on top of the days before."""
    rng = np.random.default_rng(seed)
    for _ in range(days):
        units = drift_tuning(units, rng, config=NEW, **amounts)
    return units


# What is stored
SEEDS, N_TRIALS = range(3), (5, 10, 20, 40, 80, 140)
PAST_SEEDS, N_PAST = range(6), (1, 2, 4, 8)


def past_sessions(seed: int, n: int) -> list[Session]:
    """So many sessions of the two subjects in turn; with even seeds A begins."""
    configs = [(A, B)[(i + seed) % 2] for i in range(n)]
    return combine_sessions(
        [prepare(simulate_session(1000 * seed + 1 + i, config).recording, SPLIT) for i, config in enumerate(configs)]
    )


def after_five_days(seed: int, n_trials=N_TRIALS, scale: float = 1.0) -> dict[str, list[float]]:
    """R² of the GRU on counts on day 5, by way and number of trials.

    A table takes 100 steps, a decoder without a past 240; from 80 trials on twice as many. Three ways have 20 alone.
    """
    past = pretrained(CountGRU, past_sessions(seed, 3), round(400 * scale), seed)
    first = simulate_session(1000 * seed + 90, NEW)
    day_0 = prepare(first.recording, SPLIT)
    units = drifted(first.truth.units, 5, seed)
    day_5 = prepare(simulate_session(1000 * seed + 95, NEW, units).recording, SPLIT)
    known = identify(past, day_0, round(200 * scale), seed)
    found = {"day 0": [evaluate(known, day_0).r2], "untouched": [evaluate(known, day_5).r2]}
    for n in n_trials:
        today, steps = day_5.first_trials(n), round(100 * scale * (2 if n >= 80 else 1))
        made = {
            "old table": old_table(known, today, steps, seed),
            "fresh table": identify(past, today, steps, seed),
            "from scratch": from_scratch(CountGRU, today, round(2.4 * steps), seed),
            "alignment (CCA)": aligned(known, today, day_0),
            "moments of counts": moments_of_counts(known, today, day_0),
            "moments of latents": moments_of_latents(known, today, day_0),
        }
        if n == 20:
            made["day-specific layer"] = day_layer(known, today, steps, seed)
            for name, timing in (("targets alone", False), ("targets and speed", True)):
                made[name] = old_table(known, imagined(day_5, timing).first_trials(n), steps, seed)
        for way, model in made.items():
            found.setdefault(way, []).append(evaluate(model, day_5).r2)
    return {way: np.round(r2, 4).tolist() for way, r2 in found.items()}


def by_past(seed: int, n_past=N_PAST) -> dict[str, list[float]]:
    """R² of the GRU on counts on a session with new units, from 5 and from 20 trials, by the sessions of its past.

    Each past has 600 steps, a fresh table 100.
    """
    sessions = past_sessions(seed, max(n_past))
    new = prepare(simulate_session(1000 * seed + 90, NEW).recording, SPLIT)
    found: dict[str, list[float]] = {"5 trials": [], "20 trials": []}
    for n in n_past:
        past = pretrained(CountGRU, combine_sessions(sessions[:n]), 600, seed)
        for k, r2 in ((5, found["5 trials"]), (20, found["20 trials"])):
            r2.append(round(evaluate(identify(past, new.first_trials(k), 100, seed), new).r2, 4))
    return found
