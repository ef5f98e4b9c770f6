"""Inspection of data whose statistics are known."""

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.data.inspection import inspect, position_columns
from scots.data.trajectories import Meta, Trajectories


def line(columns: tuple[str, ...] = ("x", "y", "flag"), **fields) -> Trajectories:
    """Two episodes of 30 and 10 states that move 0.5 along x per step."""
    x = np.concatenate([np.arange(30), np.arange(10)]) * 0.5
    observations = np.stack([x, np.zeros(40), np.ones(40)], axis=1)
    return Trajectories(observations, [0, 30, 40], meta=Meta(columns=columns), **fields)


def test_statistics_of_a_straight_line():
    facts = inspect(line()).facts
    assert (facts["episodes"], facts["rows"], facts["transitions"]) == (2, 40, 38)
    assert facts["step length"]["median"] == pytest.approx(0.5)
    assert facts["position extent"][0] == [0, 14.5]
    assert facts["constant columns"] == ["y", "flag"]
    assert facts["displacement over 26 states"]["min"] == pytest.approx(12.5)
    assert facts["idle steps"] == 0


def test_warnings_name_the_problem():
    times = np.arange(40.0)
    times[5:] += 10
    observations = line().observations.copy()
    observations[17, 2] = np.nan
    broken = Trajectories(observations, [0, 30, 40], times=times)
    text = " | ".join(inspect(broken).warnings)
    assert "observations: row 17 is the first of 1" in text
    assert "assumed" in text
    assert "1 of 2 episodes are shorter" in text
    assert "no actions" in text


def test_columns_that_only_tell_episodes_apart_give_a_warning_with_the_flag():
    """Such as a ship's type and length: they are constant in every episode and not over the file."""
    rng = np.random.default_rng(0)
    ships = np.concatenate([rng.normal(size=(12, 2)), np.repeat([[70, 120.5], [80, 40], [70, 90]], 4, axis=0)], axis=1)
    columns = ("x", "y", "VesselType", "Length")
    data = Trajectories(ships, [0, 4, 8, 12], meta=Meta(columns=columns, position=(0, 1)))
    [warning] = [text for text in inspect(data, horizon=3).warnings if "never change within" in text]
    assert warning.endswith("--ignore VesselType,Length")
    assert not [text for text in inspect(data[:1], horizon=3).warnings if "never change within" in text]
    [constant] = [text for text in inspect(data[:1], horizon=3).warnings if "carry no information" in text]
    assert constant.endswith("--ignore VesselType,Length")
    nameless = data.with_meta(columns=())
    assert any(text.endswith("--ignore 2,3") for text in inspect(nameless, horizon=3).warnings)


def test_uneven_and_backward_time_give_warnings():
    rng = np.random.default_rng(0)
    uneven = inspect(line(times=np.cumsum(rng.uniform(0.1, 1, size=40)))).warnings
    assert any("vary by more than half" in warning for warning in uneven)
    backward = inspect(line(times=-np.arange(40.0))).warnings
    assert any("does not increase" in warning for warning in backward)
    even = inspect(line(times=np.arange(40) * 0.1)).warnings
    assert not any("time" in warning for warning in even)


def test_offsets_too_large_for_float32_give_a_warning():
    data = line()
    far = Trajectories(data.observations + np.float32(4e6), data.offsets)
    assert any("float32" in warning for warning in inspect(far).warnings)


def test_position_is_requested_declared_named_or_guessed():
    assert position_columns(line(), "flag,0") == ((2, 0), False)
    assert position_columns(line(("a", "pos_x", "pos_y"))) == ((1, 2), False)
    assert position_columns(line(("northing", "Easting", "c"))) == ((1, 0), False)
    assert position_columns(line(("a", "b", "c"))) == ((0, 1), True)
    assert position_columns(line().with_meta(position=(2, 1))) == ((2, 1), False)
    for unknown in ("x,z", "7"):
        with pytest.raises(BadInput, match="no observation column"):
            position_columns(line(), unknown)
