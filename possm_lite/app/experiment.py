"""The command `decode` and its steps: read, prepare, train, test, save, print."""

import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from .. import __version__
from ..decoder.baselines import BinnedGRU, BinnedStream
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import CheckpointError, PossmError, RecordingError, prefix_errors
from ..recordings.arrays import atomic_write, write_arrays
from ..recordings.data_report import data_report, note_lines
from ..recordings.formats import load_recording
from ..recordings.formats.assemble import Selection
from ..recordings.labels import with_classes
from ..recordings.recording import Recording
from ..recordings.split import SplitConfig
from ..training.checkpoint import History, TrainedOn, TrainingCheckpoint, save_checkpoint
from ..training.classes import CLASS_SETTINGS, class_counts, class_weights, decode_classes
from ..training.distributed import ProcessGroup, process_group
from ..training.evaluate import Decoded, evaluate, replay, slot_offsets
from ..training.fit import FitConfig, check_ranges, fit
from ..training.linear import fit_logistic, fit_wiener, search_lag
from ..training.offset import search_offset
from ..training.session import Session, prepare
from ..training.transfer import ADAPTATION, adapt, combine_sessions, extract_session
from ..training.windows import sessions_of_rank
from . import run_dir
from .classes import class_lines, class_table, plot_classes, scores
from .report import plot, table
from .run_dir import safe_name, write_json

# of an installed package; in the repository it is one folder up
_DATA = Path(__file__).resolve().parents[1] / "data"
EMBEDDED = (_DATA if _DATA.is_dir() else _DATA.parents[1] / "data") / "simulated_session.npz"


NO_RELATION = 0.02  # R² of all decoders below it is none


@dataclass(frozen=True)
class Settings:
    """What is decoded, by which model, and how it is trained.

    Attributes:
        sources: the recordings.
        model: sizes of POSSM; n_units, n_sessions and n_outputs follow from the recordings.
        training: settings of the training of POSSM.
        baselines: settings of the training of the GRU on binned counts.
        selection: what of a file is read.
        split: how each recording is divided, as for `prepare`; the seed of a random split is that
            of training.
        lag_s: behaviour minus spikes, seconds; "auto": the best of a search.
        device: device of all training; decoders are tested on the CPU.
        start: a decoder that is adapted to the only session; None: a new one is trained.
        adapted_from: the folder of its run; empty without one.
        outputs: names of its columns or classes.
    """

    sources: Sequence[Path]
    model: POSSMConfig
    training: FitConfig
    baselines: FitConfig
    selection: Selection = Selection()
    split: str = "chronological"
    lag_s: float | str = 0.0
    device: str = "cpu"
    start: POSSM | None = None
    adapted_from: str = ""
    outputs: tuple[str, ...] = ()


def decode(options: Namespace) -> int:
    """Read, prepare, train, test, save, print.

    With `--resume`, training goes on from the state in the folder of the run.

    Args:
        options: those of `decode`.

    Returns:
        The exit status, 0.
    """
    with run_dir.resumable(options), process_group() as group:
        settings = _settings(options, group)
        run_dir.check_new(options.json, None if options.resume else options.out)
        recordings = read(settings, group)
        settings = _for_classes(settings, recordings, options)
        sessions = prepare_sessions(recordings, settings, group)
        if group.is_main and not options.resume:
            options.resume = _create_run(options, settings, sessions[0])
        folder = options.resume = group.broadcast(options.resume)
        possm, history = train(sessions, settings, folder, group)
        # a session may be in several processes: the last one tests it
        rank = group.all_gather({s.index: group.rank for s in sessions})
        own = [s for s in sessions if rank[s.index] == group.rank]
        of_kind = test_classes if len(own and own[0].recording.classes) else test
        tested = {s.index: of_kind(possm, history, s, settings, folder, group) for s in own}
        metrics = group.all_gather(tested)
        if group.is_main:
            run_dir.mark_finished(folder)
            _print_metrics(list(metrics.values()), folder, options.json)
    return 0


def _create_run(options: Namespace, settings: Settings, first: Session) -> Path:
    """The folder of a new run, named after its first session if that is the only one."""
    name = "joint" if len(settings.sources) > 1 else first.recording.session_id
    lag = f"--lag={first.timeline.lag_s}"  # the one that was found: the last one counts
    return run_dir.create_run(options.out, name, [*options.arguments, lag])


def _settings(options: Namespace, group: ProcessGroup) -> Settings:
    """What the options ask for; what they leave open is with `--from` that of its run.

    Raises:
        PossmError: options that are out of their range, or do not go together.
    """
    others = given(Settings, options) | {"device": _device(options.device, group)}
    try:
        check_ranges(vars(options))
        model = POSSMConfig(1, **given(POSSMConfig, options))
        SplitConfig.parse(options.split or Settings.split)
    except ValueError as exc:
        raise PossmError(str(exc)) from exc
    training = FitConfig(**given(FitConfig, options))
    settings = Settings(
        sources=options.recording or [EMBEDDED],
        model=model,
        training=training,
        baselines=training,
        selection=Selection(**given(Selection, options)),
    )
    if options.from_run is not None:
        settings = _adapting(settings, options)
    return replace(settings, **others)


def _for_classes(
    settings: Settings, recordings: Mapping[int, Recording], options: Namespace
) -> Settings:
    """The settings with those that are usual for classes, if they are decoded.

    Options come before them; a decoder that is adapted keeps the learning rates of adapting.
    """
    if not any(len(recording.classes) for recording in recordings.values()):
        return settings
    usual = {name: x for name, x in CLASS_SETTINGS.items() if getattr(options, name) is None}
    baselines = replace(settings.baselines, **usual)
    if settings.start:
        usual.pop("lr", None)
    return replace(settings, training=replace(settings.training, **usual), baselines=baselines)


def _adapting(settings: Settings, options: Namespace) -> Settings:
    """The settings of adapting the decoder of `options.from_run`; options come before its own."""
    run = options.from_run
    sizes = given(POSSMConfig, options)
    if len(settings.sources) > 1 or sizes:
        surplus = ", ".join(sizes) or "the others"
        raise PossmError(
            f"--from adapts {run}, sizes as they are, to one recording: leave out {surplus}."
        )
    start, trained_on = run_dir.load_run(run)
    return replace(
        settings,
        model=start.config,
        training=replace(ADAPTATION, **given(FitConfig, options)),
        selection=replace(trained_on.selection, **given(Selection, options)),
        split=trained_on.split,
        lag_s=trained_on.lag_s,
        start=start,
        adapted_from=str(run.resolve()),
        outputs=trained_on.behavior_columns,
    )


def given(kind: type, options: Namespace) -> dict:
    """The fields of a dataclass, `kind`, that are among `options` and have a value there."""
    values = {field.name: getattr(options, field.name, None) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _device(name: str, group: ProcessGroup) -> str:
    """Device to train on. PossmError if there is none as asked for."""
    usable = torch.cuda.is_available() and group.size == 1
    if name == "cuda" and not usable:
        raise PossmError(
            "--device cuda: torch finds no GPU here, or is run by torchrun, "
            "which trains on the CPU."
        )
    return "cuda" if usable and name != "cpu" else "cpu"


def read(settings: Settings, group: ProcessGroup) -> dict[int, Recording]:
    """The recordings that this process trains on.

    Args:
        settings: whose `sources` and `selection` are read.
        group: the processes of the training.

    Returns:
        Recordings by the index of their session, from 1.

    Raises:
        RecordingError: a recording cannot be used.
        DistributedError: more processes than windows in a step.
    """
    indices = sessions_of_rank(group, len(settings.sources), settings.training.batch)
    return {i: load_recording(settings.sources[i - 1], **vars(settings.selection)) for i in indices}


def prepare_sessions(
    recordings: Mapping[int, Recording], settings: Settings, group: ProcessGroup
) -> list[Session]:
    """The recordings of this process as sessions of one model.

    The main process prints what all of them hold.

    Args:
        recordings: recordings by the index of their session, from `read`.
        settings: how they are prepared.
        group: the processes of the training.

    Returns:
        The sessions of this process, numbered for the model.

    Raises:
        RecordingError: a recording cannot be decoded, or not together with the others.
    """
    width = settings.model.bin_width_s
    lag_s = _best_lag(recordings, settings, group) if settings.lag_s == "auto" else settings.lag_s
    sessions = {}
    about = {}
    for i, recording in recordings.items():
        with prefix_errors(settings.sources[i - 1]):
            if settings.start:
                recording = _check_columns(recording, settings.start.config, settings.outputs)
            sessions[i] = prepare(recording, settings.split, lag_s, width, settings.training.seed)
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


def _check_columns(recording: Recording, config: POSSMConfig, names: Sequence[str]) -> Recording:
    """The recording with what a decoder to adapt gives, by `names` if these are of classes.

    RecordingError if it has other columns, or other classes.
    """
    if config.decodes == "classes":
        return with_classes(recording, names)
    if len(recording.outputs) != config.n_outputs or len(recording.classes):
        outputs = recording.outputs.tolist()
        raise RecordingError(
            f"decoded are {outputs}, but {config.n_outputs} columns in the run of --from."
        )
    return recording


def describe(session: Session) -> str:
    """What is decoded, in some lines.

    Args:
        session: a session of `prepare`.

    Returns:
        Lines of text: split, report of the data, notes.

    Raises:
        RecordingError: the session cannot be decoded meaningfully.
    """
    recording = session.recording
    parts = vars(session.split)
    report = data_report(recording, session.timeline.bin_width_s, parts)
    if len(recording.trials) >= len(parts):
        what = "trials"
        sizes = [f"{len(part)}" for part in parts.values()]
    else:
        what = "recorded time"
        sizes = [f"{np.diff(part).sum():.1f} s" for part in parts.values()]
    line = f"{recording.session_id}: {session.split_config} of {what}: {', '.join(sizes)}"
    return "\n  ".join([line, *report, *note_lines(recording)])


def _best_lag(
    recordings: Mapping[int, Recording], settings: Settings, group: ProcessGroup
) -> float:
    """The largest lag whose validation R² of a Wiener filter is within 0.01 of the best.

    The largest decodes earliest.
    """
    width = settings.model.bin_width_s
    step = max(width / 2, 0.01)
    multiples = np.arange(round(-0.2 / step), round(0.3 / step) + 1)
    lags = np.round(step * multiples, 6)  # s
    scores = {}
    for i, recording in recordings.items():
        bar = tqdm(lags, desc="lag", leave=False, disable=not _shows_bars(group))
        with prefix_errors(settings.sources[i - 1]):
            scores[i] = search_lag(recording, bar, settings.split, width, settings.training.seed)
    mean = np.mean(list(group.all_gather(scores).values()), axis=0)
    if np.isnan(mean).any():
        raise RecordingError(
            "--lag auto: behaviour does not change in the validation part; give a number."
        )
    is_good = mean >= mean.max() - 0.01
    return float(lags[is_good][-1])


def train(
    sessions: Sequence[Session], settings: Settings, folder: Path, group: ProcessGroup
) -> tuple[POSSM, History]:
    """One POSSM of all sessions, new or adapted.

    Args:
        sessions: those of this process, from `prepare_sessions`.
        settings: sizes of the model, and how it is trained.
        folder: of the run; training goes on from the state in it, if there is one.
        group: the processes of the training.

    Returns:
        The decoder, and the course of its training.
    """
    checkpoints = [TrainingCheckpoint(folder / name) for name in run_dir.TRAINING_FILES]
    if settings.start:
        return adapt(
            settings.start.to(settings.device),
            sessions[0],
            settings.training,
            progress=_shows_bars(group),
            checkpoints=checkpoints,
        )
    n_units = group.all_gather({s.index: s.recording.n_units for s in sessions})
    recording = sessions[0].recording
    config = replace(
        settings.model,
        n_units=sum(n_units.values()),
        n_sessions=len(n_units),
        n_outputs=len(recording.outputs),
        decodes="classes" if len(recording.classes) else "continuous",
    )
    torch.manual_seed(settings.training.seed)
    possm = POSSM(config).to(settings.device)
    history = fit(
        possm,
        sessions,
        settings.training,
        progress=_shows_bars(group),
        group=group,
        checkpoint=checkpoints[-1],
    )
    return possm, history


def _shows_bars(group: ProcessGroup) -> bool:
    """Whether bars of progress are shown: in a terminal alone.

    tqdm #1342: a log gets each state of a bar, as a line that is written over itself.
    """
    return group.is_main and sys.stderr.isatty()


def test(
    possm: POSSM,
    history: History,
    session: Session,
    settings: Settings,
    folder: Path,
    group: ProcessGroup,
) -> dict:
    """Test the decoder of a session beside a Wiener filter and a GRU on binned counts.

    Results are written to the folder of the run.

    Args:
        possm: the decoder of all sessions.
        history: the course of its training.
        session: one of its sessions.
        settings: how all was trained.
        folder: of the run; of several sessions, each has a folder in it.
        group: the processes of the training.

    Returns:
        The metrics, as in metrics.json.
    """
    possm = extract_session(possm, session).cpu()
    source = settings.sources[session.index - 1]
    session = replace(session, index=1, first_unit=1)  # of a model of its own
    slots = slot_offsets(session)
    gru, gru_s = _train_gru(session, len(slots), settings, group)
    start = time.perf_counter()
    wiener = fit_wiener(session)
    wiener_s = time.perf_counter() - start
    decoded = {}
    models = {}
    for name, model, stream, seconds in (
        ("possm", possm, StreamingDecoder(possm, 1, slots), history.seconds),
        ("wiener", wiener, BinnedStream(wiener), wiener_s),
        ("gru", gru, BinnedStream(gru), gru_s),
    ):
        decoded[name] = evaluate(model, session)
        models[name] = _results(model, decoded[name], replay(stream, session).step_us, seconds)
    trained_on = _trained_on(session, source, settings)
    metrics = _metrics(trained_on, session, possm, history, settings) | {"models": models}
    if max(model["r2"] for model in models.values()) < NO_RELATION:
        metrics["no_relation"] = no_relation(session)
    folder = _session_folder(folder, session, settings)
    save_checkpoint(folder / "checkpoint.npz", possm, trained_on)
    write_json(folder / "metrics.json", metrics)
    output = decoded["possm"]
    save_decoded(
        folder / "decoded.npz", trained_on, output.times_s, output.decoded, recorded=output.true
    )
    longest = max(session.segments("test"), key=np.ptp)
    _save_picture(plot(session.recording, longest, output), folder / "decoded.png")
    return metrics


def test_classes(
    possm: POSSM,
    history: History,
    session: Session,
    settings: Settings,
    folder: Path,
    group: ProcessGroup,
) -> dict:
    """Test a decoder of classes beside logistic regression and a GRU on binned counts.

    Results are written to the folder of the run.

    Args:
        possm: the decoder of all sessions.
        history: the course of its training.
        session: one of its sessions.
        settings: how all was trained.
        folder: of the run; of several sessions, each has a folder in it.
        group: the processes of the training.

    Returns:
        The metrics, as in metrics.json.
    """
    possm = extract_session(possm, session).cpu()
    source = settings.sources[session.index - 1]
    session = replace(session, index=1, first_unit=1)  # of a model of its own
    gru, gru_s = _train_gru(session, 1, settings, group)
    start = time.perf_counter()
    logistic = fit_logistic(session)
    logistic_s = time.perf_counter() - start
    decoded = {}
    models = {}
    for name, model, stream, seconds in (
        ("possm", possm, StreamingDecoder(possm, 1, slot_offsets(session)), history.seconds),
        ("logistic", logistic, BinnedStream(logistic), logistic_s),
        ("gru", gru, BinnedStream(gru), gru_s),
    ):
        decoded[name] = decode_classes(model, session)
        costs = _costs(model, replay(stream, session).step_us, seconds)
        models[name] = scores(decoded[name], session.timeline.bin_width_s) | costs
    counts = class_counts(session)
    trained_on = _trained_on(session, source, settings)
    metrics = _metrics(trained_on, session, possm, history, settings) | {
        "class_weights": class_weights(counts).tolist(),
        "models": models,
    }
    metrics["valid_balanced_accuracy"] = metrics.pop("valid_r2")
    folder = _session_folder(folder, session, settings)
    save_checkpoint(folder / "checkpoint.npz", possm, trained_on)
    write_json(folder / "metrics.json", metrics)
    arrays = {
        "times": decoded["possm"].times_s,
        "true": decoded["possm"].true,
        "classes": session.recording.classes,
        **{f"probabilities_{name}": output.probabilities for name, output in decoded.items()},
    }
    write_arrays(folder / "predictions.npz", arrays, error=CheckpointError)
    title = f"{trained_on.session_id}: {trained_on.behavior_name}, held-out, balanced accuracy "
    title += f"{models['possm']['balanced_accuracy']:.3f}"
    figure = plot_classes(decoded["possm"], models["possm"]["by_time"], title)
    _save_picture(figure, folder / "classes.png")
    return metrics


def _trained_on(session: Session, source: Path, settings: Settings) -> TrainedOn:
    """What the decoder of a session was trained on; the embedded session has no path."""
    path = "" if source == EMBEDDED else str(source.resolve())
    return TrainedOn.from_session(session, path, settings.selection)


def _session_folder(folder: Path, session: Session, settings: Settings) -> Path:
    """The folder of the results of a session, which is there afterwards."""
    if len(settings.sources) > 1:
        folder /= safe_name(session.recording.session_id)
    folder.mkdir(exist_ok=True)
    return folder


def _save_picture(figure: Figure, picture: Path):
    """Write a figure. CheckpointError if that is not possible."""
    with prefix_errors(picture, CheckpointError), atomic_write(picture) as partial:
        figure.savefig(partial, dpi=120, format="png")


def _train_gru(
    session: Session, n_slots: int, settings: Settings, group: ProcessGroup
) -> tuple[BinnedGRU, float]:
    """The GRU on binned counts, on the CPU, and how many seconds its training took."""
    recording = session.recording
    torch.manual_seed(settings.baselines.seed)
    gru = BinnedGRU(
        recording.n_units,
        session.timeline.bin_width_s,
        n_slots,
        len(recording.outputs),
        decodes="classes" if len(recording.classes) else "continuous",
    )
    history = fit(gru.to(settings.device), session, settings.baselines, progress=_shows_bars(group))
    return gru.cpu(), history.seconds


def _results(model: torch.nn.Module, output: Decoded, step_us: np.ndarray, seconds: float) -> dict:
    """What metrics.json has of one model."""
    return {
        "r2": output.r2,
        "r2_displayed": output.r2_displayed,
        "r2_columns": output.r2_columns,
        **_costs(model, step_us, seconds),
    }


def _costs(model: torch.nn.Module, step_us: np.ndarray, seconds: float) -> dict:
    """What metrics.json has of the size and the times of one model."""
    step_us_p50, step_us_p99 = np.percentile(step_us, (50, 99)).tolist()
    return {
        "params": sum(p.numel() for p in model.parameters()),
        "train_s": seconds,
        "step_us_p50": step_us_p50,
        "step_us_p99": step_us_p99,
    }


def _metrics(
    trained_on: TrainedOn, session: Session, possm: POSSM, history: History, settings: Settings
) -> dict:
    """What metrics.json has besides the results of the models."""
    about = asdict(trained_on)
    return {
        "session": about.pop("session_id"),
        **about,
        "notes": list(session.recording.notes),
        "bin_width_s": session.timeline.bin_width_s,
        "model": asdict(possm.config),
        "training": asdict(settings.training),
        # of all stages, also where `adapt` took more than the settings say
        "epochs": len(history.loss),
        "adapted_from": settings.adapted_from,
        "device": settings.device,
        "versions": {"possm_lite": __version__, "torch": torch.__version__},
        "loss": history.loss,
        "valid_r2": history.valid_r2,
    }


def no_relation(session: Session) -> str:
    """What it usually means that no decoder finds a relation, and the lag that a search finds.

    From reports: clocks of spikes and behaviour differ by 20 s (KiloSort #77, SpikeInterface #604).

    Args:
        session: a session whose behaviour no decoder predicts.

    Returns:
        One line.
    """
    finding = f"no decoder finds a relation of behaviour to the spikes (all R² below {NO_RELATION})"
    lag_s = search_offset(session.recording)
    set_s = session.timeline.lag_s
    if lag_s is None:
        return (
            f"{finding}, and a search from -60 to 60 s finds no lag that is better. Usually the "
            "behaviour jumps or rests, the spikes are of another time, or the clock drifts: look "
            "at the warnings above and at decoded.png. Else these units may not encode it."
        )
    if abs(lag_s - set_s) <= 0.5:
        return (
            f"{finding}, though a search from -60 to 60 s finds that they are related, at a lag of "
            f"{lag_s:g} s: look at the warnings above, and train longer, or on more trials."
        )
    later = "later" if lag_s > 0 else "earlier"
    change = "subtract" if lag_s > 0 else "add"
    seconds = f"{abs(lag_s):g} s"
    remedy = f"decode again with --lag {lag_s:g}"
    if abs(lag_s) > 1:
        remedy = (
            f"the two have probably different clocks: {change} {seconds} "
            f"{'from' if lag_s > 0 else 'to'} the times of behaviour and trials"
        )
    return (
        f"{finding}. A search from -60 to 60 s finds them related where behaviour is {seconds} "
        f"{later} than the spikes: {remedy}."
    )


def save_decoded(
    path: Path, trained_on: TrainedOn, times: np.ndarray, decoded: np.ndarray, **others: np.ndarray
):
    """Write decoded behaviour, with the names of its columns and their unit.

    Args:
        path: the file, `.npz`.
        trained_on: has the names (C,) and the unit.
        times: times on the clock of behaviour, seconds, (T,).
        decoded: decoded behaviour, (T, C).
        others: further arrays, by the name they get in the file.

    Raises:
        CheckpointError: the file could not be written.
    """
    arrays = {
        "times": times,
        "decoded": decoded,
        **others,
        "columns": trained_on.behavior_columns,
        "unit": trained_on.behavior_unit,
    }
    write_arrays(path, arrays, error=CheckpointError)


def _print_metrics(metrics: list[dict], folder: Path, json: Path | None):
    """Print the tables of a run and where its results are; write the metrics to `json`, too."""
    if json:
        json.parent.mkdir(parents=True, exist_ok=True)
        write_json(json, metrics[0] if len(metrics) == 1 else {"sessions": metrics})
    if "class_weights" in metrics[0]:
        _print_classes(metrics, folder)
        return
    for m in metrics:
        print(f"\n{m['session']}", table(m["models"], m["behavior_columns"]), sep="\n")
        if "no_relation" in m:
            print(f"warning: {m['no_relation']}")
    print(
        "R² displayed: of what a screen shows at each moment. "
        "µs/bin: streaming, median and 99th percentile."
    )
    if _has_negative_r2(metrics):
        print("R² below 0: decoded worse than if the mean of the behaviour were always given.")
    _print_few_epochs(metrics[0])
    where = " for each session" if len(metrics) > 1 else ""
    print(f"\n{folder}: checkpoint.npz, metrics.json, decoded.npz, decoded.png{where}")


def _print_classes(metrics: list[dict], folder: Path):
    """Print the tables of a run that decodes classes and where its results are."""
    for m in metrics:
        weights = zip(m["behavior_columns"], m["class_weights"], strict=True)
        shown = ", ".join(f"{name} {weight:.2f}" for name, weight in weights)[:600]
        print(f"\n{m['session']}", class_table(m["models"]), sep="\n")
        print(*class_lines(m["models"], m["behavior_columns"]), sep="\n")
        print(f"Weights of the classes in the loss, n / (K n_k): {shown}.")
    _print_few_epochs(metrics[0])
    where = " for each session" if len(metrics) > 1 else ""
    print(f"\n{folder}: checkpoint.npz, metrics.json, predictions.npz, classes.png{where}")


def _print_few_epochs(metrics: dict):
    """Print that a training was short, if so: a longer one may score far higher."""
    epochs, usual = metrics["epochs"], FitConfig().epochs
    if epochs < usual / 2 and not metrics["adapted_from"]:
        few = f"Trained for {epochs} epochs, usual are {usual}"
        print(f"{few}: a longer training may score far higher.")


def _has_negative_r2(metrics: list[dict]) -> bool:
    """Whether any R² that is printed is below 0."""
    printed = [
        r2
        for m in metrics
        for model in m["models"].values()
        for r2 in (model["r2"], model["r2_displayed"], *model["r2_columns"])
    ]
    return min(printed) <= -0.0005
