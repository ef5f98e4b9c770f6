"""The numbers that the paper prints, table by table."""

from __future__ import annotations

Published = dict[str, str]
"""Column -> what the paper prints: mean and deviation over its five seeds."""


def _read(text: str) -> dict[str, Published]:
    """Lines `dataset: a±b a±b ...` under a line of column names."""
    head, *lines = text.strip().splitlines()
    rows = (line.split(":") for line in lines)
    return {dataset.strip(): dict(zip(head.split(), numbers.split(), strict=True)) for dataset, numbers in rows}


PLANNING = _read("""
    GCIQL QRL CRL HIQL GSC CD HD SCoTS
    pointmaze-medium-stitch-v0: 21±9 80±12 0±1  74±6  100±0 100±0 24±3 100±0
    pointmaze-large-stitch-v0:  31±2 84±15 0±0  13±6  100±0 100±0 17±2 100±0
    pointmaze-giant-stitch-v0:  0±0  50±8  0±0  0±0   29±3  68±3  0±0  100±0
    antmaze-medium-stitch-v0:   29±6 59±7  53±6 94±1  97±2  96±2  71±1 97±1
    antmaze-large-stitch-v0:    7±2  18±2  11±2 67±5  66±2  86±2  36±2 93±1
    antmaze-giant-stitch-v0:    0±0  0±0   0±0  2±2   20±1  65±3  0±0  87±2
    antmaze-medium-explore-v0:  13±2 1±1   3±2  37±10 90±2  81±2  42±3 99±1
    antmaze-large-explore-v0:   0±0  0±0   0±0  4±5   21±3  27±1  13±2 98±1
""")

LOCOMOTION = _read("""
    Diffuser Diffuser+SCoTS
    hopper-medium-v2:          74.3±1.4 93.5±1.2
    walker2d-medium-v2:        79.6±0.6 80.2±0.5
    hopper-medium-replay-v2:   93.6±0.4 96.7±0.6
    walker2d-medium-replay-v2: 70.6±1.6 78.5±1.9
""")

REPLANNING = _read("""
    CD-once CD SCoTS-once SCoTS
    pointmaze-medium-stitch-v0: 100±0 100±0 100±0 100±0
    pointmaze-large-stitch-v0:  100±0 100±0 100±0 100±0
    pointmaze-giant-stitch-v0:  53±6  68±3  89±2  100±0
    antmaze-medium-stitch-v0:   92±2  96±2  97±1  97±1
    antmaze-large-stitch-v0:    76±2  86±2  92±2  93±1
    antmaze-giant-stitch-v0:    27±4  65±3  84±2  87±2
""")

GCRL = _read("""
    GCIQL GCIQL+SynthER GCIQL+SCoTS CRL CRL+SynthER CRL+SCoTS HIQL HIQL+SynthER HIQL+SCoTS QRL
    pointmaze-medium-stitch-v0: 21±9 30±3 79±1  0±1  0±0  46±2  74±6  77±4 82±4  80±12
    pointmaze-large-stitch-v0:  31±2 35±4 26±2  0±0  0±0  39±2  13±6  16±3 67±1  84±15
    pointmaze-giant-stitch-v0:  0±0  0±0  0±0   0±0  0±0  18±2  0±0   0±0  27±2  50±8
    antmaze-medium-stitch-v0:   29±6 31±3 35±2  53±6 48±3 65±3  94±1  91±2 94±1  59±7
    antmaze-large-stitch-v0:    7±2  3±4  7±1   11±2 12±2 19±1  67±5  65±3 91±2  18±2
    antmaze-giant-stitch-v0:    0±0  0±0  0±0   0±0  0±0  2±1   2±2   0±0  55±5  0±0
    antmaze-medium-explore-v0:  13±2 12±3 18±3  3±2  3±1  15±3  37±10 45±8 94±1  1±1
    antmaze-large-explore-v0:   0±0  0±0  0±0   0±0  2±1  19±1  4±5   12±3 77±2  0±0
""")
NAVIGATION = _read("""
    HIQL HIQL+SCoTS
    navigation-building-latent-v0: 27±7 53±4
    navigation-building-pose-v0:   27±7 53±4
    navigation-corridor-latent-v0: 0±0  31±5
    navigation-corridor-pose-v0:   0±0  31±5
""")

EMBEDDING = _read("""
    raw-states SCoTS
    pointmaze-large-stitch-v0: 93±0 100±0
    pointmaze-giant-stitch-v0: 52±1 100±0
    antmaze-large-stitch-v0:   45±1 93±1
    antmaze-giant-stitch-v0:   7±2  87±2
""")

REFINEMENT = _read("""
    HD-unrefined HD HIQL-unrefined HIQL
    antmaze-large-stitch-v0: 85±3 93±1 52±2 91±2
    antmaze-giant-stitch-v0: 53±1 87±2 11±2 55±5
""")

NOVELTY = _read("""
    HD beta=0 beta=2 beta=4 beta=8
    antmaze-large-stitch-v0: 36±2 87±2 93±1 92±1 85±3
    antmaze-giant-stitch-v0: 0±0  63±3 87±2 89±2 74±3
""")

SEGMENT = _read("""
    H=26 H=52 H=104
    antmaze-giant-stitch-v0:  87±2 89±2 87±2
    antmaze-large-explore-v0: 98±1 93±1 88±2
""")

NEIGHBOURS = _read("""
    K=3 K=10 K=20
    antmaze-giant-stitch-v0:  65±3 87±2 89±2
    antmaze-large-explore-v0: 72±2 98±1 97±1
""")
