"""Planners: one file each, one line each in `PLANNERS`. Most plan positions; those that plan actions act alone."""

from __future__ import annotations

from scots.planners.base import PlannerModel
from scots.planners.cd import CompositionalDiffuser
from scots.planners.diffuser import Diffuser
from scots.planners.gsc import GenerativeSkillChaining
from scots.planners.hd import HierarchicalDiffuser
from scots.planners.shortest_path import LandmarkPath, OraclePath, SupportPath

PLANNERS: dict[str, type[PlannerModel]] = {
    planner.name: planner
    for planner in (
        HierarchicalDiffuser,
        CompositionalDiffuser,
        GenerativeSkillChaining,
        Diffuser,
        SupportPath,
        LandmarkPath,
        OraclePath,
    )
}
