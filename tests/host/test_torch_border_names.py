"""Borders and padding of PyTorch's users: `reflect` of each function, and other libraries' names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
import warpsmith.torch as wt
from warpsmith.errors import BadArgument
from warpsmith.generator import padding

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.usefixtures("compile_quickest")


@pytest.fixture(autouse=True)
def no_warning_given() -> Iterator[None]:
    """Each test runs as a process that has given no warning."""
    padding._warning.cache_clear()
    yield
    padding._warning.cache_clear()


def seeded(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def ambiguous(call: Callable[[], Any]) -> int:
    """Number of warnings about `reflect`."""
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        call()
    return sum(issubclass(each.category, ws.AmbiguousBorder) for each in issued)


def test_a_filter_warns_once_of_reflect() -> None:
    image, weights = seeded(7, 9), seeded(3, 3)
    with pytest.warns(ws.AmbiguousBorder, match="repeats the pixel at the edge here") as caught:
        found = wt.filter2d(image, weights, "reflect")
    assert [each.filename for each in caught if issubclass(each.category, ws.AmbiguousBorder)] == [__file__]
    assert ambiguous(lambda: wt.filter2d(image, weights, "reflect")) == 0
    torch.testing.assert_close(found, wt.filter2d(image, weights, "symmetric"))
    padded = torch.from_numpy(np.pad(image.numpy(), 1, "symmetric"))
    torch.testing.assert_close(found, functional.conv2d(padded[None, None], weights[None, None])[0, 0])


def test_a_compiled_filter_takes_reflect() -> None:
    image, weights = seeded(7, 9), seeded(3, 3)
    compiled = torch.compile(lambda *each: wt.filter2d(*each, "reflect"), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(image, weights), wt.filter2d(image, weights, "symmetric"))


def test_layers_of_pytorch_warn_of_nothing() -> None:
    x = seeded(1, 2, 6, 7)
    layer = torch.nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")
    own = wt.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")
    own.load_state_dict(layer.state_dict())
    expected = layer(x)
    assert ambiguous(lambda: own(x)) == 0
    assert ambiguous(lambda: wt.conv2d(x, layer.weight, layer.bias, padding=1, padding_mode="reflect")) == 0
    model = torch.nn.Sequential(layer)
    assert ambiguous(lambda: wt.patch(model)) == 0
    assert ambiguous(lambda: model(x)) == 0
    torch.testing.assert_close(own(x), expected)
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("fallback", ["torch", "default"])
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("mirror", "reflect"),
        ("reflect101", "reflect"),
        ("edge", "replicate"),
        ("wrap", "circular"),
        ("constant", "zeros"),
    ],
)
@pytest.mark.filterwarnings("ignore::warpsmith.torch.LeftToTorch")
def test_a_convolution_takes_other_libraries_names(name: str, mode: str, fallback: str) -> None:
    x, w = seeded(1, 2, 6, 7), seeded(3, 2, 3, 3)
    for _ in range(2):  # looked up, then from the calls that are kept
        found = wt.conv2d(x, w, padding=1, padding_mode=name, fallback=fallback)
        torch.testing.assert_close(found, wt.conv2d(x, w, padding=1, padding_mode=mode, fallback=fallback))


def test_a_convolution_refuses_symmetric() -> None:
    with pytest.raises(BadArgument, match="'symmetric' repeats the element at the edge"):
        wt.conv2d(seeded(1, 2, 6, 7), seeded(3, 2, 3, 3), padding=1, padding_mode="symmetric")
