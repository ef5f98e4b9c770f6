"""Networks: shapes, initialisation, and the properties that others rely on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scots.data.trajectories import Normalizer
from scots.models.nets import DiT1d, Scale, feature_sizes, mlp, sinusoid


def test_dit_outputs_zero_at_initialisation():
    net = DiT1d(columns=3, width=32, depth=2, head_width=8, tokens=7)
    assert net(torch.randn(4, 7, 3), torch.rand(4)).abs().max() == 0


def trained_like(tokens: int = 7) -> DiT1d:
    """A DiT1d whose zero-initialised layers are filled, so that everything has an effect."""
    torch.manual_seed(0)
    net = DiT1d(columns=3, width=32, depth=2, head_width=8, tokens=tokens)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return net


def test_dit_tells_positions_and_times_apart():
    net = trained_like()
    sequence = torch.ones(1, 7, 3)
    early, late = net(sequence, torch.tensor([0.1])), net(sequence, torch.tensor([0.9]))
    assert (early - late).abs().max() > 1e-3
    flat = early[0]
    gaps = torch.cdist(flat, flat) + torch.eye(7)
    assert gaps.min() > 1e-4  # equal inputs at different times of the sequence give different outputs


def test_dit_rows_of_a_batch_do_not_mix():
    net = trained_like()
    sequence, time = torch.randn(5, 7, 3), torch.rand(5)
    whole = net(sequence, time)
    single = torch.cat([net(sequence[n : n + 1], time[n : n + 1]) for n in range(5)])
    torch.testing.assert_close(whole, single, rtol=1e-4, atol=1e-5)


def test_attention_matches_the_formula():
    block = trained_like().blocks[0]
    hidden = torch.randn(2, 7, 32)
    query, key, value = block.query_key_value(hidden).chunk(3, dim=-1)
    heads = []
    for n in range(block.heads):
        part = slice(8 * n, 8 * n + 8)
        weight = torch.softmax(query[..., part] @ key[..., part].transpose(1, 2) / 8**0.5, dim=-1)
        heads.append(weight @ value[..., part])
    torch.testing.assert_close(block._attend(hidden), block.attended(torch.cat(heads, dim=-1)), rtol=1e-4, atol=1e-5)


def test_paper_size_of_the_dit():
    count = sum(p.numel() for p in DiT1d(29, 256, 8, 32, 26).parameters())
    assert 9.3e6 < count < 10.1e6  # the reference has 9.73 M with another time embedding


def test_positions_all_differ():
    code = sinusoid(torch.arange(2001), 64)
    assert torch.pdist(code).min() > 0.05


def test_mlp_order_and_initialisation():
    net = mlp([2, 8, 8, 3])
    assert [type(layer).__name__ for layer in net] == [
        "Linear",
        "GELU",
        "LayerNorm",
        "Linear",
        "GELU",
        "LayerNorm",
        "Linear",
    ]
    assert all(layer.bias.abs().max() == 0 for layer in net if isinstance(layer, torch.nn.Linear))
    assert net[0].weight.abs().max() <= (6 / 10) ** 0.5


def test_scale_is_the_normalizer():
    values = np.random.default_rng(0).normal(3, 2, size=(50, 4)).astype(np.float32)
    normalizer, scale = Normalizer.fit(values), Scale(4)
    scale.fit(normalizer)
    tensor = torch.from_numpy(values)
    np.testing.assert_allclose(scale(tensor), normalizer.normalize(values), rtol=1e-6)
    torch.testing.assert_close(scale.inverse(scale(tensor)), tensor)


def test_without_angles_a_scale_stays_as_it_was():
    scale = Scale(3)
    values = torch.randn(5, 3)
    assert list(scale.state_dict()) == ["mean", "std"]
    assert scale.features(values) is values
    assert feature_sizes("observation", 3, ()) == {"observation": 3}


def scale_of(values: np.ndarray, *angles: tuple[int, float]) -> Scale:
    """A scale fitted to values (N, O)."""
    sizes = feature_sizes("observation", values.shape[1], angles)
    scale = Scale(sizes["observation"], sizes.get("angles", 0))
    scale.fit_angles(values, angles)
    scale.fit(Normalizer.fit(scale.array_features(values)))
    return scale


def test_features_are_cosine_in_place_and_sine_at_the_end():
    values = np.array([[5.0, 90.0, 7.0, np.pi], [6.0, 240.0, 8.0, 0.0]], np.float32)
    features = scale_of(values, (1, 360.0), (3, 2 * np.pi)).array_features(values)
    expected = [[5, 0, 7, -1, 1, 0], [6, -0.5, 8, 1, -(0.75**0.5), 0]]
    np.testing.assert_allclose(features, expected, atol=1e-6)


@st.composite
def angular_values(draw: st.DrawFn) -> tuple[np.ndarray, list[tuple[int, float]], list[float]]:
    """Values (N, 4), columns and periods of two angles among them, and the lowest value of each."""
    columns = draw(st.permutations(range(4)))[:2]
    periods = draw(st.lists(st.sampled_from([360.0, 2 * np.pi, 24.0]), min_size=2, max_size=2))
    lowest = [draw(st.sampled_from([0.0, -period / 2])) for period in periods]
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    values = rng.normal(scale=draw(st.sampled_from([1e-2, 1.0, 1e3])), size=(40, 4))
    for column, period, low in zip(columns, periods, lowest, strict=True):
        values[:, column] = rng.uniform(low, low + period, size=40)
        values[:4, column] = low + period * np.array([0, 1e-9, 0.25, 1 - 1e-6])
    return values.astype(np.float32), list(zip(columns, periods, strict=True)), lowest


@given(angular_values())
def test_angles_come_back_as_they_were(drawn: tuple[np.ndarray, list[tuple[int, float]], list[float]]):
    values, angles, lowest = drawn
    scale = scale_of(values, *angles)
    normalised = scale(torch.from_numpy(values))
    np.testing.assert_allclose(normalised.mean(dim=0), 0, atol=1e-3)
    back = scale.inverse(normalised).numpy()
    for (column, period), low in zip(angles, lowest, strict=True):
        found = back[:, column]
        assert found.min() >= np.float32(low)
        assert found.max() < np.float32(low + period)
        gap = (found.astype(np.float64) - values[:, column] + period / 2) % period - period / 2
        np.testing.assert_allclose(gap, 0, atol=2e-6 * period)
        back[:, column] = values[:, column]
    np.testing.assert_allclose(back, values, rtol=1e-3, atol=1e-3 * np.abs(values).max() + 1e-6)


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), st.integers(-3, 3))
def test_whole_turns_change_nothing(values: list[float], turns: int):
    scale = scale_of(np.random.default_rng(0).uniform(0, 360, size=(50, 3)).astype(np.float32), (2, 360.0))
    turned = [values[0], values[1], values[2] + 360 * turns]
    torch.testing.assert_close(scale(torch.tensor(turned)), scale(torch.tensor(values)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("recorded", "given", "back"),
    [([0, 350], -90, 270), ([0, 350], 360, 0), ([-170, 170], 270, -90), ([-170, 170], 180, -180), ([1, 2], -1e-6, 0)],
)
def test_angles_are_given_back_in_the_range_of_the_data(recorded: list[float], given: float, back: float):
    scale = scale_of(np.array(recorded, np.float32)[:, None], (0, 360.0))
    scale.fit(Normalizer(np.zeros(2, np.float32), np.ones(2, np.float32)))
    found = scale.inverse(scale(torch.tensor([[float(given)]])))
    assert found.item() == pytest.approx(back, abs=1e-4)


def test_features_of_any_length_are_an_angle():
    """What a network draws need not lie on the circle."""
    scale = Scale(2, angles=1)
    scale.fit_angles(np.array([[10.0], [200.0]]), ((0, 360.0),))
    radius = torch.tensor([0.01, 1.0, 3.0])[:, None]
    drawn = radius * torch.tensor([np.cos(2.0), np.sin(2.0)], dtype=torch.float32)
    np.testing.assert_allclose(scale.inverse(drawn)[:, 0], np.degrees(2.0), rtol=1e-5)


def test_a_scale_with_angles_survives_its_state():
    values = np.random.default_rng(0).uniform(-3, 3, size=(50, 3)).astype(np.float32)
    fitted, loaded = scale_of(values, (1, 2 * np.pi)), Scale(4, angles=1)
    loaded.load_state_dict(fitted.state_dict())
    features = torch.randn(20, 4)
    assert torch.equal(loaded.inverse(features), fitted.inverse(features))
    assert torch.equal(loaded(torch.from_numpy(values)), fitted(torch.from_numpy(values)))
