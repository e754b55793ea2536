"""The command that tunes a problem, for use in messages."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Precision
from warpsmith.generator.conv2d.layer.shapes import pads_of
from warpsmith.generator.problem import Accuracy, DType, NonFinite

_USUAL = Conv2d((1, 1, 1, 1), (1, 1, 1, 1))
"""Layer with all defaults; `tune_command` prints only what differs from it."""


def tune_command(layer: Conv2d, device: str) -> str:
    """Command that tunes a layer's pass on a device. It is Python code if the command line lacks the padding."""
    padding = _padding(layer)
    if padding is None:
        usual = _USUAL.spec()
        told = ", ".join(f"{name}={value!r}" for name, value in layer.spec().items() if usual.get(name) != value)
        return f"warpsmith.tune(warpsmith.Conv2d({told}), {device!r})"
    options = {
        "--input": _by_commas(layer.input),
        "--weight": _by_commas(layer.weight),
        "--stride": None if layer.stride == (1, 1) else _by_commas(layer.stride),
        "--padding": padding or None,
        "--padding-mode": None if layer.padding_mode is PaddingMode.ZEROS else str(layer.padding_mode),
        "--dilation": None if layer.dilation == (1, 1) else _by_commas(layer.dilation),
        "--groups": None if layer.groups == 1 else str(layer.groups),
        "--pass": str(layer.pass_) if layer.pass_.is_gradient else None,
        "--precision": None if layer.precision is Precision.IEEE else str(layer.precision),
        "--dtype": None if layer.dtype is DType.FLOAT32 else str(layer.dtype),
        "--layout": None if layer.layout is ImageLayout.NCHW else str(layer.layout),
        "--accuracy": None if layer.accuracy is Accuracy.NORMWISE else str(layer.accuracy),
        "--nonfinite": None if layer.nonfinite is NonFinite.ANY else str(layer.nonfinite),
        "--device": device,
    }
    told = " ".join(f"{name} {value}" for name, value in options.items() if value is not None)
    ends = f"{' --bias' if layer.bias else ''}{' --relu' if layer.relu else ''}"
    return f"warpsmith tune conv2d {told}{ends}"


def _padding(layer: Conv2d) -> str | None:
    """The value of `--padding`; empty for no padding, None if the option cannot express these sides."""
    (above, below), (left, right) = layer.padding
    if (above, left) == (below, right):
        return _by_commas((above, left)) if above or left else ""
    is_same = layer.stride == (1, 1) and layer.padding == pads_of("same", (1, 1), layer.dilation, layer.weight[2:])
    return "same" if is_same else None


def _by_commas(numbers: Iterable[int]) -> str:
    numbers = tuple(numbers)
    return str(numbers[0]) if len(set(numbers)) == 1 and len(numbers) == 2 else ",".join(map(str, numbers))
