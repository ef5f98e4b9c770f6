"""Unusable files and unwritable paths give a one-line error that names the file and the problem, and no leftovers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from strategies import dataset

from scots.core.errors import BadInput
from scots.data import formats
from scots.data.formats import FORMATS
from scots.data.npz import read_npz
from scots.data.trajectories import Array, Trajectories

TARGETS = [(name, suffix) for name, format in FORMATS.items() for suffix in format.suffixes]
OBSERVATIONS = np.arange(10, dtype=np.float32).reshape(5, 2)
TERMINALS = np.array([0, 0, 1, 0, 1], bool)


def target_id(target: tuple[str, str]) -> str:
    return f"{target[0]}{target[1] or '-folder'}"


def assert_read_error(path: Path, *words: str, format: str | None = None) -> None:
    """Reading fails with one line that starts with the path and contains these words in order."""
    with pytest.raises(BadInput) as caught:
        formats.read(path, format)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert re.search(".*".join(map(re.escape, words)), message), message


def largest_file(path: Path) -> Path:
    """The file itself, or the largest file of a folder."""
    files = [item for item in path.rglob("*") if item.is_file()] if path.is_dir() else [path]
    return max(files, key=lambda file: file.stat().st_size)


# ------------------------------------------------------------------------------------------------------ every format


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_missing_file(format: str | None, tmp_path: Path) -> None:
    assert_read_error(tmp_path / "nothing.npz", "no such file", format=format)


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_truncated_file(target: tuple[str, str], share: float, tmp_path: Path) -> None:
    name, suffix = target
    path = tmp_path / f"data{suffix}"
    formats.write(dataset((200, 100)), path, name)
    file = largest_file(path)
    content = file.read_bytes()
    # A CSV cut at the end of a line would be a valid shorter table, so the cut leaves an open last cell.
    file.write_bytes(content[: int(share * len(content))] + (b"," if name == "csv" else b""))
    assert_read_error(path)
    assert_read_error(path, format=name)


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
def test_garbage_file(target: tuple[str, str], tmp_path: Path) -> None:
    name, suffix = target
    path = tmp_path / f"data{suffix}"
    formats.write(dataset(), path, name)
    largest_file(path).write_bytes(np.random.default_rng(0).bytes(3000))
    assert_read_error(path)
    assert_read_error(path, format=name)


@pytest.mark.parametrize("name", FORMATS)
def test_file_of_another_format(name: str, tmp_path: Path) -> None:
    other = next(other for other in ("d4rl", "csv") if other != name)
    path = tmp_path / f"data{FORMATS[other].suffixes[0]}"
    formats.write(dataset(), path, other)
    assert_read_error(path, format=name)


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["observations", "times"])
def test_nonfinite_numbers_are_not_written(target: tuple[str, str], value: float, field: str, tmp_path: Path) -> None:
    values = np.array(getattr(dataset(), field))
    values[4:] = value
    changes: dict[str, Any] = {field: values}
    column = ", column 0" if values.ndim == 2 else ""
    with pytest.raises(BadInput, match=rf"data.*: {field}: row 4{column} \(episode 1\) is {value}, not a finite"):
        formats.write(dataset(**changes), tmp_path / f"data{target[1]}", target[0])
    assert not list(tmp_path.iterdir())


def test_array_without_columns_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"data\.npz: actions: no columns"):
        formats.write(dataset(actions=np.empty((9, 0))), tmp_path / "data.npz")


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
def test_unwritable_path(target: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    path = tmp_path / "file" / f"data{target[1]}"
    with pytest.raises(BadInput) as caught:
        formats.write(dataset(), path, target[0])
    assert str(caught.value).startswith(f"{path}: cannot write")
    assert "\n" not in str(caught.value)
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


WRITE_WITH_LIMITS = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from strategies import dataset
from scots.data import formats
from scots.core.errors import BadInput
data = dataset((40_000, 40_000))
for limit in map(int, sys.argv[4:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        formats.write(data, Path(sys.argv[3]), sys.argv[2])
    except BadInput as error:
        print(error)
"""


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
def test_full_disk(target: tuple[str, str], tmp_path: Path) -> None:
    """A limit on file sizes stands in for a full disk. It runs in a subprocess, because a library may crash on it."""
    path = tmp_path / f"data{target[1]}"
    limits = ["0", "100", "5000", "1000000"]
    command = [sys.executable, "-c", WRITE_WITH_LIMITS, str(Path(__file__).parents[1]), target[0], str(path), *limits]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    errors = run.stdout.splitlines()
    assert len(errors) == len(limits)
    assert all(line.startswith(f"{path}: cannot write: ") and "File too large" in line for line in errors)
    assert not list(tmp_path.iterdir())


def test_failed_write_keeps_the_existing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "data.npz"
    formats.write(dataset((2, 2)), path)
    monkeypatch.setattr("scots.data.formats.ogbench.write_npz", fail)
    with pytest.raises(BadInput, match=r"data\.npz: cannot write: No space left on device"):
        formats.write(dataset((3, 3)), path)
    assert formats.read(path).lengths.tolist() == [2, 2]
    assert [item.name for item in tmp_path.iterdir()] == ["data.npz"]


def test_folder_format_does_not_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("existing")
    with pytest.raises(BadInput, match="data: is a file, not a folder"):
        formats.write(dataset(), tmp_path / "data")
    assert (tmp_path / "data").read_text() == "existing"
    assert len(list(tmp_path.iterdir())) == 1


def test_empty_folder(tmp_path: Path) -> None:
    assert_read_error(tmp_path, "the folder is empty; give one that holds .csv files")
    assert_read_error(tmp_path, "no .csv files", format="csv")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("log.xlsx", "log.xlsx: matches none of the formats ogbench.*; save it as .csv"),
        ("log.zipped.7z", "unpack it first"),
        ("log.json.gz", "unpack it first"),
        ("20081023.plt", r"tail -n \+7 20081023.plt\) > 20081023.csv, and read that with --ignore zero,days"),
        ("log.kml", "convert it to .gpx or .geojson first"),
        ("log.xyz", "check that the file is not damaged"),
    ],
)
def test_what_no_format_reads_says_what_can_be_done(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04" if name.endswith("xlsx") else b"something")
    with pytest.raises(BadInput, match=words):
        formats.read(tmp_path / name)
    if name != "log.xyz":
        with pytest.raises(BadInput, match=f"it holds {re.escape(name)}; .*{words.rpartition('; ')[2]}"):
            formats.read(tmp_path)


def test_folders_in_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(
        BadInput, match=f"holds folders and no files, .*; give one of them, such as {tmp_path / 'anna'}"
    ):
        formats.read(tmp_path)


def test_error_names_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    formats.write(dataset(), tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert_read_error(tmp_path / "a.parquet", "pip install 'scots[parquet]'")


# --------------------------------------------------------------------------------------------------------------- npz

GOOD: dict[str, Any] = {"observations": OBSERVATIONS, "actions": OBSERVATIONS, "terminals": TERMINALS}


def with_row(row: int, value: float) -> Array:
    values = OBSERVATIONS.copy()
    values[row:, 1] = value
    return values


BAD_NPZ: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no observations": ({"observations": None}, ["no key 'observations'", "actions, terminals"]),
    "no boundaries": ({"terminals": None}, ["no episode boundaries", "terminals", "episode_ends"]),
    "observations of rank 1": ({"observations": OBSERVATIONS[:, 0]}, ["observations: expected rank 2", "(5,)"]),
    "actions of rank 1": ({"actions": TERMINALS}, ["actions: expected rank 2", "(5,)"]),
    "terminals of rank 2": ({"terminals": OBSERVATIONS}, ["terminals: expected one flag", "5 rows", "(5, 2)"]),
    "too few actions": ({"actions": OBSERVATIONS[:4]}, ["actions: 4 entries where 5 were expected"]),
    "too few terminals": ({"terminals": TERMINALS[:4]}, ["terminals: expected one flag for each of the 5 rows"]),
    "no rows": (
        {"observations": OBSERVATIONS[:0], "actions": OBSERVATIONS[:0], "terminals": TERMINALS[:0]},
        ["observations: no rows", "(0, 2)"],
    ),
    "no columns": ({"observations": OBSERVATIONS[:, :0]}, ["observations: no columns"]),
    "not a number": ({"observations": with_row(3, np.nan)}, ["observations: row 3, column 1 (episode 1) is nan"]),
    "infinity": ({"actions": with_row(1, -np.inf)}, ["actions: row 1, column 1 (episode 0) is -inf"]),
    "too large": ({"observations": with_row(4, 1.0).astype(float) * 1e39}, ["observations: row 0, column 1", "inf"]),
    "flag is not a number": ({"terminals": TERMINALS * np.float32("nan")}, ["terminals: expected flags of 0 and 1"]),
    "objects": ({"actions": OBSERVATIONS.astype(object)}, ["key 'actions'", "object arrays are not supported"]),
    "text": ({"observations": OBSERVATIONS.astype(str)}, ["observations: expected numbers, got <U"]),
    "meta is not JSON": ({"meta": np.array("{")}, ["Meta: not JSON"]),
    "meta with an unknown key": ({"meta": np.array('{"colour": 1}')}, ["Meta: unknown key 'colour'"]),
    "lengths too long": ({"terminals": None, "lengths": [3, 3]}, ["lengths: expected episodes that cover rows 0 to 5"]),
    "empty episode": ({"terminals": None, "lengths": [3, 0, 2]}, ["lengths: episode 1 is empty"]),
    "decreasing offsets": ({"terminals": None, "offsets": [0, 3, 2, 5]}, ["offsets: episode 1 is empty"]),
    "starts late": ({"terminals": None, "episode_starts": [1, 3]}, ["episode_starts", "rows 0 to 5, got 1 to 5"]),
    "no ends": ({"terminals": None, "episode_ends": np.empty(0, int)}, ["episode_ends", "rows 0 to 5"]),
    "ends are fractions": ({"terminals": None, "episode_ends": [2.5, 5.0]}, ["episode_ends: expected a list of int"]),
    "id repeats": ({"terminals": None, "episode": [0, 0, 1, 1, 0]}, ["episode: episode 0 starts a second", "row 4"]),
    "one id": ({"terminals": None, "episodes": np.array(2)}, ["episodes: expected one id for each of the 5 rows"]),
    "boundaries disagree": ({"lengths": [3, 2], "episode_ends": [2, 5]}, ["episode_ends and lengths give different"]),
    "flag inside an episode": ({"lengths": [4, 1]}, ["flags end an episode at row 2 but lengths does not"]),
    "stacked and lengths": (
        {"observations": OBSERVATIONS[None], "lengths": [3, 2], "terminals": None},
        ["lengths and the shape of the observations give different"],
    ),
}


@pytest.mark.parametrize("case", BAD_NPZ)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_bad_npz(case: str, save: Any, tmp_path: Path) -> None:
    changes, words = BAD_NPZ[case]
    members = {name: values for name, values in (GOOD | changes).items() if values is not None}
    save(tmp_path / "data.npz", **members)
    assert_read_error(tmp_path / "data.npz", *words)


def test_ogbench_needs_its_keys(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", observations=OBSERVATIONS, terminals=TERMINALS)
    assert_read_error(tmp_path / "data.npz", "no key 'actions'", "observations, terminals", format="ogbench")


def test_ogbench_refuses_compact_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **GOOD, valids=~TERMINALS)
    assert_read_error(tmp_path / "data.npz", "found key 'valids'", "'plain'", format="ogbench")
    assert formats.read(tmp_path / "data.npz").lengths.tolist() == [3, 2]


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    np.savez(tmp_path / "data.npz", **GOOD, qpos=np.array([Trap()], dtype=object))
    assert_read_error(tmp_path / "data.npz", "key 'qpos': object arrays are not supported")
    assert not (tmp_path / "sprung").exists()


def test_npz_that_is_not_a_zip(tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_bytes(b"garbage")
    with pytest.raises(BadInput, match=r"data\.npz: not a readable npz \(File is not a zip file\)"):
        read_npz(tmp_path / "data.npz")


# -------------------------------------------------------------------------------------------------------------- hdf5


def test_bad_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "data.hdf5"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"actions": OBSERVATIONS}, "no key 'observations'; the file has actions"),
        ({"observations": OBSERVATIONS}, "no episode boundaries; add 'terminals' or 'timeouts'"),
        ({"observations/x": OBSERVATIONS}, "observations: found a group, expected an array"),
        ({"observations": OBSERVATIONS, "terminals": TERMINALS[:3]}, "terminals: expected one flag"),
        ({"observations": OBSERVATIONS[:, 0], "terminals": TERMINALS}, "observations: expected rank 2"),
        ({"observations": with_row(2, np.nan), "timeouts": TERMINALS}, "observations: row 2, column 1 (episode 0)"),
        ({"observations": OBSERVATIONS[:0], "terminals": TERMINALS[:0]}, "observations: no rows"),
        ({"observations": OBSERVATIONS, "terminals": TERMINALS, "infos/qpos": TERMINALS}, "qpos: expected rank 2"),
    ]
    for arrays, words in cases:
        with h5py.File(path, "w") as file:
            for key, values in arrays.items():
                file[key] = values
        assert_read_error(path, words)


def test_hdf5_with_an_absurd_shape(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        file.create_dataset("observations", shape=(1 << 40, 2), dtype="f4", chunks=(16, 2))
        file["terminals"] = TERMINALS
    assert_read_error(tmp_path / "data.hdf5", "/observations: shape (1099511627776, 2) is too large for this file")


def test_flipped_byte_in_an_hdf5_file_we_wrote(tmp_path: Path) -> None:
    path = tmp_path / "data.hdf5"
    data = dataset((300, 300))
    formats.write(data, path)
    content = bytearray(path.read_bytes())
    begin = content.index(data.observations.tobytes())
    for byte in range(begin, begin + data.observations.nbytes, 97):
        content[byte] ^= 0xFF
        path.write_bytes(content)
        assert_read_error(path)
        content[byte] ^= 0xFF


# ------------------------------------------------------------------------------------------------------------ tables

OWN = '# meta: {"meta": {}, "terminated": null}\n'  # tables of our own are read strictly

BAD_CSV = {
    "not a number": ("x,y\n1,2\n3,four\n", ["line 3: column 'y': 'four' is not a number", "--ignore y"]),
    "not a number after a blank line": ("x,y\n1,2\n\n3,four\n", ["line 4: column 'y': 'four' is not a number"]),
    "not a number in an own table": (OWN + "x,y\n1,2\n3,four\n", ["line 4: column 'y': 'four' is not a number"]),
    "empty cell": (OWN + "x,y\n1,2\n,4\n", ["line 4: column 'x': the cell is empty"]),
    "missing in an own table": (OWN + "x,y\n1,2\nnan,4\n", ["line 4: column 'x': 'nan' is not a number"]),
    "short row": ("x,y\n1,2\n3\n", ["line 3: found 1 cells, expected 2"]),
    "long row": ("x,y\n1,2,3\n", ["line 2: found 3 cells, expected 2"]),
    "duplicate column": ("x,x\n1,2\n", ["line 1: column 'x' appears twice"]),
    "unnamed": (OWN + ",x\n0,1\n", ["line 2: column 0 has no name"]),
    "only unnamed": (",\n0,1\n", ["line 1: no observation columns"]),
    "no header": (
        "1.5,2.5\n3,4\n",
        ["line 1: found '1.5', a value", "the file has no header; add a first line with 2 names, such as x,y"],
    ),
    "empty file": ("", ["line 1: no observation columns"]),
    "no rows": ("x,y\n", ["no rows below the header"]),
    "no observations": (
        "episode,action_0\n0,1\n",
        ["line 1: no observation columns; the header has 'episode', 'action_0'"],
    ),
    "two times": ("t,time,x\n0,0,1\n", ["line 1: columns 't' and 'time' both mean times", "--time t"]),
    "two episodes": ("run,traj,x\n0,0,1\n", ["line 1: columns 'run' and 'traj' both mean episode", "--episode run"]),
    "two positions": ("lat,lon,x,y\n1,1,1,1\n", ["line 1: both x,y and lat,lon may be the position", "--position x,y"]),
    "id repeats": (OWN + "run,x\na,1\nb,1\na,1\n", ["run: episode a starts a second time at row 2"]),
    "not finite": ("run,x\na,1\nb,inf\n", ["observations: row 1, column 0 (episode 1) is inf"]),
    "unknown delimiter": ("x y\n1 2\n", ["no observation columns; the header has 'x y'", "--delimiter"]),
    "only text": ("x,y\na,b\nc,d\n", ["column 'x' is text, not numbers"]),
    "only text besides a time": (
        "time,name\n1,b\n2,d\n",
        ["line 1: no observation columns", "name is left out (text)"],
    ),
    "no positions": ("x,y\n,1\n2,\n", ["no rows are left: rows without a position (2)"]),
    "time starts again": ("t,x\n0,1\n1,2\n0,1\n", ["line 4: column 't': time goes back", "--episode none"]),
    "day or month first": ("time,x\n03/04/2024 10:00,1\n", ["day or the month first", "--time 'time=%d/%m/%Y %H:%M'"]),
    "no date": (
        "time,x\n2024-01-01 10:00,1\n2024-01-32 10:00,1\n",
        ["line 3: column 'time': '2024-01-32 10:00' is no"],
    ),
    "open quote": ('x,y\n1,"2\n', ["line 2: the cells cannot be told apart by the delimiter ','"]),
    "meta is not JSON": ("# meta: {\nx,y\n1,2\n", ["meta: not valid JSON"]),
    "meta lacks keys": ("# meta: {}\nx,y\n1,2\n", ["meta: expected an object with 'meta' and 'terminated'"]),
    "meta with text flags": ('# meta: {"meta": {}, "terminated": ["yes"]}\nx\n1\n', ["list of true and false"]),
    "line number after meta": ('# meta: {"meta": {}, "terminated": null}\nx\n1\n?\n', ["line 4: column 'x': '?'"]),
    "too many flags": ('# meta: {"meta": {}, "terminated": [true, true]}\nx\n1\n', ["terminated: 2 entries where 1"]),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv(case: str, tmp_path: Path) -> None:
    text, words = BAD_CSV[case]
    (tmp_path / "data.csv").write_text(text)
    assert_read_error(tmp_path / "data.csv", *words)


def test_csv_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"x,y\n1,\xff\xfe\n")
    assert_read_error(tmp_path / "data.csv", "is not text in UTF-8", "iconv -f latin1 -t utf-8 data.csv")
    (tmp_path / "data.csv").write_bytes("x,y\n1,2\n".encode("utf-16"))
    assert_read_error(tmp_path / "data.csv", "is not text in UTF-8", "iconv -f utf-16 -t utf-8 data.csv")


def test_folder_with_different_headers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    assert_read_error(tmp_path, "b.csv: the header differs from a.csv: column 'y' is not in both")
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    assert_read_error(tmp_path, "b.csv: the header differs from a.csv: the columns are in another order")


def test_folder_with_a_bad_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,y\n1,3\n2,two\n")
    assert_read_error(tmp_path, "b.csv: line 3: column 'y': 'two' is not a number")


def test_bad_parquet(tmp_path: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    own = {b"scots": b'{"meta": {}, "terminated": null}'}
    cases: list[tuple[dict[str, list[Any]], dict[bytes, bytes], str]] = [
        ({"x": [1.0, None]}, own, "column 'x': row 1 is empty"),
        ({"x": ["a", "b"]}, own, "column 'x': expected numbers, got string"),
        ({"x": [[1.0], [2.0, 3.0]]}, own, "column 'x': expected numbers, got list"),
        ({"run": ["a", None], "x": [1, 2]}, own, "column 'run': row 1 is empty"),
        ({"x": [1.0, float("nan")]}, own, "observations: row 1, column 0 (episode 0) is nan"),
        ({"x": ["a", "b"]}, {}, "no observation columns; the header has 'x'; x is left out (text)"),
        ({"x": [[1.0], [2.0, 3.0]]}, {}, "no observation columns; the header has 'x'; x is left out (text)"),
        ({"x": ["1", "b"], "y": [1, 2]}, {}, "row 1: column 'x': 'b' is not a number"),
        ({"run": ["a"]}, {}, "no observation columns"),
    ]
    for columns, metadata, words in cases:
        table = arrow.table(columns).replace_schema_metadata(metadata)
        parquet.write_table(table, tmp_path / "data.parquet")
        assert_read_error(tmp_path / "data.parquet", words)


# ------------------------------------------------------------------------------------------------------------ minari


def test_bad_minari(tmp_path: Path) -> None:
    formats.write(dataset(), tmp_path / "data", "minari")
    metadata = tmp_path / "data" / "data" / "metadata.json"
    good = metadata.read_text()
    for damaged, words in [
        (good.replace('"observation_space"', '"space"'), "no key 'observation_space'"),
        (good.replace('"total_episodes": 3', '"total_episodes": 0'), "no episodes"),
        (good.replace('"total_episodes": 3', '"total_episodes": 4'), "episode_3"),
        ("{}", "no key 'observation_space'"),
        ("[", "cannot be read"),
    ]:
        metadata.write_text(damaged)
        assert_read_error(tmp_path / "data", words)


def test_read_arrays_are_read_only(tmp_path: Path) -> None:
    formats.write(dataset(), tmp_path / "data.npz")
    data: Trajectories = formats.read(tmp_path / "data.npz")
    with pytest.raises(ValueError, match="read-only"):
        data.observations[0] = 0
