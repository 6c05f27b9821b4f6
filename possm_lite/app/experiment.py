"""The command `decode` and its steps: read, prepare, train, test, save, print."""

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from .. import __version__
from ..decoder.baselines import BinnedGRU, BinnedStream
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import CheckpointError, PossmError, RecordingError, prefix_errors
from ..recordings.arrays import write_arrays
from ..recordings.data_report import data_report
from ..recordings.formats import load_recording
from ..recordings.formats.assemble import Selection
from ..recordings.recording import Recording
from ..recordings.split import SplitConfig
from ..training.checkpoint import History, TrainedOn, TrainingCheckpoint, save_checkpoint
from ..training.distributed import ProcessGroup, process_group
from ..training.evaluate import evaluate, replay, slot_offsets
from ..training.fit import FitConfig, check_ranges, fit
from ..training.linear import fit_wiener, search_lag
from ..training.session import Session, prepare
from ..training.transfer import ADAPTATION, adapt, combine_sessions, extract_session
from ..training.windows import sessions_of_rank
from . import run_dir
from .report import plot, table
from .run_dir import safe_name, write_json

_DATA = (
    Path(__file__).resolve().parents[1] / "data"
)  # of an installed package; in the repository it is one folder up
EMBEDDED = (_DATA if _DATA.is_dir() else _DATA.parents[1] / "data") / "simulated_session.npz"


@dataclass(frozen=True)
class Settings:
    """What is decoded, by which model, and how it is trained."""

    sources: Sequence[Path]  # the recordings
    model: (
        POSSMConfig  # sizes of POSSM; n_units, n_sessions and n_outputs follow from the recordings
    )
    training: FitConfig  # of POSSM
    baselines: FitConfig  # of the GRU on binned counts
    selection: Selection = Selection()  # what of a file is read
    split: str = "chronological"  # of each recording, as for `prepare`; the seed of a random one is that of training
    lag_s: float | str = 0.0  # behaviour minus spikes; "auto": the best of a search
    device: str = "cpu"  # of all training; decoders are tested on the CPU
    start: POSSM | None = (
        None  # a decoder that is adapted to the only session, instead of training a new one
    )
    adapted_from: str = ""  # the folder of its run


def decode(options: Namespace) -> int:
    """Read, prepare, train, test, save, print; with `--resume` training goes on from the state in the run's folder."""
    with run_dir.resumable(options), process_group() as group:
        settings = _settings(options, group)
        run_dir.check_new(options.json, None if options.resume else options.out)
        recordings = read(settings, group)
        sessions = prepare_sessions(recordings, settings, group)
        if group.is_main and not options.resume:
            name = "joint" if len(settings.sources) > 1 else sessions[0].recording.session_id
            lag = (
                f"--lag={sessions[0].timeline.lag_s}"  # the one that was found: the last one counts
            )
            options.resume = run_dir.create_run(options.out, name, [*options.arguments, lag])
        folder = options.resume = group.broadcast(options.resume)
        possm, history = train(sessions, settings, folder, group)
        # a session may be in several processes: the last one tests it
        rank = group.all_gather({s.index: group.rank for s in sessions})
        own = [s for s in sessions if rank[s.index] == group.rank]
        metrics = group.all_gather(
            {s.index: test(possm, history, s, settings, folder, group) for s in own}
        )
        if group.is_main:
            run_dir.mark_finished(folder)
            _print_metrics(list(metrics.values()), folder, options.json)
    return 0


def _settings(options: Namespace, group: ProcessGroup) -> Settings:
    """What the options ask for; what they leave open is with `--from` that of its run. Raises PossmError."""
    sizes = given(POSSMConfig, options)
    training = given(FitConfig, options)
    selection = given(Selection, options)
    others = given(Settings, options) | {"device": _device(options.device, group)}
    sources = options.recording or [EMBEDDED]
    run = options.from_run
    try:
        check_ranges(vars(options))
        model = POSSMConfig(1, **sizes)
        SplitConfig.parse(options.split or Settings.split)
    except ValueError as exc:
        raise PossmError(str(exc)) from exc
    baselines = FitConfig(**training)
    if run is None:
        return Settings(sources, model, baselines, baselines, Selection(**selection), **others)
    if len(sources) > 1 or sizes:
        surplus = ", ".join(sizes) or "the others"
        raise PossmError(
            f"--from adapts {run}, sizes as they are, to one recording: leave out {surplus}."
        )
    start, trained_on = run_dir.load_run(run)
    selection = replace(trained_on.selection, **selection)
    stored = {
        "split": trained_on.split,
        "lag_s": trained_on.lag_s,
        "start": start,
        "adapted_from": str(run.resolve()),
    }
    return Settings(
        sources,
        start.config,
        replace(ADAPTATION, **training),
        baselines,
        selection,
        **stored | others,
    )


def given(kind: type, options: Namespace) -> dict:
    """The fields of a dataclass that are options and have a value."""
    values = {field.name: getattr(options, field.name, None) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _device(name: str, group: ProcessGroup) -> str:
    """Device to train on. PossmError if there is none as asked for."""
    usable = torch.cuda.is_available() and group.size == 1
    if name == "cuda" and not usable:
        raise PossmError(
            "--device cuda: torch finds no GPU here, or is run by torchrun, which trains on the CPU."
        )
    return "cuda" if usable and name != "cpu" else "cpu"


def read(settings: Settings, group: ProcessGroup) -> dict[int, Recording]:
    """The recordings that this process trains on, by the index of their session, from 1."""
    indices = sessions_of_rank(group, len(settings.sources), settings.training.batch)
    return {i: load_recording(settings.sources[i - 1], **vars(settings.selection)) for i in indices}


def prepare_sessions(
    recordings: Mapping[int, Recording], settings: Settings, group: ProcessGroup
) -> list[Session]:
    """The recordings of this process as sessions of one model; the main process prints what all of them hold."""
    width = settings.model.bin_width_s
    lag_s = _best_lag(recordings, settings, group) if settings.lag_s == "auto" else settings.lag_s
    sessions, about = {}, {}
    for i, recording in recordings.items():
        with prefix_errors(settings.sources[i - 1]):
            sessions[i] = prepare(recording, settings.split, lag_s, width, settings.training.seed)
            if settings.start and recording.n_columns != (n := settings.start.config.n_outputs):
                names = recording.behavior_columns.tolist()
                raise RecordingError(f"decoded are {names}, but {n} columns in the run of --from.")
            about[i] = safe_name(recording.session_id), describe(sessions[i])
    names, descriptions = zip(*group.all_gather(about).values(), strict=True)
    if len(set(names)) < len(names):
        raise RecordingError(
            f"session_id must differ, as results are in folders of these names: {', '.join(names)}"
        )
    combined = combine_sessions(list(sessions.values()), list(sessions), group)
    if group.is_main:
        print(*descriptions, f"lag {lag_s:g} s, bins of {width:g} s", sep="\n", flush=True)
    return combined


def describe(session: Session) -> str:
    """What is decoded, in some lines. Raises RecordingError if it cannot be decoded meaningfully."""
    recording = session.recording
    parts = vars(session.split)
    report = data_report(recording, session.timeline.bin_width_s, parts)
    what = "trials" if len(recording.trials) >= len(parts) else "recorded time"
    sizes = [
        f"{len(p)}" if what == "trials" else f"{np.diff(p).sum():.1f} s" for p in parts.values()
    ]
    line = f"{recording.session_id}: {session.split_config} of {what}: {', '.join(sizes)}"
    return "\n  ".join([line, *report, *(f"note: {note}" for note in recording.notes)])


def _best_lag(
    recordings: Mapping[int, Recording], settings: Settings, group: ProcessGroup
) -> float:
    """The largest lag whose validation R² of a Wiener filter is within 0.01 of the best: it decodes earliest."""
    width = settings.model.bin_width_s
    step = max(width / 2, 0.01)
    lags = np.round(step * np.arange(round(-0.2 / step), round(0.3 / step) + 1), 6)
    scores = {}
    for i, recording in recordings.items():
        bar = tqdm(lags, desc="lag", leave=False, disable=not group.is_main)
        with prefix_errors(settings.sources[i - 1]):
            scores[i] = search_lag(recording, bar, settings.split, width, settings.training.seed)
    mean = np.mean(list(group.all_gather(scores).values()), axis=0)
    if np.isnan(mean).any():
        raise RecordingError(
            "--lag auto: behaviour does not change in the validation part; give a number."
        )
    return float(lags[mean >= mean.max() - 0.01][-1])


def train(
    sessions: Sequence[Session], settings: Settings, folder: Path, group: ProcessGroup
) -> tuple[POSSM, History]:
    """One POSSM of all sessions; training goes on from the state in the folder of the run, if there is one."""
    checkpoints = [TrainingCheckpoint(folder / name) for name in run_dir.TRAINING_FILES]
    if settings.start:
        return adapt(
            settings.start.to(settings.device),
            sessions[0],
            settings.training,
            checkpoints=checkpoints,
        )
    n_units = group.all_gather({s.index: s.recording.n_units for s in sessions})
    n_outputs = sessions[0].recording.n_columns
    config = replace(
        settings.model, n_units=sum(n_units.values()), n_sessions=len(n_units), n_outputs=n_outputs
    )
    torch.manual_seed(settings.training.seed)
    possm = POSSM(config).to(settings.device)
    return possm, fit(possm, sessions, settings.training, group=group, checkpoint=checkpoints[-1])


def test(
    possm: POSSM,
    history: History,
    session: Session,
    settings: Settings,
    folder: Path,
    group: ProcessGroup,
) -> dict:
    """Test the decoder of a session beside a Wiener filter and a GRU on binned counts; returns metrics."""
    possm = extract_session(possm, session).cpu()
    source = settings.sources[session.index - 1]
    session = replace(session, index=1, first_unit=1)  # of a model of its own
    slots = slot_offsets(session)
    recording = session.recording
    torch.manual_seed(settings.baselines.seed)
    gru = BinnedGRU(
        recording.n_units, session.timeline.bin_width_s, len(slots), recording.n_columns
    )
    gru_s = fit(gru.to(settings.device), session, settings.baselines, group.is_main).seconds
    start = time.perf_counter()
    wiener = fit_wiener(session)
    wiener_s = time.perf_counter() - start
    models, decoded = {}, {}
    for name, model, stream, seconds in (
        ("possm", possm, StreamingDecoder(possm, 1, slots), history.seconds),
        ("wiener", wiener, BinnedStream(wiener), wiener_s),
        ("gru", gru.cpu(), BinnedStream(gru), gru_s),
    ):
        decoded[name] = evaluate(model, session)
        step_us_p50, step_us_p99 = np.percentile(replay(stream, session).step_us, (50, 99)).tolist()
        models[name] = {
            "r2": decoded[name].r2,
            "r2_displayed": decoded[name].r2_displayed,
            "r2_columns": decoded[name].r2_columns,
            "params": sum(p.numel() for p in model.parameters()),
            "train_s": seconds,
            "step_us_p50": step_us_p50,
            "step_us_p99": step_us_p99,
        }
    path = "" if source == EMBEDDED else str(source.resolve())
    trained_on = TrainedOn.from_session(session, path, settings.selection)
    about = asdict(trained_on)
    metrics = {
        "session": about.pop("session_id"),
        **about,
        "notes": list(recording.notes),
        "bin_width_s": session.timeline.bin_width_s,
        "model": asdict(possm.config),
        "training": asdict(settings.training),
        "epochs": len(
            history.loss
        ),  # of all stages, also where `adapt` took more than the settings say
        "adapted_from": settings.adapted_from,
        "device": settings.device,
        "versions": {"possm_lite": __version__, "torch": torch.__version__},
        "valid_r2": history.valid_r2,
        "models": models,
    }
    if len(settings.sources) > 1:
        folder /= safe_name(recording.session_id)
    folder.mkdir(exist_ok=True)
    save_checkpoint(folder / "checkpoint.npz", possm, trained_on)
    write_json(folder / "metrics.json", metrics)
    output = decoded["possm"]
    save_decoded(
        folder / "decoded.npz", trained_on, output.times_s, output.decoded, recorded=output.true
    )
    longest = max(session.segments("test"), key=np.ptp)
    plot(recording, longest, output).savefig(folder / "decoded.png", dpi=120)
    return metrics


def save_decoded(
    path: Path, trained_on: TrainedOn, times: np.ndarray, decoded: np.ndarray, **others: np.ndarray
):
    """Write times (T,), decoded behaviour (T, C), other arrays, names of the columns (C,) and their unit."""
    names = {"columns": trained_on.behavior_columns, "unit": trained_on.behavior_unit}
    write_arrays(
        path, {"times": times, "decoded": decoded, **others, **names}, error=CheckpointError
    )


def _print_metrics(metrics: list[dict], folder: Path, json: Path | None):
    """Print the tables of a run and where its results are; write the metrics to `json` too, if given."""
    if json:
        json.parent.mkdir(parents=True, exist_ok=True)
        write_json(json, metrics[0] if len(metrics) == 1 else {"sessions": metrics})
    for m in metrics:
        print(f"\n{m['session']}", table(m["models"], m["behavior_columns"]), sep="\n")
    print(
        "R² displayed: of what a screen shows at each moment. µs/bin: streaming, median and 99th percentile."
    )
    where = " for each session" if len(metrics) > 1 else ""
    print(f"\n{folder}: checkpoint.npz, metrics.json, decoded.npz, decoded.png{where}")
