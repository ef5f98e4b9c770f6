"""Pictures of numbers that were measured elsewhere: each is written whole and is a picture."""

from pathlib import Path

import numpy as np

from scots.reporting.metrics import Calibration, Distribution, Dynamics
from scots.reporting.plots import calibration_figure, dynamics_figure


def test_pictures_of_dynamics_and_calibration(tmp_path: Path):
    rng = np.random.default_rng(0)
    large, small, none = (
        Distribution.of(values) for values in (10 ** rng.normal(size=50), np.full(9, 1e-9), np.zeros(9))
    )
    dynamics_figure(Dynamics(large, small, small, none, None), tmp_path / "dynamics.png")
    dynamics_figure(Dynamics(large, small, small, none, large), tmp_path / "labelled.png")
    curve = ((1.0, 2.0), (3.0, 4.0), (2.0, 3.0), (4.0, 5.0))
    calibration_figure(Calibration(100, 0.9, 0.8, *curve), tmp_path / "calibration.png")
    calibration_figure(Calibration(100, None, None, *curve), tmp_path / "flat.png")
    for name in ("dynamics", "labelled", "calibration", "flat"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
