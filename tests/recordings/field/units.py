"""Tables of units and impossible spikes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from possm_lite.recordings import Recording

from .. import nwb_files
from ..layout_files import RATE
from ..layouts import sampled, trains_of
from .case import FieldCase


def read_as(recording: Recording) -> Recording:
    """Behaviour at 100 Hz, as all cases here write it."""
    return sampled(recording, 10)


def without(*units: int) -> Callable[[Recording], Recording]:
    """All but these units."""

    def expected(recording: Recording) -> Recording:
        r = read_as(recording)
        trains = {i: train for i, train in enumerate(trains_of(r)) if i not in units}
        return Recording.from_trains(trains, r.behavior_times, r.behavior)

    return expected


def spikes_alone(recording: Recording) -> Recording:
    return replace(recording, behavior_times=[], behavior=[], trials=[])


# Folders of phy: unit i is cluster 3 i + 2


def ids_of(r: Recording) -> np.ndarray:
    return 3 * np.arange(r.n_units) + 2


def write_phy(r: Recording, folder: Path, early=(), dtype=np.int64, behavior="behavior.csv") -> Path:
    """The folder without a table of clusters; `early` are samples of unit 1 before the others."""
    folder = folder / "phy"
    folder.mkdir()
    samples = np.r_[np.array(early, np.int64), np.rint(r.spike_times * RATE).astype(np.int64)]
    with np.errstate(over="ignore"):
        np.save(folder / "spike_times.npy", samples.astype(dtype)[:, None])
    clusters = np.r_[np.full(len(early), 5), ids_of(r)[r.spike_units]]
    np.save(folder / "spike_clusters.npy", clusters.astype(np.int32))
    (folder / "params.py").write_text("dat_path = 'raw.bin'\nsample_rate = 30000.\n")
    r = read_as(r)
    table = np.column_stack((r.behavior_times, r.behavior))
    if behavior:
        np.savetxt(folder / behavior, table, "%.9g", ",", header="time,hand_vel_x,hand_vel_y", comments="")
    return folder


def rows(r: Recording, *columns: str, labels=lambda i: [], separator="\t") -> str:
    """A table with a row for each cluster: its number, and the labels of unit i."""
    lines = [["cluster_id", *columns], *([i, *labels(k)] for k, i in enumerate(ids_of(r)))]
    return "".join(separator.join(map(str, line)) + "\n" for line in lines)


def kilosort(k: int) -> list:
    return ["good" if k % 3 else "mua"]


def ks4_group_copy(r, folder, changes=()):
    path = write_phy(r, folder)
    for name in ("cluster_KSLabel.tsv", "cluster_group.tsv"):
        (path / name).write_text(rows(r, "KSLabel", labels=kilosort))
    (path / "cluster_Amplitude.tsv").write_text(rows(r, "Amplitude", labels=lambda k: [40.5 + k]))
    for name, old, new in changes:
        (path / name).write_text((path / name).read_text().replace(old, new))
    return path


def labelled(r, folder, files: dict[str, str], behavior="behavior.csv"):
    """A folder with tables of clusters by the names of their files; cluster 8 is noise; "," or tabs between columns."""
    path = write_phy(r, folder, behavior=behavior)
    for name, separator in files.items():
        table = rows(r, "group", "ch", labels=lambda k: ["noise" if k == 2 else "good", k], separator=separator)
        (path / name).write_text(table)
    return path


def blank_rows(r, folder):
    """Ids that no spike has, rows without an id, repeated rows, capitals, and blanks around labels."""
    path = write_phy(r, folder)
    extra = "\n\t\n\n3\tnoise\n4\tnoise\n8\t Noise \n"
    (path / "cluster_group.tsv").write_text(rows(r, "group", labels=lambda k: ["good"]) + extra)
    (path / "cluster_purity.tsv").write_text("")
    return path


def allen_metrics(r, folder):
    """metrics.csv: the numbers of rows first, without a name."""
    path = labelled(r, folder, {"cluster_group.tsv": "\t"})
    lines = [f"{k},{i},{0.1 * k}\n" for k, i in enumerate(ids_of(r))]
    (path / "metrics.csv").write_text("".join([",cluster_id,isi_viol\n", *lines]))
    return path


def phy_gbk(r, folder):
    path = write_phy(r, folder)
    params = "dat_path = 'D:/猴子数据/周一/raw.bin'\nsample_rate = 30000.0\n"
    (path / "params.py").write_bytes(params.encode("gbk"))
    table = rows(r, "group", "备注", labels=lambda k: ["noise" if k == 2 else "good", "很好"], separator=",")
    (path / "cluster_info.csv").write_bytes(table.encode("gbk"))
    return path


# NWB


def write_nwb(r: Recording, folder: Path, change: Callable[[list[np.ndarray]], None] = lambda trains: None) -> Path:
    """A file with spikes that `change` changes in place."""
    file, path = nwb_files.session_of("Monkey", "1"), folder / "session.nwb"
    trains = [train.copy() for train in trains_of(r)]
    change(trains)
    for train in trains:
        file.add_unit(spike_times=train)
    r = read_as(r)
    nwb_files.behavior(file, nwb_files.series("hand_vel", r.behavior, timestamps=r.behavior_times))
    nwb_files.write(file, path)
    return path


def with_more(*values: float) -> Callable:
    """Spikes at these times in the midst of every third unit."""

    def change(trains):
        for u in range(0, len(trains), 3):
            trains[u] = np.insert(trains[u], len(trains[u]) // 2, values)

    return change


def one_restarts(trains):
    half = len(trains[1]) // 2
    trains[1][half:] -= trains[1][half]


def one_in_ms(trains):
    trains[1] *= 1000


def all_restart(n_blocks: int) -> Callable:
    def change(trains):
        stop = max(train[-1] for train in trains)
        for train in trains:
            train %= stop / n_blocks

    return change


# Other formats


def write_npz(r: Recording, folder: Path, change: Callable = lambda times: times, n_blocks=1) -> Path:
    """A file of somebody's own, whose clock is reset for each block; behaviour only of the first one."""
    stop = r.behavior_times[-1] + 1e-3
    spikes = {"spike_times": change(r.spike_times % (stop / n_blocks)), "spike_units": r.spike_units}
    r = read_as(r)
    np.savez(folder / "own.npz", **spikes, behavior_times=r.behavior_times, behavior=r.behavior)
    return folder / "own.npz"


def with_invalid(times):
    """-1, NaN and a wrapped integer in the place of three spikes."""
    times = times.copy()
    times[[40, 41, 90]] = [-1.0, np.nan, 2.0**64 / RATE]
    return times


def without_invalid(recording):
    r = read_as(recording)
    kept = np.delete(np.arange(len(r.spike_times)), [40, 41, 90])
    return replace(r, spike_times=r.spike_times[kept], spike_units=r.spike_units[kept])


def epochs_of(r: Recording, shares) -> np.ndarray:
    return np.array(shares) * r.behavior_times[-1]


def inside(times, epochs) -> np.ndarray:
    return np.any([(times >= start) & (times <= stop) for start, stop in epochs], axis=0)


def pynapple(shares, r, folder):
    """Spikes restricted to epochs, in shares of the recording; behaviour is not."""
    folder = folder / "session"
    folder.mkdir()
    epochs = epochs_of(r, shares)
    kept = inside(r.spike_times, epochs)
    spikes = {"t": r.spike_times[kept], "index": r.spike_units[kept], "keys": np.arange(r.n_units)}
    start, end = epochs.T
    np.savez(folder / "spikes.npz", **spikes, start=start, end=end, type=np.array(["TsGroup"]))
    r = read_as(r)
    support = {"start": r.behavior_times[:1], "end": r.behavior_times[-1:]}
    np.savez(folder / "hand_vel.npz", t=r.behavior_times, d=r.behavior, **support, type=np.array(["TsdFrame"]))
    return folder


def in_epochs(shares, recording):
    r = read_as(recording)
    epochs = epochs_of(recording, shares)
    kept, rows = inside(r.spike_times, epochs), inside(r.behavior_times, epochs)
    return Recording(r.spike_times[kept], r.spike_units[kept], r.unit_ids, r.behavior_times[rows], r.behavior[rows])


# More spellings and layouts of tables


def with_files(files: dict[str, str | bytes], r, folder, changes: Callable[[Path], None] = lambda path: None):
    """A folder of phy with these files, which is changed then."""
    path = write_phy(r, folder)
    for name, text in files.items():
        (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    changes(path)
    return path


def of_clusters(head: str, *columns: Callable, r=range(12)) -> str:
    """A table with a row for each of the twelve clusters; the first column is its number."""
    lines = [[3 * k + 2, *(column(k) for column in columns)] for k in r]
    return head + "\n" + "".join("\t".join(map(str, line)) + "\n" for line in lines)


def noise_of_2(k: int) -> str:
    return "noise" if k == 2 else "good"


def of_behavior(change: Callable[[str], str | bytes]) -> Callable:
    """A change of the table of behaviour."""

    def changes(path: Path):
        text = change((path / "behavior.csv").read_text())
        (path / "behavior.csv").write_bytes(text if isinstance(text, bytes) else text.encode())

    return changes


def with_row_numbers(text: str) -> str:
    head, *lines = text.splitlines()
    return "\n".join([f",{head}", *(f"{i},{line}" for i, line in enumerate(lines))]) + "\n"


def as_templates(path: Path):
    (path / "spike_clusters.npy").rename(path / "spike_templates.npy")


def as_floats(path: Path):
    for name in ("spike_times.npy", "spike_clusters.npy"):
        np.save(path / name, np.load(path / name).astype(float))


def filled(value: float) -> Callable:
    """Trains as rows of a matrix, filled up."""

    def change(trains):
        longest = max(map(len, trains))
        for u, train in enumerate(trains):
            trains[u] = np.r_[train, np.full(longest - len(train), value)]

    return change


def one_backwards(trains):
    trains[4] = trains[4][::-1]


def one_merged(trains):
    """phy appends the spikes of one cluster to those of another; unit 2 is empty then."""
    trains[1] = np.r_[trains[1], trains[2]]
    trains[2] = trains[2][:0]


def with_merged(recording):
    r = read_as(recording)
    return replace(r, spike_units=np.where(r.spike_units == 2, 1, r.spike_units))


def saved_arrays(r, folder, **changes):
    """Arrays of one's own, some of them in another shape."""
    behavior = read_as(r)
    fields = {"spike_times": r.spike_times, "spike_units": r.spike_units}
    fields |= {"behavior_times": behavior.behavior_times, "behavior": behavior.behavior}
    np.savez(folder / "own.npz", **fields | {name: change(fields[name]) for name, change in changes.items()})
    return folder / "own.npz"


def unit_after_unit(r, folder, n_groups=12):
    """Own arrays of a list of trains, or of two probes, one after the other; each unit is in order."""
    order = np.argsort(r.spike_units * n_groups // 12, kind="stable")
    return saved_arrays(r, folder, spike_times=lambda t: t[order], spike_units=lambda u: u[order])


def shorter_train(r, folder):
    """A TsGroup that lost the time of its last spike."""
    path = pynapple(((0, 1),), r, folder)
    with np.load(path / "spikes.npz") as file:
        arrays = dict(file)
    np.savez(path / "spikes.npz", **arrays | {"t": arrays["t"][:-1]})
    return path


GROUPS = of_clusters("cluster_id\tgroup", noise_of_2)
TWO, ONE = ((0, 0.3), (0.55, 0.85)), ((0.1, 0.6),)

NOISE = "^11 clusters were used.*; 1 labelled noise was left out"
GOOD = {"units": "KSLabel == 'good'"}
WITHOUT_1 = {"units": "id != 1"}
BLOCKS = "[Ss]ort|argsort|Error"  # never say so where sorting lays blocks over each other
APART = "KSLabel of 1 clusters differs in cluster_KSLabel.tsv and cluster_group.tsv: cluster_KSLabel.tsv was used"

TABLES = [
    FieldCase(
        "ks4_group_copy",
        "Kilosort #498",
        ks4_group_copy,
        says="^12 clusters were used: 8 good, 4 mua \\(KSLabel\\); the good ones alone: --units \"KSLabel == 'good'\"",
        silent="noise|left out",
        expected=read_as,
    ),
    FieldCase(
        "ks4_label_filter",
        "Kilosort #498",
        ks4_group_copy,
        says="8 of 12 units were chosen",
        options=GOOD,
        expected=without(0, 3, 6, 9),
    ),
    FieldCase(
        "ks4_copies_differ",
        "Kilosort #498",
        partial(ks4_group_copy, changes=[("cluster_group.tsv", "\n5\tgood", "\n5\tmua")]),
        says=APART,
        options=GOOD,
        expected=without(0, 3, 6, 9),
    ),
    *(
        FieldCase(name, "SpikeInterface #1167", partial(labelled, files=files), says=NOISE, expected=without(2))
        for name, files in {
            "phy_csv_copy": {"cluster_info.tsv": "\t", "cluster_info.csv": "\t"},
            "phy_info_with_commas": {"cluster_info.csv": ","},
            "phy_1_groups": {"cluster_groups.csv": "\t"},
            "phy_tsv_with_commas": {"cluster_group.tsv": ","},
            "phy_semicolons": {"cluster_info.csv": ";"},
        }.items()
    ),
    FieldCase(
        "phy_csv_copy_alone",
        "SpikeInterface #1167",
        partial(labelled, files={"cluster_info.csv": "\t"}, behavior=""),
        says=NOISE,
        options={"spikes_only": True},
        expected=lambda r: spikes_alone(without(2)(r)),
    ),
    FieldCase(
        "phy_two_behaviors_unread",
        "SpikeInterface #1167",
        lambda r, folder: labelled(r, folder, {"notes.csv": ","}, behavior="track.csv"),
        says=NOISE,
        options={"spikes_only": True},
        expected=lambda r: spikes_alone(without(2)(r)),
    ),
    FieldCase("phy_blank_rows", "Kilosort #498", blank_rows, says=NOISE, expected=without(2)),
    FieldCase("phy_empty_table", "phy #1141", blank_rows, says="cluster_purity.tsv is empty", expected=without(2)),
    FieldCase("allen_metrics", "ecephys_spike_sorting", allen_metrics, says=NOISE, expected=without(2)),
    FieldCase(
        "allen_metrics_filter",
        "ecephys_spike_sorting",
        allen_metrics,
        options={"units": "isi_viol < 0.95"},
        expected=without(2, 10, 11),
    ),
    FieldCase("phy_gbk_params", "SpikeInterface #3429", phy_gbk, says=NOISE, expected=without(2)),
]

SPIKES = [
    *(
        FieldCase(
            name,
            "Kilosort #645",
            partial(write_phy, early=early, dtype=dtype),
            says=f"^{len(early)} of \\d+ spikes without a possible time were left out",
            silent="restart|silent|Error|argsort",
            expected=read_as,
        )
        for name, early, dtype in (
            ("phy_uint64_wrap", (-10, -10, -9), np.uint64),
            ("phy_uint64_wrap_many", range(-1000, 0), np.uint64),
            ("phy_uint32_wrap", (-10, -9), np.uint32),
            ("phy_before_zero", (-300, -9), np.int64),
        )
    ),
    *(
        FieldCase(
            name,
            "AllenSDK #1349",
            partial(write_nwb, change=with_more(*values)),
            says=f"^{4 * len(values)} of \\d+ spikes without a possible time were left out: .* of units 0, 3, 6, 9",
            silent="restart|silent|Error|argsort",
            expected=read_as,
        )
        for name, values in {
            "nwb_minus_one": [-1.0],
            "nwb_minus_one_often": [-1.0] * 300,
            "nwb_codes": [-9999.0, -1.0],
            "nwb_far": [1.8e19 / RATE] * 100,
            "nwb_far_apart": [1e5, 3e7, 2e9],
            "nwb_before_zero": [-700.25, -20.5],
        }.items()
    ),
    FieldCase(
        "npz_invalid", "AllenSDK #1349", partial(write_npz, change=with_invalid), says="^2 of", expected=without_invalid
    ),
    FieldCase(
        "nwb_one_unit_restarts",
        "nwbinspector #394",
        partial(write_nwb, change=one_restarts),
        says='unit 1 restart .* the other 11 units do not.*--units "id != 1"',
        silent=BLOCKS,
    ),
    FieldCase(
        "nwb_one_unit_in_ms",
        "nwbinspector #394",
        partial(write_nwb, change=one_in_ms),
        says='of unit 1 are not possible.*--units "id != 1"',
        silent="restart|Error|argsort",
    ),
    *(
        FieldCase(
            f"nwb_{change.__name__}_left_out",
            "nwbinspector #394",
            partial(write_nwb, change=change),
            silent="spikes without|restart",
            options=WITHOUT_1,
            expected=without(1),
        )
        for change in (one_restarts, one_in_ms)
    ),
    *(
        FieldCase(
            f"{write.__name__[6:]}_{n}_restarts",
            "python-neo #1755",
            made,
            says=rf"clock of spike_times restarts ({n} times, first|once,) after .* each of the {n + 1} blocks as a",
            silent=BLOCKS,
        )
        for n in (1, 3, 5)
        for write, made in (
            (write_npz, partial(write_npz, n_blocks=n + 1)),
            (write_nwb, partial(write_nwb, change=all_restart(n + 1))),
        )
    ),
]


def begins_before_zero(r, folder):
    """Sound: 5 s before zero, as where zero is the first trial."""
    return write_nwb(replace(r, spike_times=r.spike_times - 5), folder)


def another_day(trains):
    """Sound: a block of 3 s on the next day."""
    for u, train in enumerate(trains):
        trains[u] = np.r_[train, train[train < 3] + 86_400]


def no_order(trains):
    """Sound: spikes of a unit in no order."""
    rng = np.random.default_rng(0)
    for train in trains:
        rng.shuffle(train)


def with_another_day(recording):
    r = read_as(recording)
    early = r.spike_times < 3
    times = np.r_[r.spike_times, r.spike_times[early] + 86_400]
    return replace(r, spike_times=times, spike_units=np.r_[r.spike_units, r.spike_units[early]])


SOUND = [
    FieldCase(
        "nwb_begins_before_zero",
        "sound",
        begins_before_zero,
        silent="spikes without|restart",
        expected=lambda r: read_as(replace(r, spike_times=r.spike_times - 5)),
    ),
    FieldCase(
        "nwb_another_day",
        "sound",
        partial(write_nwb, change=another_day),
        silent="spikes without|restart",
        expected=with_another_day,
    ),
    FieldCase(
        "nwb_no_order", "sound", partial(write_nwb, change=no_order), silent="spikes without|restart", expected=read_as
    ),
]

EPOCHS = [
    FieldCase(
        name,
        "pynapple #53",
        partial(pynapple, shares),
        says=r"^\d+ of \d+ samples of behaviour outside",
        silent="no unit has a spike|Error",
        expected=partial(in_epochs, shares),
    )
    for name, shares in (("pynapple_support", TWO), ("pynapple_one_epoch", ONE))
]

SPELLINGS = [
    *(
        FieldCase(name, source, partial(with_files, files), says=NOISE, expected=without(2))
        for name, source, files in (
            (
                "phy_of_spikeinterface",
                "SpikeInterface #1167",
                {
                    "cluster_group.tsv": GROUPS,
                    "cluster_si_unit_ids.tsv": of_clusters("cluster_id\tsi_unit_id", lambda k: k + 100),
                    "quality_metrics.csv": of_clusters("\tsnr", lambda k: k).replace("\t", ","),
                },
            ),
            ("phy_utf16", "SpikeInterface #3429", {"cluster_group.tsv": GROUPS.encode("utf-16")}),
            ("phy_utf16_without_mark", "SpikeInterface #3429", {"cluster_group.tsv": GROUPS.encode("utf-16-le")}),
            (
                "phy_bom_crlf",
                "SpikeInterface #3429",
                {"cluster_group.tsv": GROUPS.replace("\n", "\r\n").encode("utf-8-sig")},
            ),
            ("phy_label", "own variant", {"cluster_labels.tsv": GROUPS.replace("group", "label")}),
            ("phy_blanks", "own variant", {"cluster_group.tsv": GROUPS.replace("\t", " ")}),
            (
                "phy_capitals",
                "own variant",
                {"cluster_group.tsv": of_clusters("Cluster ID\tGroup", lambda k: noise_of_2(k).upper())},
            ),
            (
                "phy_float_ids",
                "own variant",
                {"cluster_info.tsv": GROUPS.replace("\tg", ".0\tg").replace("_id.0", "_id").replace("8\tn", "8.0\tn")},
            ),
        )
    ),
    FieldCase(
        "phy_metrics_filter",
        "SpikeInterface",
        partial(with_files, {"quality_metrics.csv": of_clusters("\tsnr", lambda k: k).replace("\t", ",")}),
        says="9 of 12 units were chosen",
        options={"units": "snr > 2"},
        expected=without(0, 1, 2),
    ),
    FieldCase(
        "phy_labels_are_numbers",
        "phy before 1.0",
        partial(with_files, {"cluster_groups.csv": of_clusters("cluster_id\tgroup", lambda k: 0 if k == 2 else 2)}),
        says='are numbers: which is noise is not known.*--units "group != 0"',
        expected=read_as,
    ),
    FieldCase(
        "phy_unlabelled",
        "phy",
        partial(with_files, {"cluster_group.tsv": of_clusters("cluster_id\tgroup", noise_of_2, r=range(10))}),
        says="2 of 11 clusters have spikes but no label in the column group, and were used: 32, 35",
        expected=without(2),
    ),
    FieldCase(
        "phy_zero_bytes",
        "a crash",
        partial(with_files, {"cluster_group.tsv": GROUPS[:60].encode() + bytes(60)}),
        says="cluster_group.tsv: is damaged: it holds zero bytes",
    ),
    FieldCase(
        "phy_without_params",
        "a new user",
        partial(with_files, {}, changes=lambda p: (p / "params.py").unlink()),
        says="has no params.py.*sample_rate = 30000",
    ),
    FieldCase(
        "phy_templates",
        "Kilosort",
        partial(with_files, {}, changes=as_templates),
        says="of spike_templates",
        expected=read_as,
    ),
    FieldCase("phy_of_matlab", "npy-matlab", partial(with_files, {}, changes=as_floats), expected=read_as),
    *(
        FieldCase(
            f"phy_behavior_{name}",
            "own variant",
            partial(with_files, {}, changes=of_behavior(change)),
            expected=read_as,
        )
        for name, change in {
            "time_in_brackets": lambda text: text.replace("time,", "Time (s),", 1),
            "timestamps": lambda text: text.replace("time,", "timestamps,", 1),
            "with_row_numbers": with_row_numbers,
            "decimal_commas": lambda text: text.replace(",", ";").replace(".", ","),
            "utf16": lambda text: text.encode("utf-16"),
        }.items()
    ),
    FieldCase(
        "phy_events",
        "own variant",
        partial(with_files, {"events.csv": "time,event\n" + "".join(f"{i},lick\n" for i in range(9))}),
        expected=read_as,
    ),
    FieldCase(
        "nwb_filled_with_zeros",
        "MATLAB",
        partial(write_nwb, change=filled(0.0)),
        says="only fill an array",
        silent=BLOCKS,
        expected=read_as,
    ),
    FieldCase(
        "nwb_filled_with_nan",
        "MATLAB",
        partial(write_nwb, change=filled(np.nan)),
        says="without a time.* of units",
        expected=read_as,
    ),
    FieldCase(
        "nwb_one_backwards", "own variant", partial(write_nwb, change=one_backwards), silent="restart", expected=read_as
    ),
    FieldCase(
        "nwb_one_merged",
        "phy",
        partial(write_nwb, change=one_merged),
        says="unit 1 .*merged: they were sorted",
        silent="restart",
        expected=with_merged,
    ),
    FieldCase(
        "npz_transposed",
        "MATLAB",
        partial(saved_arrays, behavior=np.transpose),
        says="is transposed, and was turned",
        expected=read_as,
    ),
    FieldCase(
        "npz_columns",
        "MATLAB",
        partial(saved_arrays, spike_times=lambda t: t[:, None], behavior_times=lambda t: t[None]),
        expected=read_as,
    ),
    FieldCase(
        "npz_whole_seconds",
        "own variant",
        partial(saved_arrays, spike_times=np.floor),
        says="all spikes are at whole seconds",
        expected=lambda r: replace(read_as(r), spike_times=np.floor(r.spike_times)),
    ),
    FieldCase("pynapple_cut", "broken files", shorter_train, says="spike times, but units of"),
    *(
        FieldCase(
            f"npz_{name}_after_{name}",
            "issue 50",
            partial(unit_after_unit, n_groups=n_groups),
            says=f"spike_times come {name} after {name}, .*: sort all spikes by time, and spike_units",
            silent="restart|blocks|argsort",
        )
        for name, n_groups in (("unit", 12), ("group", 2))
    ),
    FieldCase(
        "phy_without_behavior",
        "issue 50",
        partial(write_phy, behavior=""),
        says="has no table of behaviour: put behavior.csv into the folder, with a first column time",
        silent="--behavior|none",
    ),
    FieldCase(
        "phy_with_events_alone",
        "issue 50",
        partial(with_files, {"events.csv": "time,event\n0.5,lick\n"}, changes=lambda p: (p / "behavior.csv").unlink()),
        says="has no table of behaviour",
        silent="first column must be",
    ),
]

CASES = [*TABLES, *SPIKES, *SPELLINGS, *SOUND, *EPOCHS]
