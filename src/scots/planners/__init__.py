"""Planners: one file each, one line each in `PLANNERS`. They plan positions, not actions."""

from __future__ import annotations

from scots.planners.base import PlannerModel
from scots.planners.cd import CompositionalDiffuser
from scots.planners.gsc import GenerativeSkillChaining
from scots.planners.hd import HierarchicalDiffuser

PLANNERS: dict[str, type[PlannerModel]] = {
    planner.name: planner for planner in (HierarchicalDiffuser, CompositionalDiffuser, GenerativeSkillChaining)
}
