"""Builds the page on which the decoder runs: python -m tools.site.live FOLDER

Simulates a session of a visitor's movements, trains POSSM and a Wiener filter on it, and writes `live.html` with the
folder `live`, of which `weights.js` has the constants of both decoders and the tuning of the units, so that the page
fires the same ones. They are trained again only when this file or the package has changed.
"""

import base64
import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from scipy.signal import lfilter

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.baselines import BinnedStream, WienerFilter
from possm_lite.decoder.cells import FeedForward, LayerNorm, Linear
from possm_lite.recordings import Recording
from possm_lite.recordings.arrays import atomic_write
from possm_lite.simulate.neurons import (
    TICKS_PER_SECOND,
    SimulationConfig,
    UnitTuning,
    block_refractory,
    draw_common,
    draw_units,
    firing_rate,
)
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.linear import fit_wiener
from tools.site.repository import BASE_URL

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "live"
CACHE = ROOT / "docs" / "_build" / "live.npz"
SOURCES = [Path(__file__), *sorted((ROOT / "possm_lite").glob("[dnrst]*/**/*.py"))]  # decoder, nn, recordings, ...

# Against those of `data/`, these units fire more and are tuned more strongly, as visitors move more slowly than the
# reaches there. They lead the hand by less, at most 2 lag_s: by that the page shows the hand later.
UNITS = SimulationConfig(
    baseline_hz=8.0, saturation_hz=80.0, depth=1.2, reference_speed_mm_s=200.0, lag_s=0.06, lag_spread_s=0.02
)
AHEAD_S = (0.0, 0.05, 0.1)  # how much later than the spikes the velocities are that the decoders give, two columns each
ARM_S = 0.025  # time constant of the arm that follows the pointer
# share of each kind of movement, and how long it lasts at least and at most, in s; 0.02 s is a tap with a finger
MOVEMENTS = {"reach": (0.4, 0.02, 1.0), "scribble": (0.2, 1.0, 5.0), "key": (0.1, 0.1, 0.6), "rest": (0.3, 0.1, 1.0)}
KEY_MM_S = 300.0  # speed under an arrow key
SECONDS, TRIAL_S = 600, 4.0  # of the session
RATE_HZ, BEHAVIOR_HZ = 1000, 100  # of the hand, and of the velocity that is trained on
QUERIES_S = np.arange(5) / BEHAVIOR_HZ  # in a bin
LONG = 16_000  # numbers: of the matrices, of which float32 is exact enough
CONFIG = POSSMConfig(n_units=UNITS.n_units, hidden=128, n_outputs=2 * len(AHEAD_S))
TRAINING = FitConfig(epochs=20, window_s=1.0, samples=20, lr=3e-3, validations=0)


def visitor(rng: np.random.Generator, seconds: float, edge_mm: float) -> np.ndarray:
    """Where a visitor's pointer is, every ms, (T, 2) in mm from the centre: reaches, scribbles, arrow keys, rests.

    Args:
        rng: draws all of it.
        seconds: the duration.
        edge_mm: the pointer stays within ±`edge_mm` on both axes.
    """
    kinds, shares = list(MOVEMENTS), [share for share, _, _ in MOVEMENTS.values()]
    pieces, at, total = [], np.zeros(2), 0
    while total < seconds * RATE_HZ:
        kind = rng.choice(kinds, p=shares)
        _, shortest, longest = MOVEMENTS[kind]
        n = round(RATE_HZ * np.exp(rng.uniform(np.log(shortest), np.log(longest))))
        t = np.arange(1, n + 1)[:, None] / RATE_HZ  # (n, 1)
        if kind == "reach":
            piece = reach(rng, at, t, edge_mm)
        elif kind == "scribble":
            piece = at + scribble(rng, t, edge_mm)
        elif kind == "key":
            piece = at + KEY_MM_S * rng.integers(-1, 2, 2) * t
        else:
            piece = np.repeat(at[None], n, 0)
        pieces.append(np.clip(piece, -edge_mm, edge_mm))
        at = pieces[-1][-1]
        total += n
    return np.concatenate(pieces)[: round(seconds * RATE_HZ)]


def reach(rng: np.random.Generator, at: np.ndarray, t: np.ndarray, edge_mm: float) -> np.ndarray:
    """Positions (n, 2) on the way from `at`, (2,), to a random place, at the times `t`, (n, 1) in s, of which the last
    is the arrival; with a minimum-jerk profile."""
    u = t * RATE_HZ / len(t)  # 0 to 1
    target = rng.uniform(-edge_mm, edge_mm, 2)
    return at + (target - at) * u**3 * (10 - 15 * u + 6 * u**2)


def scribble(rng: np.random.Generator, t: np.ndarray, edge_mm: float) -> np.ndarray:
    """Positions (n, 2), relative to where it began, at the times `t`, (n, 1) in s: two sines of 0.2 to 2 Hz an axis."""
    hz = np.exp(rng.uniform(np.log(0.2), np.log(2.0), (2, 2)))  # (axis, sine)
    phase = rng.uniform(0, 2 * np.pi, (2, 2))
    size = rng.uniform(0.1, 0.6, (2, 2)) * edge_mm / np.maximum(1, hz)
    waves = size * (np.sin(2 * np.pi * hz * t[..., None] + phase) - np.sin(phase))  # (n, axis, sine)
    return waves.sum(-1)


def arm(pointer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity (T, 2) of a hand that follows the pointer: critically damped, time constant `ARM_S`."""
    decay = np.exp(-1 / (ARM_S * RATE_HZ))
    once = lfilter([1 - decay], [1, -decay], pointer, axis=0)
    position = lfilter([1 - decay], [1, -decay], once, axis=0)
    return position, (once - position) / ARM_S


def simulate(units: UnitTuning, seed: int = 0, seconds: float = SECONDS) -> Recording:
    """A session of the units during a visitor's movements, by the rules of `possm_lite.simulate`.

    Args:
        units: their tuning.
        seed: of movements, drift and spikes.
        seconds: the duration.
    """
    move, drift, fire = (np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(3))
    later = round(RATE_HZ * max(units.lag_s.max(), AHEAD_S[-1])) + 1  # ms that are looked ahead at the end
    position, velocity = arm(visitor(move, seconds + later / RATE_HZ, UNITS.workspace_mm))
    common = draw_common(drift, seconds, UNITS)
    trains = [
        spike_train(units, unit, fire, position, velocity, common, round(seconds * TICKS_PER_SECOND))
        for unit in range(UNITS.n_units)
    ]
    times = np.arange(round(seconds * BEHAVIOR_HZ)) / BEHAVIOR_HZ
    columns = [velocity[np.rint((times + ahead) * RATE_HZ).astype(int)] for ahead in AHEAD_S]
    start = np.arange(0, seconds, TRIAL_S)
    trials = np.stack([start, start + TRIAL_S], 1)
    return Recording.from_trains(trains, times, np.concatenate(columns, 1), behavior_unit="mm/s", trials=trials)


def spike_train(
    units: UnitTuning,
    unit: int,
    rng: np.random.Generator,
    position: np.ndarray,
    velocity: np.ndarray,
    common: np.ndarray,
    n_ticks: int,
) -> np.ndarray:
    """Spike times of one unit in seconds, by thinning, as in `draw_spikes` of `possm_lite.simulate`.

    Args:
        units: the tuning of all.
        unit: which one.
        rng: draws the spikes.
        position: of the hand every ms, (T, 2) in mm.
        velocity: of the hand every ms, (T, 2) in mm/s.
        common: what all units share, (samples, inputs), at `UNITS.common_rate_hz`.
        n_ticks: the duration in ticks of the clock of spikes.
    """
    limit = units.saturation_hz[unit]
    seconds = n_ticks / TICKS_PER_SECOND
    ticks = np.sort(rng.integers(n_ticks, size=rng.poisson(limit * seconds)))
    times = ticks / TICKS_PER_SECOND
    at = ((times + units.lag_s[unit]) * RATE_HZ).astype(int)
    grid = np.arange(len(common)) / UNITS.common_rate_hz
    shared = np.stack([np.interp(times, grid, column) for column in common.T], -1)  # (spikes, inputs)
    rate = firing_rate(units, unit, position[at], velocity[at], shared)
    kept = ticks[rng.random(len(ticks)) * limit < rate]
    refractory = int(np.ceil(UNITS.refractory_s * TICKS_PER_SECOND))
    return block_refractory(kept, refractory) / TICKS_PER_SECOND


def trained() -> tuple[POSSM, WienerFilter, UnitTuning]:
    """Both decoders, POSSM in float64, and the units: from the cache, or trained, which takes half a minute."""
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
    units = draw_units(np.random.Generator(np.random.PCG64(0)), UNITS)
    if not (CACHE.exists() and str(np.load(CACHE)["sources"]) == sources):
        possm, wiener = train(units)
        save_cache(sources, {"possm": possm, "wiener": wiener})
    arrays = np.load(CACHE)
    possm = POSSM(CONFIG).double()
    wiener = WienerFilter(UNITS.n_units, n_slots=len(QUERIES_S), n_outputs=CONFIG.n_outputs)
    for name, model in {"possm": possm, "wiener": wiener}.items():
        model.load_state_dict({key: torch.from_numpy(arrays[f"{name}.{key}"]) for key in model.state_dict()})
    return possm, wiener, units


def save_cache(sources: str, models: dict[str, torch.nn.Module]) -> None:
    """Write the weights of the models, by name, with the hash of the code that they come from."""
    arrays = {"sources": np.array(sources)}
    for name, model in models.items():
        arrays |= {f"{name}.{key}": value.numpy() for key, value in model.state_dict().items()}
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(CACHE) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def train(units: UnitTuning) -> tuple[POSSM, WienerFilter]:
    """POSSM and a Wiener filter of one simulated session; prints their R² on its test part."""
    torch.set_num_threads(1)
    session = prepare(simulate(units))
    torch.manual_seed(0)
    possm = POSSM(CONFIG)
    fit(possm, session, TRAINING, progress=False)
    wiener = fit_wiener(session)
    for model in (possm, wiener):
        r2 = np.reshape(evaluate(model, session).r2_columns, (-1, 2)).mean(1)  # of each time ahead
        print(f"{type(model).__name__}: R² {r2.round(3)}, {1000 * np.array(AHEAD_S)} ms ahead")
    return possm, wiener


def weights(possm: POSSM, wiener: WienerFilter, units: UnitTuning) -> dict:
    """What the page needs, as JSON types: the constants of the two streaming decoders and the tuning of the units."""
    stream = StreamingDecoder(possm, 1, QUERIES_S)
    (cell,) = stream.backbone.cells
    return {
        "aheadS": AHEAD_S,
        "armS": ARM_S,
        "handDelayS": 2 * UNITS.lag_s,
        "workspaceMm": UNITS.workspace_mm,
        "refractoryS": UNITS.refractory_s,
        "commonDecay": float(np.exp(-1 / (UNITS.common_time_s * UNITS.common_rate_hz))),
        "binS": CONFIG.bin_width_s,
        "queriesS": QUERIES_S.tolist(),
        "units": {name: pack(value.astype(np.float64)) for name, value in vars(units).items()},
        "possm": {
            "middleS": CONFIG.bin_width_s / 2,
            "tokens": pack(possm.unit_embedding.weight.detach().numpy()),
            "input": pack_all(stream.input_attention),
            "cell": pack_all(cell),
            "output": pack_all(stream.output_attention),
        },
        "wiener": pack_all(BinnedStream(wiener).readout),
    }


def pack(array: np.ndarray) -> dict:
    """An array as its shape and its values, little-endian, in base64. Long ones become float32, complex ones pairs."""
    if np.iscomplexobj(array):
        array = array.view(float)
    array = array.astype(np.float32 if array.size > LONG else np.float64)
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return {"type": array.dtype.name, "shape": array.shape, "data": base64.b64encode(data).decode()}


def pack_all(part) -> dict:
    """The arrays of a part of a stream, and of the parts in it, by the names of its attributes."""
    packed = {}
    for name, value in vars(part).items():
        if isinstance(value, np.ndarray):
            packed[name] = pack(value)
        elif isinstance(value, (FeedForward, LayerNorm, Linear)):
            packed[name] = pack_all(value)
    return packed


def main(folder: Path) -> None:
    """Write the page, its scripts and `weights.js` into `folder`."""
    (folder / "live").mkdir(parents=True, exist_ok=True)
    (folder / "live" / "weights.js").write_text(f"const WEIGHTS = {json.dumps(weights(*trained()))};\n")
    for path in PAGE.iterdir():
        shutil.copy(path, folder if path.suffix == ".html" else folder / "live")
    page = (PAGE / "live.html").read_text(encoding="utf-8").replace("_static/preview", f"{BASE_URL}_static/preview")
    (folder / "live.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.site.live FOLDER")
    main(Path(sys.argv[1]))
