"""The temporal U-Net and its encoder: shapes, published sizes, what they are told, and how far they see."""

import pytest
import torch
from torch import Tensor, nn

from scots.models.unet import Mish, ResidualBlock, SequenceEncoder, TemporalUnet, TimeSinusoid


def small(**options: int) -> TemporalUnet:
    torch.manual_seed(0)
    return TemporalUnet(3, 8, (1, 2, 4), (8, 16, 8), **options).eval()


@pytest.mark.parametrize("tokens", [4, 8, 20])
def test_sequences_keep_their_shape(tokens: int):
    network = small(context=2, condition=5)
    output = network(torch.randn(6, tokens, 3), torch.rand(6), torch.randn(6, tokens, 2), torch.randn(6, 5))
    assert output.shape == (6, tokens, 3)
    assert torch.isfinite(output).all()


def test_every_input_counts_and_every_weight_learns():
    network = small(context=2, condition=5, condition_hidden=12)
    inputs = torch.randn(4, 8, 3), torch.rand(4), torch.randn(4, 8, 2), torch.randn(4, 5)
    for value in inputs:
        value.requires_grad_()
    network(*inputs).square().sum().backward()
    assert all(value.grad is not None and value.grad.abs().max() > 0 for value in inputs)
    unused = {name for name, weight in network.named_parameters() if weight.grad is None}
    assert unused == set()


def test_a_bypass_leads_what_is_normalised_away_to_the_output():
    """Two numbers of one group that are normalised tell only which is larger; past the norm they keep their size."""
    with_bypass, without = small(bypass=True), small()
    without.load_state_dict(with_bypass.state_dict(), strict=False)
    sequence, time = torch.randn(5, 8, 3), torch.rand(5)
    seen = []
    with_bypass.final.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    gained = with_bypass(sequence, time) - without(sequence, time)
    torch.testing.assert_close(gained, with_bypass.bypass(seen[0]).mT, rtol=1e-4, atol=1e-5)
    two = 3 + torch.rand(100, 2, 1)
    spread = nn.functional.group_norm(two, 1).std(dim=0)
    torch.testing.assert_close(spread, torch.ones_like(spread), rtol=0.02, atol=0)
    assert without.bypass is None


def test_rows_of_a_batch_do_not_mix():
    network, sequence, time = small(), torch.randn(5, 8, 3), torch.rand(5)
    with torch.inference_mode():
        together = network(sequence, time)
        for n in range(5):
            alone = network(sequence[n : n + 1], time[n : n + 1])
            torch.testing.assert_close(alone[0], together[n], rtol=1e-4, atol=1e-5)


def test_the_activation_and_its_slope_are_those_of_torch():
    """Also where e^x is beyond float32, where its square is, and where it vanishes."""
    inputs = torch.cat([torch.linspace(-20, 20, 2001), torch.tensor([-1e4, -100.0, 43.0, 45.0, 88.0, 100.0, 1e4])])
    weights, found = torch.randn(len(inputs)), []
    for activation in (Mish(), nn.Mish()):
        variable = inputs.clone().requires_grad_()
        outputs = activation(variable)
        (outputs * weights).sum().backward()
        found.append((outputs, variable.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=2e-6)


def test_a_time_that_all_share_may_be_given_once():
    sequence, time = torch.randn(5, 8, 3), torch.tensor([0.3])
    encoder = SequenceEncoder(3, 8, 8, (1, 2), (8, 16, 8), features=10)
    with torch.inference_mode():
        for network in (small(bypass=True), encoder):
            torch.testing.assert_close(network(sequence, time), network(sequence, time.expand(5)), rtol=1e-4, atol=1e-5)


def test_the_deepest_level_joins_both_ends():
    """The gradient of the last step with respect to the first is not zero, twenty steps away."""
    sequence = torch.randn(1, 20, 3, requires_grad=True)
    small()(sequence, torch.rand(1))[0, -1].sum().backward()
    assert sequence.grad is not None
    assert sequence.grad[0, 0].abs().max() > 0


def test_a_block_adds_what_it_is_told_between_its_convolutions():
    torch.manual_seed(0)
    block = ResidualBlock(8, 16, 4, 0, 5)
    hidden, told = torch.randn(2, 8, 6), torch.randn(2, 4)
    inner = block.first(hidden) + block.told[1](nn.functional.mish(told))[..., None]
    torch.testing.assert_close(block(hidden, told), block.second(inner) + block.shortcut(hidden))
    assert isinstance(ResidualBlock(8, 8, 4, 0, 5).shortcut, nn.Identity)


def naive_time(time: Tensor, width: int) -> Tensor:
    frequency = [10_000 ** (-n / (width // 2 - 1)) for n in range(width // 2)]
    rows = [[1000 * t * own for own in frequency] for t in time.tolist()]
    return torch.cat([torch.tensor(rows).sin(), torch.tensor(rows).cos()], dim=1)


def test_times_are_sines_and_cosines_before_their_layers():
    embedding, time = TimeSinusoid((8, 16, 4)), torch.tensor([0.0, 0.3, 1.0])
    torch.testing.assert_close(embedding(time), embedding.layers(naive_time(time, 8)), rtol=1e-3, atol=1e-3)
    assert [type(layer).__name__ for layer in embedding.layers] == ["Linear", "Mish", "Linear"]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("tokens", [3, 7, 56])
def test_an_encoder_makes_features_of_any_length(tokens: int, deep: bool):
    encoder = SequenceEncoder(2, tokens, 8, (1, 2, 3, 4), (8, 16, 8), features=10, deep=deep)
    assert encoder(torch.randn(5, tokens, 2), torch.rand(5)).shape == (5, 10)


def block_weights(inputs: int, outputs: int, told: int) -> int:
    convolutions = 5 * (inputs + outputs) * outputs + 2 * outputs
    norms, shortcut = 4 * outputs, (inputs + 1) * outputs if inputs != outputs else 0
    return convolutions + norms + (told + 1) * outputs + shortcut


def test_the_network_of_diffuser_has_the_published_size():
    """For locomotion: 14 columns, widths 32 to 256, a time embedding of 32-128-32. Counted layer by layer."""
    network, widths = TemporalUnet(14, 32, (1, 2, 4, 8), (32, 128, 32)), (32, 64, 128, 256)
    down = [(14, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256)]
    middle, up = [(256, 256)] * 2, [(512, 128), (128, 128), (256, 64), (64, 64), (128, 32), (32, 32)]
    expected = sum(block_weights(*sizes, told=32) for sizes in (*down, *middle, *up))
    expected += sum(3 * width * width + width for width in widths[:-1])  # halving the length
    expected += sum(4 * width * width + width for width in widths[:-1])  # doubling it
    expected += 33 * 128 + 129 * 32  # time
    expected += (5 * 32 * 32 + 32 + 64) + 33 * 14  # the last convolutions
    assert sum(weight.numel() for weight in network.parameters()) == expected


def test_the_overlap_encoder_of_compositional_diffuser_has_the_published_size():
    """56 positions, widths 32 to 128, a time embedding of 32-128-32, an MLP of 896-1280-512-256. Layer by layer."""
    encoder = SequenceEncoder(2, 56, 32, (1, 2, 3, 4), (32, 128, 32), features=256, deep=True)
    down = [(2, 32), (32, 32), (32, 64), (64, 64), (64, 96), (96, 96), (96, 128), (128, 128)]
    expected = sum(block_weights(*sizes, told=32) for sizes in (*down, (128, 128), (128, 128)))
    expected += sum(3 * width * width + width for width in (32, 64, 96))  # halving the length
    expected += 33 * 128 + 129 * 32  # time
    expected += 3 * 128 * 128 + 3 * 128 + 129 * 128  # the last convolutions
    expected += 897 * 1280 + 1281 * 512 + 513 * 256
    assert sum(weight.numel() for weight in encoder.parameters()) == expected
