"""Occupancy images of scans whose images are known, and which columns of a log are a scan."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.data.scans import ENCODED, PIXELS, ScanColumns, ScanGeometry, has_latent_position
from scots.data.trajectories import Meta

RAYS = 512
META = Meta(columns=("t", *(f"ranges_{n}" for n in range(RAYS)), "x", "y", "yaw"), angles=((RAYS + 3, 2 * math.pi),))


def pixel_distances(pixel: float = 0.25) -> np.ndarray:
    middle = (np.arange(PIXELS) + 0.5 - PIXELS / 2) * pixel
    return np.hypot(*np.meshgrid(middle, middle))


@pytest.mark.parametrize("radius", [0.5, 3.0, 7.9])
def test_equal_ranges_are_a_disc(radius: float):
    [image] = ScanGeometry().occupancy(np.full((1, RAYS), radius, dtype=np.float32))
    np.testing.assert_array_equal(image, pixel_distances() < np.float32(radius))


def test_the_robot_looks_to_the_right_and_left_is_up():
    """Rays ahead are long, rays to the left are longer."""
    angles = -math.pi + 2 * math.pi / RAYS * np.arange(RAYS)
    ranges = np.where(np.abs(angles) < 0.5, 4.0, np.where(np.abs(angles - math.pi / 2) < 0.5, 7.0, 1.0))
    [image] = ScanGeometry().occupancy(ranges[None])
    middle = PIXELS // 2
    assert image[middle, middle:].sum() == 16  # 4 m of 0.25 m
    assert image[middle:, middle].sum() == 28
    assert image[:middle, middle].sum() == 4
    assert image[middle, :middle].sum() == 4


def test_a_scan_that_is_turned_is_an_image_that_is_turned():
    ranges = np.random.default_rng(0).uniform(1, 8, size=(1, RAYS))
    image, turned = (ScanGeometry().occupancy(np.roll(ranges, shift, axis=1))[0] for shift in (0, RAYS // 4))
    assert (np.rot90(image, -1) == turned).mean() > 0.99  # rays on the border between two pixels may be rounded


def test_where_a_scan_begins_and_which_way_it_runs_is_a_setting():
    ranges = np.random.default_rng(0).uniform(1, 8, size=(1, RAYS))
    image = ScanGeometry().occupancy(ranges)
    rolled = ScanGeometry(first_angle=0.0).occupancy(np.roll(ranges, -RAYS // 2, axis=1))
    assert (image == rolled).mean() > 0.99
    clockwise = ScanGeometry(first_angle=math.pi, angle_step=-2 * math.pi / RAYS).occupancy(
        np.roll(ranges[:, ::-1], 1, axis=1)
    )
    assert (image == clockwise).mean() > 0.99


def test_nothing_is_known_beside_a_narrow_field_of_view():
    """270 degrees, as many sensors have: the quarter behind stays 0."""
    rays = 271
    geometry = ScanGeometry(first_angle=math.radians(-135), angle_step=math.radians(1))
    [image] = geometry.occupancy(np.full((1, rays), 100.0))
    middle = PIXELS // 2
    assert image[:, middle:].all()
    assert image[middle, : middle - 1].sum() == 0
    assert image.mean() == pytest.approx(0.75, abs=0.02)


def test_rays_without_a_return_end_nowhere():
    infinite, unknown = np.full((2, 1, RAYS), 2.0)
    infinite[0, :10], unknown[0, :10] = np.inf, np.nan
    [image] = ScanGeometry().occupancy(infinite)
    np.testing.assert_array_equal(ScanGeometry().occupancy(unknown), image[None])
    assert image.sum() > (pixel_distances() < 2).sum()


def test_what_is_too_close_to_measure_is_in_the_way():
    assert not ScanGeometry().occupancy(np.full((1, RAYS), -np.inf)).any()


def test_impossible_geometry_is_refused():
    for wrong in ({"pixel": 0.0}, {"angle_step": 0.0}):
        with pytest.raises(BadInput, match="pixel must be positive and angle_step not zero"):
            ScanGeometry(**wrong)


def test_columns_are_found_by_name():
    columns = ScanColumns.named(META, "ranges", ("x", "y", "yaw"))
    assert (columns.first, columns.rays, columns.kept) == (1, RAYS, (RAYS + 1, RAYS + 2, RAYS + 3))
    observations = np.arange(2 * len(META.columns), dtype=np.float32).reshape(2, -1)
    np.testing.assert_array_equal(columns.scans(observations), observations[:, 1 : RAYS + 1])
    np.testing.assert_array_equal(columns.others(observations), observations[:, RAYS + 1 :])
    meta = columns.state_meta(META, 3)
    assert meta.columns == ("latent_0", "latent_1", "latent_2", "x", "y", "yaw")
    assert meta.position == (3, 4)
    assert meta.angles == ((5, 2 * math.pi),)
    assert ScanColumns.named(META, "ranges").state_meta(META, 3).position == ()


def test_columns_that_are_not_there_are_named():
    with pytest.raises(BadInput, match=r"'scan': found 0 columns scan_0, scan_1, .* name the scan with --scan"):
        ScanColumns.named(META, "scan")
    with pytest.raises(BadInput, match="no column 'heading' to keep; beside the scan there are t, x, y, yaw"):
        ScanColumns.named(META, "ranges", ("heading",))
    with pytest.raises(BadInput, match="have no names"):
        ScanColumns.named(Meta(), "ranges")


def test_latents_are_no_place_on_a_map():
    states = ScanColumns.named(META, "ranges", ("x", "y")).state_meta(META, 3)
    encoded = replace(states, provenance=({"origin": ENCODED},))
    assert not has_latent_position(states)
    assert not has_latent_position(encoded)
    assert has_latent_position(replace(encoded, position=(0, 1)))
    assert has_latent_position(replace(encoded, position=()))
