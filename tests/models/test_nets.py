"""Networks: shapes, initialisation, and the properties that others rely on."""

import numpy as np
import torch

from scots.data.trajectories import Normalizer
from scots.models.nets import DiT1d, Scale, mlp, sinusoid


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
    code = sinusoid(2001, 64)
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
