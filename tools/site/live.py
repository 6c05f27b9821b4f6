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
SECONDS, TRIAL_S = 600, 4.0  # of the session
RATE_HZ, BEHAVIOR_HZ = 1000, 100  # of the hand, and of the velocity that is trained on
QUERIES_S = np.arange(5) / BEHAVIOR_HZ  # in a bin
LONG = 16_000  # numbers: of the matrices, of which float32 is exact enough
CONFIG = POSSMConfig(n_units=UNITS.n_units, hidden=128, n_outputs=2 * len(AHEAD_S))
TRAINING = FitConfig(epochs=20, window_s=1.0, samples=20, lr=3e-3, validations=0)


def visitor(rng: np.random.Generator, seconds: float, edge_mm: float) -> np.ndarray:
    """Where a visitor's pointer is, every ms, (T, 2) in mm from the centre: reaches, scribbles, arrow keys, rests.

    Reaches have a minimum-jerk profile and last 1 s down to 0.02 s, as a tap with a finger; scribbles are sums of two
    sines of 0.2 to 2 Hz an axis; an arrow key moves at 300 mm/s.
    """
    pieces, at, total = [], np.zeros(2), 0
    while total < seconds * RATE_HZ:
        kind = rng.choice(["reach", "scribble", "key", "rest"], p=(0.4, 0.2, 0.1, 0.3))
        shortest, longest = {"reach": (0.02, 1.0), "scribble": (1.0, 5.0), "key": (0.1, 0.6), "rest": (0.1, 1.0)}[kind]
        n = round(RATE_HZ * np.exp(rng.uniform(np.log(shortest), np.log(longest))))
        t = np.arange(1, n + 1)[:, None] / RATE_HZ  # (n, 1)
        if kind == "reach":
            u = t * RATE_HZ / n
            piece = at + (rng.uniform(-edge_mm, edge_mm, 2) - at) * u**3 * (10 - 15 * u + 6 * u**2)
        elif kind == "scribble":
            hz, phase = np.exp(rng.uniform(np.log(0.2), np.log(2.0), (2, 2))), rng.uniform(0, 2 * np.pi, (2, 2))
            size = rng.uniform(0.1, 0.6, (2, 2)) * edge_mm / np.maximum(1, hz)
            waves = size * (np.sin(2 * np.pi * hz * t[..., None] + phase) - np.sin(phase))  # (n, axis, sine)
            piece = at + waves.sum(-1)
        elif kind == "key":
            piece = at + 300.0 * rng.integers(-1, 2, 2) * t
        else:
            piece = np.repeat(at[None], n, 0)
        pieces.append(np.clip(piece, -edge_mm, edge_mm))
        at, total = pieces[-1][-1], total + n
    return np.concatenate(pieces)[: round(seconds * RATE_HZ)]


def arm(pointer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity (T, 2) of a hand that follows the pointer: critically damped, time constant `ARM_S`."""
    decay = np.exp(-1 / (ARM_S * RATE_HZ))
    once = lfilter([1 - decay], [1, -decay], pointer, axis=0)
    position = lfilter([1 - decay], [1, -decay], once, axis=0)
    return position, (once - position) / ARM_S


def simulate(units: UnitTuning, seed: int = 0, seconds: float = SECONDS) -> Recording:
    """A session of the units during a visitor's movements, by the rules of `possm_lite.simulate`."""
    move, drift, fire = (np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(3))
    later = round(RATE_HZ * max(units.lag_s.max(), AHEAD_S[-1])) + 1
    position, velocity = arm(visitor(move, seconds + later / RATE_HZ, UNITS.workspace_mm))
    common = draw_common(drift, seconds, UNITS)
    grid, n_ticks = np.arange(len(common)) / UNITS.common_rate_hz, round(seconds * TICKS_PER_SECOND)
    trains = []
    for unit in range(UNITS.n_units):  # thinning, as in `draw_spikes`
        limit = units.saturation_hz[unit]
        ticks = np.sort(fire.integers(n_ticks, size=fire.poisson(limit * seconds)))
        times = ticks / TICKS_PER_SECOND
        at = ((times + units.lag_s[unit]) * RATE_HZ).astype(int)
        z = np.stack([np.interp(times, grid, column) for column in common.T], -1)
        rate = firing_rate(units, unit, position[at], velocity[at], z)
        kept = ticks[fire.random(len(ticks)) * limit < rate]
        trains.append(block_refractory(kept, int(np.ceil(UNITS.refractory_s * TICKS_PER_SECOND))) / TICKS_PER_SECOND)
    times = np.arange(round(seconds * BEHAVIOR_HZ)) / BEHAVIOR_HZ
    columns = [velocity[np.rint((times + ahead) * RATE_HZ).astype(int)] for ahead in AHEAD_S]
    start = np.arange(0, seconds, TRIAL_S)
    return Recording.from_trains(
        trains, times, np.concatenate(columns, 1), behavior_unit="mm/s", trials=np.stack([start, start + TRIAL_S], 1)
    )


def trained() -> tuple[POSSM, WienerFilter, UnitTuning]:
    """Both decoders, POSSM in float64, and the units: from the cache, or trained, which takes half a minute."""
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
    units = draw_units(np.random.Generator(np.random.PCG64(0)), UNITS)
    models = POSSM(CONFIG).double(), WienerFilter(UNITS.n_units, n_slots=len(QUERIES_S), n_outputs=CONFIG.n_outputs)
    if not (CACHE.exists() and str(np.load(CACHE)["sources"]) == sources):
        arrays = {"sources": np.array(sources)}
        for name, model in zip(("possm", "wiener"), train(units), strict=True):
            arrays |= {f"{name}.{key}": value.numpy() for key, value in model.state_dict().items()}
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(CACHE) as partial, open(partial, "wb") as file:
            np.savez(file, **arrays)
    arrays = np.load(CACHE)
    for name, model in zip(("possm", "wiener"), models, strict=True):
        model.load_state_dict({key: torch.from_numpy(arrays[f"{name}.{key}"]) for key in model.state_dict()})
    return *models, units


def train(units: UnitTuning) -> tuple[POSSM, WienerFilter]:
    """POSSM and a Wiener filter of one simulated session; prints their R² on its test part."""
    torch.set_num_threads(1)
    session = prepare(simulate(units))
    torch.manual_seed(0)
    possm = POSSM(CONFIG)
    fit(possm, session, TRAINING, progress=False)
    wiener = fit_wiener(session)
    for model in (possm, wiener):
        r2 = np.reshape(evaluate(model, session).r2_columns, (-1, 2)).mean(1)
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
    array = array.view(float) if np.iscomplexobj(array) else array
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
