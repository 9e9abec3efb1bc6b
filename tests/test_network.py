"""The network: a fresh one knows nothing, boards of different sizes keep apart, the copy for playing agrees."""

from contextlib import nullcontext
from unittest.mock import Mock

import pytest
import torch
from implementations import ONLY_TRITON
from interpreting import interpreted

from zerogo import kernels
from zerogo.config import NetworkConfig
from zerogo.network import MaskedNorm, Network, fused, inference_copy, pool

SMALL = NetworkConfig(blocks=3, channels=12, pooling_every=2, pooling_channels=8, head_channels=8, value_hidden=16)
PLANES = 32  # enough for the first convolution to be in tiles


def make_network(settings: NetworkConfig = SMALL, num_globals: int = 2) -> Network:
    """Returns a small network in evaluation mode, with values that matter in every layer and in statistics."""
    torch.manual_seed(3)
    network = Network(settings, PLANES, num_globals, 5)
    with torch.no_grad():
        for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
            if "readout" in name or name.endswith(("bias", "global_bias.weight")):
                tensor.normal_(std=0.3)
            elif "norm.weight" in name or "running_var" in name:
                tensor.uniform_(0.5, 1.5)
            elif "running_mean" in name:
                tensor.normal_(std=0.5)
    return network.eval()


def make_input(batch: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 2, (batch, PLANES, size, size)).float(), torch.randn(batch, 2)


@pytest.mark.parametrize("training", [False, True])
def test_a_fresh_network_knows_nothing(training: bool) -> None:
    torch.manual_seed(1)  # half of all draws leave an ownership above 0.05 somewhere
    outputs = Network(NetworkConfig(blocks=4, channels=32), PLANES, 2, 9).train(training)(*make_input(16, 9))
    assert (outputs["policy"].softmax(-1) * 82 - 1).abs().max() < 0.1
    assert outputs["value"].abs().max() < 0.05 and outputs["ownership"].abs().max() < 0.05


def test_pooling() -> None:
    x, on_board = torch.relu(torch.randn(2, 5, 6, 6)), torch.ones(2, 6, 6, dtype=torch.bool)
    mean, wide = x.mean((2, 3)), torch.relu(torch.randn(2, 32, 6, 6))
    # By area: ((6 - 14)^2 / 100 - 0.1), as in KataGo.
    for by_area, last in ((False, x.amax((2, 3))), (True, mean * (0.64 - 0.1))):
        expected = torch.cat([mean, mean * -0.8, last], dim=1)
        for mask in (None, on_board):
            assert torch.allclose(pool(x, mask, by_area), expected, atol=1e-6)
    assert torch.equal(pool(wide, None)[:, 64:], wide.amax((2, 3)))


TWO_HEADS = NetworkConfig(blocks=2, channels=64, pooling_every=0, heads={"policy": 1.0, "value": 1.0})


@pytest.mark.parametrize("settings", [SMALL, TWO_HEADS])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 3e-4), (torch.bfloat16, 0.15)])
@pytest.mark.parametrize("num_globals", [0, 2])
def test_the_copy_for_playing_agrees(settings, dtype, tolerance: float, num_globals: int, monkeypatch) -> None:
    network = make_network(settings, num_globals)
    given = [part[:, :number] for part, number in zip(make_input(6, 7), (PLANES, num_globals), strict=True)]
    on_board = torch.ones(6, 7, 7, dtype=torch.bool)
    on_board[0, 3:] = on_board[0, :, 3:] = False
    given[0][0] *= on_board[0]
    playing = inference_copy(network, "cpu", dtype)
    for mask in (None, on_board):
        for name, output in playing(*given, mask).items():
            assert output.dtype == torch.float32 and not output.requires_grad
            assert torch.allclose(output, network(*given, mask)[name], tolerance / 10, tolerance), name
    tiled = [layer for layer in playing.network.modules() if getattr(layer, "tiles", None)]
    assert (playing.network.stem in tiled) == bool(tiled) == (settings is TWO_HEADS and dtype == torch.float32)
    for layer, x in zip(tiled[1:], [torch.randn(60, 64, side, side) for side in (7, 8, 9)], strict=False):
        monkeypatch.setattr("zerogo.kernels.cpu.winograd.AT_ONCE", 300_000)  # few boards, in tiles of the same shape
        learner = fused.Conv2d(64, 64, 3, padding=1, bias=False)
        sums = learner(x[:59]), torch.conv2d(x[:59], learner.weight, padding=1)
        one, other = (torch.autograd.grad(y.sum(), learner.weight)[0] for y in sums)
        assert "ConvolutionBackward0" not in str(sums[0].grad_fn) and (one - other).norm() < 1e-4 * other.norm()
        alone, together = layer(x[[3, 32]], None, x[[3, 32]]), layer(x, None, x)
        assert torch.equal(alone, together[[3, 32]]) and (together - (layer.conv(x) + x).relu()).abs().max() < tolerance


@pytest.mark.parametrize("m, k, n", [(8, 7, 64), (13, 20, 32), (24, 9, 48), (3, 9, 32), (9, 5, 40)])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_small_matrices(m: int, k: int, n: int, adds: bool, threads: int, monkeypatch) -> None:
    """Also where the last block of rows overlaps another; rows beyond those of the result are left out."""
    from zerogo.kernels.cpu import products

    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    x, y, result = torch.randn(49, k, m + 1).transpose(1, 2), torch.randn(49, k, n), torch.randn(49, m, n)
    expected = torch.baddbmm(result, x[:, :m], y, beta=float(adds))
    products.multiply_(result, x, y, adds)
    assert torch.allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("number, layout", [(1, torch.contiguous_format), (9, torch.channels_last)])
@pytest.mark.parametrize("far", [0, 300])
def test_normalisation_in_training_by_kernels(number: int, layout, far: int, monkeypatch) -> None:
    """Also of numbers far from 0, in any order of memory; one number that is none spreads over its channel."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    x, residual, gradient = torch.randn(3, number, 32, 7, 7)
    x, results = (x + far).to(memory_format=layout), []
    sums = torch.nn.functional.batch_norm(x, None, None, training=True) + residual
    residual += (sums.abs() < 0.01).float()  # near 0 rounding would decide what the relu cuts
    for context in (nullcontext(), kernels.plain()):
        norm, leaves = MaskedNorm(32), [x.clone().requires_grad_(), residual.clone().requires_grad_()]
        with context:
            norm.momentum = 1.0
            with torch.no_grad():
                norm.norm_and_relu(x, None, None, relu=False)
            first, norm.momentum = norm.running_var.clone(), 0.25
            y = norm.norm_and_relu(leaves[0], None, leaves[1], relu=True)
            gradients = torch.autograd.grad(y, [*leaves, *norm.parameters()], gradient.transpose(2, 3))
            leaves[0].data[0, 3, 1, 1] = torch.nan
            spread = norm.norm_and_relu(leaves[0], None, None, relu=True).isnan().sum((0, 2, 3))
        assert spread.tolist() == [49 * number * (channel == 3) for channel in range(32)]
        results.append([y, first, norm.running_mean[:3], norm.running_var[:3], *gradients])
    assert results[0][0].grad_fn.name() == "FinishedNormBackward"
    for one, other in zip(*results, strict=True):
        assert (one - other).norm() <= 1e-5 * (1 + far) * other.norm() + 1e-6


@interpreted
@ONLY_TRITON
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
def test_what_follows_convolutions_by_kernels(dtype: torch.dtype, tolerance: float, way: str, use, monkeypatch) -> None:
    """One pass behind every convolution does what several do, as does one for what is pooled."""
    network, given = make_network(), make_input(3, 9)  # 2,916 numbers, for three programs
    negative = (torch.randn(2, 40, 3, 3) - 5).to(memory_format=torch.channels_last)
    expected, pooled = inference_copy(network, "cpu", dtype)(*given), pool(negative, None, is_signed=True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    playing = inference_copy(network, "cpu", dtype, ("policy", "value"))
    use(way)
    assert torch.allclose(pool(negative, None, is_signed=True), pooled, atol=1e-5)
    assert all(torch.allclose(out, expected[name], tolerance / 5, tolerance) for name, out in playing(*given).items())


@pytest.mark.parametrize(("size", "dtype"), [(1, torch.float64), (4, torch.float32)])
@pytest.mark.parametrize("is_masked", [False, True])
def test_convolutions_with_relu_by_cudnn(size: int, dtype, is_masked: bool, monkeypatch) -> None:
    """The copy gives them what they expect; here torch stands in for cuDNN."""
    network = make_network()
    given = *make_input(3, size), torch.ones(3, size, size, dtype=torch.bool) if is_masked else None
    expected = inference_copy(network)(*given)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(fused, "_can_fuse_relu", lambda *_: True)
    relu = Mock(wraps=lambda x, weight, *geometry: torch.conv2d(x, weight, *geometry).relu())
    add_relu = Mock(wraps=lambda x, weight, z, _, *geometry: (torch.conv2d(x, weight, *geometry) + z).relu())
    monkeypatch.setattr(torch, "cudnn_convolution_relu", relu)
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", add_relu)
    found = inference_copy(network, "cpu", dtype)(*given)
    assert all(torch.allclose(output, expected[name], atol=1e-5) for name, output in found.items())
    assert relu.called and add_relu.call_count >= len(network.blocks)
    assert all(call.args[0].dtype == call.args[2].dtype for call in add_relu.mock_calls)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("packs", [False, True])
def test_the_copy_for_playing_takes_other_weights_in_its_places(dtype, packs: bool, monkeypatch) -> None:
    """As captured graphs want it, which there are where oneDNN has not packed the weights: there too they are right."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: packs)
    settings = NetworkConfig(**vars(SMALL) | {"channels": 64})  # so that tiles are computed, too
    first, second, planes_and_numbers = make_network(settings), make_network(settings), make_input(6, 7)
    with torch.no_grad():
        for tensor in second.state_dict().values():
            if tensor.is_floating_point():
                tensor.mul_(1.1).add_(0.01)
    playing, wanted = (inference_copy(network, dtype=dtype, heads=("policy", "value")) for network in (first, second))
    tensors = playing.network.state_dict().values()
    places, before = [tensor.data_ptr() for tensor in tensors], playing(*planes_and_numbers)
    playing.load_(second)
    assert places == [tensor.data_ptr() for tensor in playing.network.state_dict().values()]
    for name, output in wanted(*planes_and_numbers).items():
        found = playing(*planes_and_numbers)[name]
        assert torch.equal(found, output) and not torch.equal(found, before[name]), name
