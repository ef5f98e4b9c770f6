"""What planning costs: calls, plans, seconds and network calls, counted while episodes run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from scots.data.trajectories import Array
from scots.evaluation.action_control import ActionController
from scots.evaluation.control import Controller, SubgoalController

if TYPE_CHECKING:  # types only, as in control
    from scots.planners.base import Plan


@dataclass
class PlanningCost:
    """Totals of an evaluation; filling in counts like planning, except that it makes no new plan."""

    calls: int = 0  # of `plan`, each for many episodes
    plans: int = 0  # that were asked for
    seconds: float = 0.0  # of wall time
    network_calls: int = 0  # forward passes of sampling networks, each for many sequences
    sequences: int = 0  # that those passes denoised by a step

    def to_dict(self) -> dict[str, float]:
        """The totals, or nothing where nothing was planned."""
        return asdict(self) | {"seconds": round(self.seconds, 2)} if self.calls else {}


class MeteredPlanner:
    """A planner that owns another and adds up what it costs."""

    def __init__(self, planner: Any, cost: PlanningCost) -> None:
        """`planner` is a `Planner` or an `ActionPlanner`."""
        self._planner, self._cost = planner, cost

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """The other's plans."""
        self._cost.calls += 1
        self._cost.plans += len(start)
        with self._counting():
            return self._planner.plan(start, goal, seeds)

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Filled in by the other."""
        with self._counting():
            self._planner.fill_in(plans, first, last)

    def replan(
        self, plans: Sequence[Plan], steps: Sequence[int], start: Array, goal: Array | None, seeds: Sequence[int]
    ) -> list[Plan]:
        """The other's plans, after those before."""
        self._cost.calls += 1
        self._cost.plans += len(start)
        with self._counting():
            return self._planner.replan(plans, steps, start, goal, seeds)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Count seconds and the calls of sampling networks, which are EMA copies, wherever the planner keeps them."""
        from torch.nn.modules.module import register_module_forward_pre_hook

        from scots.models.training import EMA

        def count(module: Any, inputs: tuple[Any, ...]) -> None:
            if isinstance(module, EMA):
                self._cost.network_calls += 1
                self._cost.sequences += len(inputs[0])

        begin, hook = time.monotonic(), register_module_forward_pre_hook(count)
        try:
            yield
        finally:
            hook.remove()
            self._cost.seconds += time.monotonic() - begin


@contextmanager
def metered(controller: Controller) -> Iterator[PlanningCost]:
    """Add up what the planner of a controller costs inside the block; zeros for one that does not plan."""
    cost = PlanningCost()
    if not isinstance(controller, SubgoalController | ActionController):
        yield cost
        return
    planner, controller.planner = controller.planner, MeteredPlanner(controller.planner, cost)
    try:
        yield cost
    finally:
        controller.planner = planner
