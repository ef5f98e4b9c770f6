"""Which planner to take, as far as rows tell: the shortest path over the recorded support, or one that was trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scots.datasets.specs import SPECS
from scots.experiments.tables import TABLES
from scots.reporting.cells import rows_of
from scots.reporting.document import Paragraph
from scots.reporting.intervals import SuccessRate, success_rate
from scots.reporting.rows import Row

_RULE = """Which planner to take: the shortest path over the recorded support first. It takes seconds, learns nothing
and needs no stitched data, wherever a position of two or three columns is the whole state, as in point mazes. It knows
nothing of what a body can do at a position, and it cannot be built where states have none, such as latents of LiDAR
scans. Nor does it make data for an agent that acts alone."""


@dataclass(frozen=True)
class _Comparison:
    """What the recorded support and SCoTS reach on a dataset; of SCoTS only the published number where not measured."""

    dataset: str
    support: SuccessRate
    scots: SuccessRate | None
    published: str | None

    def __str__(self) -> str:
        if self.scots:
            return f"{self.dataset} ({self.support} against {self.scots})"
        return f"{self.dataset} ({self.support}; published {self.published})"


def advice(rows: Sequence[Row]) -> Paragraph:
    """The rule, and on which datasets our rows bear it out."""
    found, sentences = list(_comparisons(rows)), [_RULE]
    measured = [own for own in found if own.scots]
    groups = {
        "It wins or ties with SCoTS (one plan, same agent)": [own for own in measured if not _falls_short(own)],
        "It falls short of SCoTS (one plan, same agent)": [own for own in measured if _falls_short(own)],
        "Beside the published SCoTS, where none of ours was measured": [
            own for own in found if not own.scots and own.published
        ],
    }
    sentences += [f"{words}: {', '.join(map(str, own))}." for words, own in groups.items() if own]
    return Paragraph(" ".join(sentences))


def _falls_short(comparison: _Comparison) -> bool:
    """Whether the intervals lie apart, with that of SCoTS above."""
    return comparison.scots is not None and comparison.support.high < comparison.scots.low


def _comparisons(rows: Sequence[Row]) -> Iterator[_Comparison]:
    """At the largest step limit, every dataset on which the recorded support was measured."""
    baselines, planning = TABLES["without_diffusion"], TABLES["planning"]
    for dataset in baselines.published:
        limit = SPECS[dataset].step_limits[-1]
        support = rows_of(baselines, "recorded support", dataset, rows, limit)
        scots = rows_of(planning, "SCoTS", dataset, rows, limit)
        if support:
            published = planning.published.get(dataset, {}).get("SCoTS")
            yield _Comparison(dataset, success_rate(support), success_rate(scots) if scots else None, published)
