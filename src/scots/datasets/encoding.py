"""From logs with scans to states: the scan encoder is trained on the logs, kept in the cache, and travels with models.

A state is the latents of the scan, and the columns that are kept. Data of states says in its provenance which encoder
made it, so that whatever learns from it finds the encoder, saves it in its own folder, and acts with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from scots.core.errors import BadInput
from scots.core.files import write_text
from scots.core.locks import locked
from scots.core.versions import package_versions
from scots.data import formats
from scots.data.scans import ENCODED, ScanColumns, encoding_step
from scots.data.shards import Make, validation_path
from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets.collect import CollectionJob, collect, collection_job
from scots.datasets.loading import data_path
from scots.datasets.protocols import EncodedScans
from scots.datasets.specs import SPECS
from scots.models.cache import artifact_folder, is_trained, key_of, model_folder, record_time, train
from scots.models.scan_encoder import ScanEncoder, ScanEncoderConfig

SMOKE: dict[str, Any] = {"training.steps": 40, "training.batch_size": 16, "training.warmup": 5}
"""Settings of an encoder that only has to run, not to be good."""

_SEED = 0  # of the encoder, which is a given part of the state: no result is to depend on a choice of it
_COLUMNS_FILE = "columns.json"


@dataclass(frozen=True, eq=False)
class StateEncoding:
    """A trained scan encoder, and the columns that it goes with."""

    encoder: ScanEncoder
    columns: ScanColumns

    def encode(self, observations: Array) -> Array:
        """What a robot logs (N, O) -> states (N, Z + kept)."""
        return self.states(self.columns.scans(observations), self.columns.others(observations))

    def states(self, scans: Array, kept: Array) -> Array:
        """Scans (N, R) and the columns that are kept beside them (N, kept) -> states (N, Z + kept)."""
        return np.concatenate([self.encoder.encode(scans), kept], axis=1).astype(np.float32)

    def encode_data(self, data: Trajectories, provenance: tuple[dict[str, Any], ...]) -> Trajectories:
        """Logs as states, with the same episodes and actions; where the position is known, `qpos` keeps it."""
        meta = self.columns.state_meta(data.meta, self.encoder.config.latent)
        qpos = data.positions if data.meta.position else None
        states = self.encode(data.observations)
        return replace(data, observations=states, qpos=qpos, meta=replace(meta, provenance=provenance))

    def save(self, folder: Path) -> None:
        """Write both into a folder; the columns are written last."""
        self.encoder.save(folder)
        write_text(folder / _COLUMNS_FILE, self.columns.to_json())

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        path = folder / _COLUMNS_FILE
        if not path.exists():
            raise BadInput(f"{folder}: the encoder of the scans is not there; train the model again with `scots train`")
        return cls(ScanEncoder.load(folder), ScanColumns.from_json(path.read_text()))

    @classmethod
    def behind(cls, meta: Meta) -> Self | None:
        """The encoding that made the states of a dataset, from the cache; None for data without scans."""
        step = encoding_step(meta)
        if step is None:
            return None
        folder = artifact_folder("scanencoder", step["encoder"])
        if not is_trained(folder):
            raise BadInput(f"{folder}: the encoder of this data's scans is not in the cache; run `{step['command']}`")
        return cls(ScanEncoder.load(folder), ScanColumns.from_dict(step["columns"]))


def _provenance(config: ScanEncoderConfig, columns: ScanColumns, folder: Path, command: str) -> dict[str, Any]:
    """How scans were encoded."""
    return {
        "origin": ENCODED,
        "encoder": folder.name.partition("-")[2],
        "config": config.to_dict(),
        "columns": columns.to_dict(),
        "command": command,  # that makes the encoder where the cache has none
        "versions": package_versions("torch"),
    }


def train_scan_encoder(
    data: Trajectories, config: ScanEncoderConfig, columns: ScanColumns, folder: Path
) -> ScanEncoder:
    """The scan encoder of these settings in a folder; if need be, trained there on the scans of the data."""
    with locked(folder):
        if is_trained(folder):
            return ScanEncoder.load(folder)
        with record_time(folder):
            return train(ScanEncoder, config, data, _SEED, folder, "scan encoder", sizes=columns.sizes)


def encoder_folder(config: ScanEncoderConfig, columns: ScanColumns, data_key: str) -> Path:
    """Where the scan encoder of these settings is or will be, for data of this key."""
    return model_folder(ScanEncoder, config, data_key, _SEED, columns.sizes)


def encode_logs(
    data: Trajectories,
    scan: str,
    kept: tuple[str, ...] = (),
    changes: Mapping[str, Any] | None = None,
) -> Trajectories:
    """Logs of one's own as states: the columns SCAN_0, SCAN_1, ... as latents, beside those that are kept.

    `changes` are settings of the encoder by dotted path, such as `{"geometry.first_angle": 0.0}`.
    """
    columns, config = ScanColumns.named(data.meta, scan, kept), ScanEncoderConfig().replace_all(changes or {})
    _check_finite(data, columns)
    folder = encoder_folder(config, columns, data.fingerprint())
    encoding = StateEncoding(train_scan_encoder(data, config, columns, folder), columns)
    step = _provenance(config, columns, folder, "scots data encode")
    return encoding.encode_data(data, (*data.meta.provenance, step))


def _check_finite(data: Trajectories, columns: ScanColumns) -> None:
    """Ranges may be infinite, as ROS writes rays that meet nothing; what is kept may not."""
    kept = data.observations[:, list(columns.kept)]
    rows, which = np.nonzero(~np.isfinite(kept))
    if len(rows):
        name = data.meta.columns[columns.kept[which[0]]]
        raise BadInput(f"column {name!r}, row {rows[0]}: {kept[rows[0], which[0]]} is not a finite number")


# ------------------------------------------------------------------------------------------------- known datasets


@dataclass(frozen=True)
class EncodingJob(CollectionJob):
    """Everything that decides the bytes of a dataset of encoded scans; the logs are a collection of their own."""

    spec: EncodedScans

    verb: ClassVar[str] = "encoding"

    def described(self, validation: bool) -> Meta:
        """The meta of the file: how the logs were collected and how their scans were encoded."""
        meta = super().described(validation)
        step = _provenance(self._config, self.spec.columns, self._encoder_folder, f"scots data collect {self.spec.id}")
        return replace(meta, provenance=(*meta.provenance, step))

    def prepare(self, workers: int | None) -> None:
        """Collect the logs and train the encoder on them, unless both are there."""
        path = self._logs_path
        if not self._logs.is_done(path):
            collect(self.spec.logs, path, workers=workers, seed=self.seed)
        train_scan_encoder(formats.read(path), self._config, self.spec.columns, self._encoder_folder)

    def worker(self) -> Make:
        """The logs and the encoder, and a function from episode numbers to their states."""
        path, encoding = self._logs_path, StateEncoding(ScanEncoder.load(self._encoder_folder), self.spec.columns)
        training, validation = formats.read(path), formats.read(validation_path(path))

        def make(run: range) -> dict[str, Array]:
            first = 0 if run.start < self.episodes else self.episodes
            own = (validation if first else training)[run.start - first : run.stop - first]
            states = encoding.encode_data(own, ())
            is_last = np.isin(np.arange(states.rows), states.offsets[1:] - 1)
            return dict(states.arrays()) | {"terminals": is_last}

        return make

    @property
    def _config(self) -> ScanEncoderConfig:
        return ScanEncoderConfig(latent=self.spec.latents).replace_all(self.spec.encoder)

    @property
    def _logs(self) -> CollectionJob:
        return collection_job(self.spec.logs, seed=self.seed)

    @property
    def _logs_key(self) -> str:
        return key_of("data", self._logs.described(validation=False).to_json())

    @property
    def _logs_path(self) -> Path:
        """Where the logs are or will be: a dataset that is known by its id in the data home, others in the cache."""
        known = SPECS.get(self.spec.logs.id)
        if known and known.collection == self.spec.logs and self.seed == 0:
            return data_path(self.spec.logs.id)
        return artifact_folder("logs", self._logs_key) / "logs.npz"

    @property
    def _encoder_folder(self) -> Path:
        return encoder_folder(self._config, self.spec.columns, self._logs_key)
