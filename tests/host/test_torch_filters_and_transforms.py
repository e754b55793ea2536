"""`warpsmith.torch.filter2d` and the transforms on CPU tensors: results of SciPy and PyTorch, and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import exhaustive
import warpsmith.torch as wt
from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Border
from warpsmith.torch.filters import FILTER2D

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("compile_quickest")

FILTERS: dict[str, dict[str, Any]] = {
    "valid": {"border": "valid"},
    "valid, turned": {"border": "valid", "convolve": True},
    "constant": {"border": "constant", "cval": 1.5, "anchor": (0, 2)},
    "constant, turned": {"border": "constant", "convolve": True, "anchor": (2, 1)},
    "wrap": {"border": "wrap", "convolve": True, "anchor": (0, 0)},
    "nearest": {"border": "nearest"},
    "reflect": {"border": "reflect", "convolve": True},
    "mirror": {"border": "mirror", "anchor": (1, 3)},
}
BANKS: dict[str, dict[str, Any]] = {"valid": {}, "reflect": {"border": "reflect"}}


def seeded(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def close(result: Any, reference: Any, bound: float = 2e-6) -> bool:
    return bool((result - reference).abs().max() <= bound * reference.abs().max())


def rule(image: Any, weights: Any, **options: Any) -> Any:
    """The operator computed by PyTorch, in the dtype of its operands."""
    bank = weights if weights.dim() == 3 else weights[None]
    anchor = options.get("anchor")
    words = options.get("border", "valid"), options.get("cval", 0.0), options.get("convolve", False)
    y = FILTER2D.forward(image, bank, None, *words, None if anchor is None else list(anchor), "torch", None)
    return y if weights.dim() == 3 else y[:, 0]


def derivatives(function: Callable[..., Any], *given: Any) -> list[Any]:
    """The result, its gradients, and gradients of the gradients."""
    y = function(*given)
    dy = torch.linspace(-1, 1, y.numel(), dtype=y.real.dtype).view_as(y)
    if y.is_complex():
        dy = dy * (1 + 0.5j)
    first = torch.autograd.grad(y, given, dy, create_graph=True)
    second = torch.autograd.grad(sum(each.abs().square().sum() for each in (y, *first)), given)
    return [each.detach() for each in (y, *first, *second)]


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_scipy_s(name: str) -> None:
    options, image, weights = FILTERS[name], seeded(2, 6, 7), seeded(3, 4)
    y = wt.filter2d(image, weights, **options)
    anchor = options.get("anchor", (1, 2))
    turned = options.get("convolve", False)
    filter_ = weights.double().numpy()[::-1, ::-1] if turned else weights.double().numpy()
    row, column = (2 - anchor[0], 3 - anchor[1]) if turned and name != "valid, turned" else anchor
    mode = "constant" if options["border"] == "valid" else options["border"]
    for plane, result in zip(image.double().numpy(), y.double().numpy(), strict=True):
        reference = ndimage.correlate(
            plane, filter_, mode=mode, cval=options.get("cval", 0), origin=(row - 1, column - 2)
        )
        if options["border"] == "valid":
            reference = reference[1:5, 2:6]
        np.testing.assert_allclose(result, reference, rtol=0, atol=2e-6 * abs(reference).max())


@exhaustive.one_in(2)
@pytest.mark.parametrize("name", FILTERS)
def test_gradients_of_filters(name: str) -> None:
    options = FILTERS[name]
    given = [seeded(2, 6, 7).requires_grad_(), seeded(3, 4).requires_grad_()]
    exact = [each.detach().double().requires_grad_() for each in given]
    function = lambda image, weights: rule(image, weights, **options)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wt.LeftToTorch)
        assert torch.autograd.gradcheck(function, exact, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, exact, fast_mode=True)
        references = derivatives(function, *exact)
    results = derivatives(lambda image, weights: wt.filter2d(image, weights, **options), *given)
    assert all(close(one, other) for one, other in zip(results, references, strict=True))


@pytest.mark.parametrize("name", BANKS)
def test_banks_of_filters(name: str) -> None:
    options = BANKS[name]
    given = [seeded(2, 2, 6, 7).requires_grad_(), seeded(3, 3, 3).requires_grad_()]
    y = wt.filter2d(*given, **options)
    assert y.shape == (2, 2, 3, *((4, 5) if name == "valid" else (6, 7)))
    for place in range(3):
        assert close(y[:, :, place].detach(), wt.filter2d(given[0].detach(), given[1][place].detach(), **options))
    exact = [each.detach().double().requires_grad_() for each in given]

    def reference(image: Any, weights: Any) -> Any:
        return rule(image.reshape(4, 6, 7), weights, **options).reshape(y.shape)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wt.LeftToTorch)
        references = derivatives(reference, *exact)
    results = derivatives(lambda image, weights: wt.filter2d(image, weights, **options), *given)
    assert all(close(one, other) for one, other in zip(results, references, strict=True))


@exhaustive.one_in(3, 1)
@pytest.mark.parametrize("border", ["valid", "constant", "mirror"])
def test_the_operator_of_filters(border: str) -> None:
    image, weights = seeded(2, 6, 7).requires_grad_(), seeded(1, 3, 3).requires_grad_()
    torch.library.opcheck(FILTER2D.forward, (image, weights, None, border, 0.5, False, None, "default", None))
    compiled = torch.compile(lambda *each: wt.filter2d(*each, border), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(image, weights), wt.filter2d(image, weights, border))
    loss = torch.func.grad(lambda image: wt.filter2d(image, weights.detach(), border).sum())(image.detach())
    assert close(loss, torch.autograd.grad(wt.filter2d(image, weights, border).sum(), image)[0][:, None][:, 0])


def test_a_bordered_filter_by_pytorch_has_scipy_s_borders() -> None:
    image, weights = seeded(1, 2, 3), seeded(5, 6)  # larger than the image: pixels repeat several times
    for border in (Border.WRAP, Border.NEAREST, Border.REFLECT, Border.MIRROR):
        with pytest.warns(wt.LeftToTorch, match=f"border={border}"):
            y = wt.filter2d(image, weights, str(border), fallback="torch")
        reference = ndimage.correlate(image[0].double().numpy(), weights.double().numpy(), mode=str(border))
        np.testing.assert_allclose(y[0].numpy(), reference, rtol=0, atol=2e-6 * abs(reference).max())


@pytest.mark.parametrize(
    ("image", "weights", "options", "told"),
    [
        (seeded(6, 7, dtype=torch.float64), seeded(3, 3), {}, "image: this operator takes float32, got float64"),
        (seeded(6), seeded(3, 3), {}, r"takes an image \(..., rows, columns\)"),
        (seeded(6, 7), seeded(9, 9), {}, "larger than the image"),
        (seeded(6, 7), seeded(3, 3), {"border": "none"}, "unknown border"),
        (seeded(0, 6, 7), seeded(3, 3), {}, "has no elements"),
        (seeded(6, 7), seeded(3, 3), {"anchor": (3, 0), "border": "wrap"}, "the anchor must be"),
        (seeded(6, 7), seeded(3, 3), {"fallback": "none"}, "fallback"),
    ],
)
def test_filters_that_are_refused(image: Any, weights: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadArgument, match=told):
        wt.filter2d(image, weights, **options)


COMPLEX = torch.complex64
TRANSFORMS: dict[str, tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = {
    "rfft": ("rfft", seeded(3, 2, 12), (), {}),
    "rfft padded": ("rfft", seeded(5, 12), (16,), {"norm": "ortho"}),
    "rfft cropped": ("rfft", seeded(5, 12), (9,), {"norm": "forward"}),
    "irfft": ("irfft", seeded(3, 7, dtype=COMPLEX), (), {}),
    "irfft odd": ("irfft", seeded(3, 7, dtype=COMPLEX), (11,), {"norm": "forward"}),
    "irfft padded": ("irfft", seeded(3, 7, dtype=COMPLEX), (16,), {}),
    "fft of real": ("fft", seeded(3, 10), (), {"norm": "forward"}),
    "ifft padded": ("ifft", seeded(3, 7, dtype=COMPLEX), (8,), {"norm": "ortho"}),
    "rfft2": ("rfft2", seeded(2, 6, 10), (), {"norm": "ortho"}),
    "rfft2 padded": ("rfft2", seeded(2, 6, 10), ((8, 12),), {}),
    "irfft2": ("irfft2", seeded(3, 6, 6, dtype=COMPLEX), (), {}),
    "irfft2 odd": ("irfft2", seeded(3, 6, 6, dtype=COMPLEX), ((6, 9),), {"norm": "forward"}),
    "fft2": ("fft2", seeded(2, 4, 6, dtype=COMPLEX), ((4, -1),), {}),
    "ifft2": ("ifft2", seeded(4, 6, dtype=COMPLEX), ((3, 8),), {"norm": "forward"}),
}


@exhaustive.one_in(2)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_pytorch_s_with_their_gradients(name: str) -> None:
    function, x, given, options = TRANSFORMS[name]
    ours, theirs = getattr(wt, function), getattr(torch.fft, function)
    exact = x.to(torch.complex128 if x.is_complex() else torch.float64).requires_grad_()
    references = derivatives(lambda x: theirs(x, *given, **options), exact)
    x = x.clone().requires_grad_()
    results = derivatives(lambda x: ours(x, *given, **options, fallback="default"), x)
    assert all(close(one, other) for one, other in zip(results, references, strict=True))
    with pytest.warns(wt.LeftToTorch, match="tune it with"):
        results = derivatives(lambda x: ours(x, *given, **options), x)
    assert all(close(one, other) for one, other in zip(results, references, strict=True))


@exhaustive.one_in(3)
@pytest.mark.parametrize(
    ("kind", "inverse", "x", "size"),
    [
        ("r2c", False, seeded(2, 4, 6), [4, 6]),
        ("c2r", True, seeded(1, 4, 3, dtype=COMPLEX), [4, 5]),
        ("c2c", False, seeded(3, 8, dtype=COMPLEX), [8]),
    ],
)
def test_the_operator_of_transforms(kind: str, inverse: bool, x: Any, size: list[int]) -> None:
    operator, words = torch.ops.warpsmith.fft.default, (size, size, kind, inverse, "ortho")
    torch.library.opcheck(operator, (x.clone().requires_grad_(), *words, "default", None))
    exact = x.to(torch.complex128 if x.is_complex() else torch.float64).requires_grad_()
    rule = lambda x: operator(x, *words, "torch", None)  # noqa: E731
    assert torch.autograd.gradcheck(rule, exact)
    assert torch.autograd.gradgradcheck(rule, exact)


def test_a_compiled_pair_of_transforms() -> None:
    x = seeded(2, 6, 10).requires_grad_()

    def there_and_back(x: Any) -> Any:
        return wt.irfft2(wt.rfft2(x, (8, 12), fallback="default"), fallback="default")[:, :6, :10]

    compiled = torch.compile(there_and_back, fullgraph=True, backend="aot_eager")
    assert close(compiled(x).detach(), x.detach())
    (gradient,) = torch.autograd.grad(compiled(x).square().sum() / 2, x)
    assert close(gradient, x.detach())


def test_what_no_plan_transforms_is_pytorch_s() -> None:
    x = seeded(4, 6, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(wt.rfft(x, dim=0), torch.fft.rfft(x, dim=0))
        assert torch.equal(wt.fft2(x.double()), torch.fft.fft2(x.double()))
        assert torch.equal(wt.rfft2(x, dim=(-1, -2)), torch.fft.rfft2(x, dim=(-1, -2)))
        assert torch.equal(wt.rfft(x, 1), torch.fft.rfft(x, 1))
        batch = torch.vmap(lambda row: wt.rfft(row))(x)
        assert torch.equal(batch, torch.fft.rfft(x))
    with pytest.warns(wt.LeftToTorch, match="no kernel family"):  # a prime
        assert torch.equal(wt.rfft(x, 37, fallback="default"), torch.fft.rfft(x, 37))
    with pytest.raises(BadArgument, match="none"):
        wt.rfft(x, fallback="none")
    with pytest.raises(RuntimeError) as theirs:
        torch.fft.rfft(x, -3)
    with pytest.raises(RuntimeError) as ours:
        wt.rfft(x, -3)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("bank", [False, True])
def test_a_result_takes_operations_in_place(bank: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    image = torch.randn(3, 9, 11, generator=generator, requires_grad=True)
    weights = torch.randn(*((2, 3, 3) if bank else (3, 3)), generator=generator)
    expected = torch.relu(wt.filter2d(image, weights, "mirror"))
    (gradient,) = torch.autograd.grad(expected.sum(), image)
    found = wt.filter2d(image, weights, "mirror").relu_()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), image)[0], gradient)
