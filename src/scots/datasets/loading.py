"""An id, a file or a folder -> `Trajectories`; and the list of all datasets that are known or here."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scots.core.console import console
from scots.core.errors import BadInput
from scots.core.files import home
from scots.data import formats
from scots.data.choices import Choices, follow, kept_choices
from scots.data.inspection import how_read, position_columns
from scots.data.scans import encoding_step
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import toy
from scots.datasets.download import origin_of as download_record
from scots.datasets.specs import SPECS, DatasetSpec


def data_path(dataset: str) -> Path:
    """Where a dataset of this id is kept."""
    return home() / "data" / f"{dataset}.npz"


def unknown_dataset(name: str) -> BadInput:
    """The error for a name that is neither an id nor a path, with the nearest ids."""
    near = difflib.get_close_matches(name, SPECS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `scots data list`"
    return BadInput(f"{name}: no such dataset id, file or folder; {hint}")


def load(data: str | Path, *, finite: bool = True, **choices: Any) -> Trajectories:
    """Load a dataset by id, file or folder, in any format.

    `choices` are the fields of `scots.data.choices.Choices`, which say what columns mean: `position="x,y"`,
    `episode="trip_id"`, `every=5.0`. What is not chosen is taken from the data or guessed; a guess is printed.
    `finite=False` also loads NaN and infinity.
    """
    found = load_declared(data, finite=finite, **choices)
    if found.meta.augmentation is None and (texts := how_read(found.meta)):
        _say(f"{data}: " + "; ".join(f"{role}: {text}" for role, text in texts.items()))
    columns, assumed = position_columns(found)
    if not assumed or encoding_step(found.meta):  # latents of scans are no positions
        return found
    names = ", ".join(found.meta.columns[n] if found.meta.columns else str(n) for n in columns)
    _say(f"position columns assumed: {names}; name others with --position x,y")
    return found.with_meta(position=columns)


def load_original(data: str, made: Meta, **choices: Any) -> tuple[Trajectories, dict[str, Any]]:
    """The data that other data of this meta was made from, and the choices it took: those of then, unless given now.

    Where they cannot be followed the data was converted since, or before, and tells its columns itself.
    """
    kept = kept_choices(made) | choices
    try:
        return load(data, **kept), kept
    except BadInput as error:
        if kept == choices:
            raise
        try:
            return load(data, **choices), choices
        except BadInput:
            raise error from None


def is_augmented(data: str) -> bool:
    """Whether this is a file or folder of augmented data, which tells its columns itself."""
    path = Path(data) if Path(data).exists() else data_path(data)
    try:
        return path.exists() and formats.read_meta(path).augmentation is not None
    except BadInput:  # a table that needs choices
        return False


def _say(message: str) -> None:
    console.print(message, markup=False, highlight=False, soft_wrap=True)


def load_declared(data: str | Path, *, finite: bool = True, **choices: Any) -> Trajectories:
    """The same without a guess of the position: where the data does not tell its columns, its meta has none."""
    found = _read(str(data), finite, Choices(**choices))
    columns, assumed = position_columns(found)
    return found if assumed or columns == found.meta.position else found.with_meta(position=columns)


def _read(name: str, finite: bool, choices: Choices) -> Trajectories:
    if Path(name).exists():
        return formats.read(Path(name), finite=finite, choices=choices)
    base = name.removesuffix("-val")
    if data_path(name).exists():
        found = _with_origin(formats.read(data_path(name), finite=finite), data_path(name), base)
        return follow(found, choices, "a dataset with an id")
    if base == toy.ID:
        return follow(toy.make() if name == base else toy.make_validation(), choices, "a dataset with an id")
    if base in SPECS and (collection := SPECS[base].collection):
        ways = f"run `scots data collect {base}` or {collection.elsewhere}"
        raise BadInput(f"{name}: not collected or downloaded yet; {ways}")
    raise unknown_dataset(name)


def _with_origin(data: Trajectories, path: Path, dataset: str) -> Trajectories:
    """Add to a file that carries no meta of its own what its id and its download record, if it has one, say."""
    record = download_record(path)
    if data.meta.provenance or (not record and (data.meta.dataset or data.meta.environment)):
        return data
    provenance = (record,) if record else ()
    if dataset not in SPECS:
        return data.with_meta(provenance=provenance)
    meta = known_meta(dataset)
    if data.observations.shape[1] != len(meta.columns):
        found = f"{data.observations.shape[1]} observation columns where {dataset} has {len(meta.columns)}"
        raise BadInput(f"{path}: {found}; give another file by its path")
    return data.with_meta(**{name: getattr(meta, name) for name in meta.to_dict()} | {"provenance": provenance})


def known_meta(dataset: str) -> Meta:
    """What is known of a dataset from its id, whether its data is here or not."""
    if dataset == toy.ID:
        return toy.META
    spec = SPECS.get(dataset)
    return spec.collection.meta() if spec and spec.collection else load(dataset).meta


@dataclass(frozen=True)
class Listed:
    """One line of `scots data list`: what is here, or what could be."""

    id: str
    episodes: int | None  # None: the file cannot be read
    states: int | None  # of the longest episode
    megabytes: float
    origin: str  # such as "built in", "collected here", "downloaded"; "" when absent


def list_datasets() -> list[Listed]:
    """All known datasets and those found in the data home, with their size and origin.

    Of files that are here the line says what they hold. One that cannot be read has a line that says so.
    """
    files = {path.stem: path for path in sorted((home() / "data").glob("*.npz"))}
    twins = {f"{id}-val" for id in files}
    known = [_found(id, files[id]) if id in files else _absent(spec) for id, spec in SPECS.items()]
    return known + [_found(id, path) for id, path in files.items() if id not in SPECS and id not in twins]


def _absent(spec: DatasetSpec) -> Listed:
    """A dataset that is not here, as it is published."""
    if (collection := spec.collection) is None:
        return Listed(spec.id, toy.EPISODES, spec.episode_states, 0.2, "built in")
    size = collection.row_bytes * collection.states * collection.episodes / 1e6
    return Listed(spec.id, collection.episodes, collection.states, size, "")


def _found(id: str, path: Path) -> Listed:
    """A file of the data home, as it is."""
    size = path.stat().st_size / 1e6
    try:
        lengths = formats.read_lengths(path)
        record = download_record(path)
        meta = Meta(provenance=(record,)) if record else formats.read_meta(path)
    except BadInput as error:
        return Listed(id, None, None, size, f"unreadable: {str(error).removeprefix(f'{path}: ')}")
    return Listed(id, len(lengths), int(lengths.max()), size, _origin(id, meta, len(lengths)))


def _origin(id: str, meta: Meta, episodes: int) -> str:
    """Where a file comes from, and how it is not the dataset that its name says, if it is not."""
    words = [str(meta.provenance[-1].get("origin"))] if meta.provenance else ["unknown origin"]
    if meta.maze:
        words.append("own maze")
    collection = SPECS[id].collection if id in SPECS else None
    if collection and episodes != collection.episodes:
        words.append(f"{episodes:,} of {collection.episodes:,} episodes")
    return ", ".join(words)
