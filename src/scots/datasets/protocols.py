"""How datasets are collected here: what all collections share, and those of the robot with a LiDAR."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.scans import ScanColumns
from scots.data.trajectories import Meta
from scots.envs.maze import Maze
from scots.envs.navigation import COLUMNS, SCAN


@dataclass(frozen=True)
class CollectionSpec(Config, ABC):
    """How a dataset is collected here."""

    episodes: int  # training episodes; the validation twin has a tenth
    states: int  # rows per episode, at most

    origin: ClassVar[str] = "collected here"

    @property
    @abstractmethod
    def id(self) -> str:
        """The dataset id."""

    @property
    @abstractmethod
    def environment(self) -> str:
        """The environment id."""

    @property
    @abstractmethod
    def elsewhere(self) -> str:
        """How the dataset can be had without collecting it, for messages."""

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Bytes of one row on disk."""

    @abstractmethod
    def meta(self, maze: Maze | None = None, provenance: tuple[dict[str, Any], ...] = ()) -> Meta:
        """What is known of the dataset before it is collected; `maze` only for a custom one."""

    def resized(self, episodes: int | None) -> Self:
        """The same with another number of episodes."""
        if episodes is not None and episodes < 1:
            raise BadInput(f"--episodes {episodes}: at least one episode is needed")
        return self if episodes is None else replace(self, episodes=episodes)


@dataclass(frozen=True)
class NavigationCollection(CollectionSpec):
    """What a robot logs that drives short ways, one episode each: scans, poses, odometry, commands."""

    world: str  # the environment id
    distance: tuple[int, int]  # metres along the way from start to goal, at least and at most
    noise: float  # standard deviation added to the commands

    @property
    def id(self) -> str:
        """The dataset id, which is that of the environment."""
        return self.world

    @property
    def environment(self) -> str:
        """The environment id."""
        return self.world

    @property
    def elsewhere(self) -> str:
        """Logs of a real robot."""
        return "give logs of your own robot by their path (docs/own-robot.md)"

    @property
    def row_bytes(self) -> int:
        """Observation and action as float32 and one flag."""
        return 4 * (len(COLUMNS) + 2) + 1

    def meta(self, maze: Maze | None = None, provenance: tuple[dict[str, Any], ...] = ()) -> Meta:
        """What is known of the dataset before it is collected."""
        x, yaw, odometry_yaw = (COLUMNS.index(name) for name in ("x", "yaw", "odometry_yaw"))
        return Meta(
            dataset=self.id,
            environment=self.environment,
            columns=COLUMNS,
            position=(x, x + 1),
            angles=((yaw, 2 * np.pi), (odometry_yaw, 2 * np.pi)),
            provenance=provenance,
        )


@dataclass(frozen=True)
class EncodedScans(CollectionSpec):
    """The same episodes as states: the latents of each scan, and what is kept of the other columns."""

    logs: NavigationCollection
    variant: str  # in the id
    kept: tuple[str, ...] = ()  # columns beside the latents
    latents: int = 8
    encoder: dict[str, Any] = field(default_factory=dict)  # settings of the scan encoder by dotted path, as JSON

    @property
    def id(self) -> str:
        """The dataset id: that of the logs with the variant."""
        return f"{self.logs.id.removesuffix('-v0')}-{self.variant}-v0"

    @property
    def environment(self) -> str:
        """The environment id."""
        return self.logs.environment

    @property
    def elsewhere(self) -> str:
        """Logs of a real robot."""
        return self.logs.elsewhere

    @property
    def row_bytes(self) -> int:
        """State, action and position as float32 and one flag."""
        return 4 * (self.latents + len(self.kept) + 2 + 2) + 1

    @property
    def columns(self) -> ScanColumns:
        """Which columns of the logs make up a state."""
        return ScanColumns.named(self.logs.meta(), SCAN, self.kept)

    def meta(self, maze: Maze | None = None, provenance: tuple[dict[str, Any], ...] = ()) -> Meta:
        """What is known of the dataset before its scans are encoded."""
        states = self.columns.state_meta(self.logs.meta(), self.latents)
        return replace(states, dataset=self.id, provenance=provenance)

    def resized(self, episodes: int | None) -> Self:
        """The same with another number of episodes."""
        return replace(super().resized(episodes), logs=self.logs.resized(episodes))
