"""PyTorch's operators by plans on a GPU: gradients, streams, graphs, autocast, compiled functions, a training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warpsmith as ws
import warpsmith.torch as wt
from torch_training import losses
from warpsmith.store import location
from warpsmith.torch import layers, tensors

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

LAYERS: dict[str, dict[str, Any]] = {
    "usual": {"x": (8, 16, 28, 30), "w": (24, 16, 3, 3), "padding": 1},
    "large": {"x": (4, 8, 60, 52), "w": (6, 8, 11, 9), "padding": (5, 4)},
    "strided": {"x": (4, 8, 29, 31), "w": (12, 4, 3, 2), "stride": 2, "groups": 2},
    "depthwise": {"x": (2, 32, 28, 28), "w": (32, 1, 7, 7), "padding": 3, "groups": 32},
    "mirrored": {"x": (2, 8, 28, 28), "w": (8, 8, 3, 3), "padding": 1, "padding_mode": "reflect"},
}
BOUND = 1e-5
"""Of the largest error, relative to the largest number of a result."""


@pytest.fixture(autouse=True)
def nothing_stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = allowed


def operands(layer: dict[str, Any], seed: int = 0) -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    shapes = layer["x"], layer["w"], layer["w"][:1]
    x, w, b = (torch.randn(shape, generator=generator).cuda().requires_grad_() for shape in shapes)
    return x, w, b


def options_of(layer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in layer.items() if name not in ("x", "w")}


def derivatives(function: Callable[..., Any], *given: Any) -> list[Any]:
    y = function(*given)
    dy = torch.linspace(-1, 1, y.numel(), dtype=y.real.dtype, device=y.device).view_as(y)
    return [y.detach(), *torch.autograd.grad(y, given, dy)]


def check(results: list[Any], references: list[Any]) -> None:
    for result, reference in zip(results, references, strict=True):
        assert result.shape == reference.shape
        assert (result - reference).abs().max() <= BOUND * reference.abs().max()


def reference(x: Any, w: Any, b: Any, *, padding_mode: str = "zeros", padding: Any = 0, **options: Any) -> Any:
    if padding_mode != "zeros":
        x, padding = torch.nn.functional.pad(x, [padding] * 4, padding_mode), 0
    return torch.nn.functional.conv2d(x, w, b, padding=padding, **options)


@pytest.mark.parametrize("own_workspace", [tensors.OWN_WORKSPACE, 0])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_pytorch_s_in_float64(name: str, own_workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "OWN_WORKSPACE", own_workspace)  # 0: all scratch memory is PyTorch's
    layer = LAYERS[name]
    options, given = options_of(layer), operands(layer)
    exact = [each.detach().double().requires_grad_() for each in given]
    references = derivatives(lambda *each: reference(*each, **options), *exact)
    check(derivatives(lambda *each: wt.conv2d(*each, **options, fallback="default"), *given), references)
    compiled = torch.compile(
        lambda *each: wt.conv2d(*each, **options, fallback="default"), fullgraph=True, backend="aot_eager"
    )
    check(derivatives(compiled, *given), references)
    with pytest.warns(wt.LeftToTorch, match="--device cuda:0"):
        check(derivatives(lambda *each: wt.conv2d(*each, **options), *given), references)


def test_a_transposed_layer() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = (4, 16, 14, 15), (16, 8, 4, 4), (8,)
    given = [torch.randn(shape, generator=generator).cuda().requires_grad_() for shape in shapes]
    exact = [each.detach().double().requires_grad_() for each in given]
    options = {"stride": 2, "padding": 1}
    references = derivatives(lambda *each: torch.nn.functional.conv_transpose2d(*each, **options), *exact)
    check(derivatives(lambda *each: wt.conv_transpose2d(*each, **options, fallback="default"), *given), references)


@pytest.mark.parametrize("own_workspace", [tensors.OWN_WORKSPACE, 0])
def test_a_training_step_is_captured_in_a_graph(own_workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "OWN_WORKSPACE", own_workspace)
    layer = LAYERS["large"]
    x, w, b = operands(layer)
    options = options_of(layer)

    def step() -> Any:
        y = wt.conv2d(x, w, b, **options, fallback="default")
        return torch.autograd.grad(y.square().sum(), (x, w, b))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for seed in (1, 2):
        with torch.no_grad():
            for old, new in zip((x, w, b), operands(layer, seed), strict=True):
                old.copy_(new)
        graph.replay()
        expected = step()
        torch.cuda.synchronize()
        assert all(torch.equal(one, other) for one, other in zip(captured, expected, strict=True))


def test_streams_and_misaligned_views() -> None:
    x, w, b = (each.detach() for each in operands(LAYERS["usual"]))
    expected = torch.nn.functional.conv2d(x.double(), w.double(), b.double(), padding=1)
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        view = torch.cat([torch.zeros(1, device="cuda"), x.flatten()])[1:].view_as(x)
        y = wt.conv2d(view, w, b, padding=1, fallback="default")
    torch.cuda.synchronize()
    check([y], [expected])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_autocast(dtype: str) -> None:
    x, w, b = operands(LAYERS["usual"])
    with torch.autocast("cuda", dtype=getattr(torch, dtype)), warnings.catch_warnings():
        warnings.simplefilter("ignore", wt.LeftToTorch)
        ours, theirs = (call(x, w, b, padding=1) for call in (wt.conv2d, torch.nn.functional.conv2d))
    assert ours.dtype is theirs.dtype
    # Of 16 bits: 2^-8 of each result, and both round.
    assert (ours - theirs).abs().max() <= 2**-6 * theirs.abs().max()
    (gradient,) = torch.autograd.grad(ours.float().sum(), x)
    assert gradient.dtype is torch.float32


def test_winners_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[ws.Pass] = []
    call = layers.call
    monkeypatch.setattr(layers, "call", lambda plan, *given: (passes.append(plan.problem.pass_), call(plan, *given))[1])
    model = torch.nn.Conv2d(16, 24, 3, padding=1).cuda()
    x, _, _ = operands(LAYERS["usual"])
    report = wt.patch(model, x)
    assert [each.pass_ for each in (problem for problem in report.missing)] == list(ws.Pass)
    for problem in report.missing:
        ws.tune(problem, "cuda:0", trials=2, method="conv2d_direct")
    report = wt.patch(model, x)
    assert [str(each.kind) for each in report.replaced[0].passes] == ["exact"] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(x).sum().backward()
    assert passes == list(ws.Pass)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("border", ["valid", "constant", "wrap", "mirror"])
def test_filters(where: str, border: str) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(3, 61, 70, generator=generator).cuda().requires_grad_()
    weights = torch.randn(5, 4, generator=generator).to(where).requires_grad_()
    results = derivatives(lambda *each: wt.filter2d(*each, border), image, weights)
    assert results[2].device == weights.device
    on_host = [each.detach().cpu().requires_grad_() for each in (image, weights)]
    references = derivatives(lambda *each: wt.filter2d(*each, border), *on_host)
    check([each.cpu() for each in results], references)


def test_a_filter_with_weights_of_the_host_is_captured() -> None:
    image, weights = torch.randn(61, 70, device="cuda"), torch.randn(5, 4)
    expected = wt.filter2d(image, weights)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = wt.filter2d(image, weights)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, expected)


@pytest.mark.parametrize("fallback", ["default", "torch"])
@pytest.mark.parametrize("name", ["rfft", "irfft", "fft", "ifft", "rfft2", "irfft2", "fft2", "ifft2"])
def test_transforms(name: str, fallback: str) -> None:
    x = torch.randn(6, 24, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    if not name.startswith("rfft"):  # a Hermitian spectrum, of which libraries think alike
        x = torch.fft.rfft2(x) if "2" in name else torch.fft.rfft(x)
    exact = x.requires_grad_()
    x = x.detach().to(torch.complex64 if x.is_complex() else torch.float32).cuda().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wt.LeftToTorch)
        results = derivatives(lambda x: getattr(wt, name)(x, norm="ortho", fallback=fallback), x)
    references = derivatives(lambda x: getattr(torch.fft, name)(x, norm="ortho"), exact)
    check([each.cpu() for each in results], references)


def test_the_digits_have_the_same_loss_curve() -> None:
    ours, theirs = (losses("cuda", 4, patched=patched, fallback="default") for patched in (True, False))
    assert theirs[3] < 0.3 * theirs[0]  # it learns
    assert ours == pytest.approx(theirs, rel=1e-3)
