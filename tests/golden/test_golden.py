"""Values recorded once. A change here is a change of behaviour: `make golden` records it, the commit says why.

Each model is built from a fixed seed and given one fixed batch: its loss, the size of its gradient, and what it gives
for fixed inputs.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scots.agents.crl import CRL, CRLConfig
from scots.agents.gciql import GCIQL, GCIQLConfig
from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.augmenters.refinement import InverseDynamics, InverseDynamicsConfig, Stitcher, StitcherConfig
from scots.datasets import toy
from scots.planners.hd import HierarchicalDiffuser, HierarchicalDiffuserConfig, LevelConfig

PATH = Path(__file__).with_name("golden.json")
DATA = toy.make(episodes=10)
LEVEL = LevelConfig(width=16, depth=2, head_width=8)
CONDITIONED = replace(LEVEL, frequencies=2)
CASES = {
    "expectile embedding": (TemporalDistance, TemporalDistanceConfig(hidden=(16, 16), latent=4)),
    "constrained embedding": (TemporalDistance, TemporalDistanceConfig(form="constrained", hidden=(16, 16), latent=4)),
    "stitcher": (Stitcher, StitcherConfig(width=16, depth=2, head_width=8)),
    "chord stitcher": (Stitcher, StitcherConfig(width=16, depth=2, head_width=8, frame="chord")),
    "inverse dynamics": (InverseDynamics, InverseDynamicsConfig(hidden=(16, 16), dropout=0.0)),
    "gciql": (GCIQL, GCIQLConfig(hidden=(16, 16))),
    "crl": (CRL, CRLConfig(hidden=(16, 16))),
    "hd": (HierarchicalDiffuser, HierarchicalDiffuserConfig(waypoints=5, stride=8, high=LEVEL, low=LEVEL)),
    "chord hd": (
        HierarchicalDiffuser,
        HierarchicalDiffuserConfig(waypoints=5, stride=8, high=CONDITIONED, low=replace(CONDITIONED, frame="chord")),
    ),
}


def outputs(model: Any) -> np.ndarray:
    if isinstance(model, TemporalDistance):
        return model.encode(DATA.observations[:3])
    if isinstance(model, InverseDynamics):
        return model.label(DATA.observations[:3], DATA.observations[[1, 2, 2]])[None]
    if isinstance(model, GCIQL | CRL):
        return model.act(DATA.observations[:3], DATA.observations[20:23], np.random.default_rng(0))
    if isinstance(model, HierarchicalDiffuser):
        return drawn_by(model)[:, 6:10]
    return model.refine(DATA.observations[None, [0, 8]], torch.Generator().manual_seed(0))


def drawn_by(model: HierarchicalDiffuser) -> np.ndarray:
    """A dense plan (1, T, P): waypoints by the first level, and the second level in each gap."""
    rng = np.random.default_rng(0)
    high, low = model.bridges
    waypoints = high.draw(DATA.observations[[0, 20]][None], rng.spawn(1))[0]
    gaps = np.stack([waypoints[:-1], waypoints[1:]], axis=1)
    between = low.draw(gaps, rng.spawn(1)[0].spawn(len(gaps)))
    return np.concatenate([*between[:, :-1], waypoints[-1:]])[None]


def record(case: str) -> dict[str, Any]:
    kind, config = CASES[case]
    torch.manual_seed(0)
    model = kind.for_data(config, DATA, **({"tokens": 9, "context": 1} if kind is Stitcher else {}))
    for parameter in model.parameters():  # layers that start at zero would hide most of the network
        if parameter.abs().max() == 0:
            torch.nn.init.normal_(parameter, std=0.1)
    batch = model.batch(DATA, 32, np.random.default_rng(0))
    loss, _ = model.loss(batch, torch.Generator().manual_seed(0))
    loss.backward()
    gradient = sum(p.grad.square().sum().item() for p in model.parameters() if p.grad is not None) ** 0.5
    return {"loss": loss.item(), "gradient": gradient, "output": outputs(model).reshape(-1)[:8].tolist()}


@pytest.mark.parametrize("case", CASES)
def test_recorded_values_still_hold(case: str):
    expected, found = json.loads(PATH.read_text())[case], record(case)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    PATH.write_text(json.dumps({case: record(case) for case in CASES}, indent=1) + "\n")
    sys.exit(0)
