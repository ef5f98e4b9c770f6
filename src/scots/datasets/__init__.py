"""Where data comes from: an id, a file or a folder -> `Trajectories`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from scots.core.errors import BadInput
from scots.core.files import home
from scots.data import formats
from scots.data.trajectories import Trajectories
from scots.datasets.download import origin_of
from scots.envs import toy
from scots.envs.ogbench import PROTOCOLS, meta_of


def data_path(dataset: str) -> Path:
    """Where a dataset of this id is kept."""
    return home() / "data" / f"{dataset}.npz"


def known_ids() -> list[str]:
    """Every dataset id, the built-in toy first."""
    return [toy.ID, *PROTOCOLS]


def unknown_dataset(name: str) -> BadInput:
    """The error for a name that is neither an id nor a path, with the nearest ids."""
    near = difflib.get_close_matches(name, known_ids(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `scots data list`"
    return BadInput(f"{name}: no such dataset id, file or folder; {hint}")


def load(data: str | Path, *, finite: bool = True) -> Trajectories:
    """Load a dataset by id, file or folder, in any format. `finite=False` also loads data with NaN or infinity."""
    name = str(data)
    if Path(name).exists():
        return formats.read(Path(name), finite=finite)
    base = name.removesuffix("-val")
    if base == toy.ID:
        return toy.make()
    if data_path(name).exists():
        return _with_origin(formats.read(data_path(name), finite=finite), data_path(name), base)
    if base in PROTOCOLS:
        raise BadInput(f"{name}: not here yet; run `scots data collect {base}` or `scots data download {base}`")
    raise unknown_dataset(name)


def _with_origin(data: Trajectories, path: Path, dataset: str) -> Trajectories:
    """A downloaded file carries no meta of its own: add what its id and its download record say."""
    if data.meta.provenance or not (origin := origin_of(path)):
        return data
    meta = meta_of(PROTOCOLS[dataset], provenance=(origin,)) if dataset in PROTOCOLS else data.meta
    return data.but_meta(**{name: getattr(meta, name) for name in meta.to_dict()})


@dataclass(frozen=True)
class Listed:
    """One line of `scots data list`."""

    id: str
    episodes: int
    states: int
    megabytes: float
    origin: str  # "built in", "collected here", "downloaded", or "" when absent


def list_datasets() -> list[Listed]:
    """All known datasets and those found in the data home, with their size and origin."""
    listed = [Listed(toy.ID, toy.EPISODES, toy.EPISODE_STATES, 0.2, "built in")]
    for id, protocol in PROTOCOLS.items():
        size = protocol.row_bytes * protocol.states * protocol.episodes / 1e6
        listed.append(Listed(id, protocol.episodes, protocol.states, size, _origin(data_path(id))))
    for path in sorted((home() / "data").glob("*.npz")):
        if path.stem.removesuffix("-val") not in known_ids():
            data = formats.read(path)
            size = path.stat().st_size / 1e6
            listed.append(Listed(path.stem, len(data), int(data.lengths.max()), size, _origin(path)))
    return listed


def _origin(path: Path) -> str:
    if not path.exists():
        return ""
    record = origin_of(path) or next(iter(formats.read_meta(path).provenance), {})
    return str(record.get("origin", "unknown origin"))
