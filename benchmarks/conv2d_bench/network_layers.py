"""Every distinct convolution of some networks, as problems: read from a list, drawn at random, or derived anew.

A layer's bias is left out of the problem: cuDNN adds it by a kernel of PyTorch's, and layers with one are few.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from conv2d_bench.points import Point
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass, Precision
from warpsmith.generator.problem import DType

LIST = Path(__file__).with_name("network_layers.json")
BATCH = 24
SIDES = {"inception_v3": 299, "unet": 256}
"""Rows and columns of a network's images, if they are not SIDE."""
SIDE = 224
NETWORKS = (
    *("resnet50", "resnext50_32x4d", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "densenet121"),
    *("regnet_y_1_6gf", "vgg16", "googlenet", "inception_v3", "squeezenet1_1", "shufflenet_v2_x1_0", "mnasnet1_0"),
    *("mobilenet_v2", "alexnet", "unet"),
)
NUMERICS: dict[str, dict[str, Any]] = {
    "ieee": {},
    "tf32": {"precision": Precision.TF32},
    "tf32_last": {"precision": Precision.TF32, "layout": ImageLayout.NHWC},
    "bf16": {"precision": Precision.BF16, "dtype": DType.BFLOAT16, "layout": ImageLayout.NHWC},
}
"""Type, precision and layout of the data by name: float32 in NCHW, TF32 in both layouts, bfloat16 channels last."""


def precision_of(numeric: str) -> Precision:
    """Precision of a name of NUMERICS."""
    return NUMERICS[numeric].get("precision", Precision.IEEE)


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkLayer:
    """A layer and how often each network has it."""

    layer: Conv2d
    counts: dict[str, int]

    @property
    def is_pointwise(self) -> bool:
        """True for 1x1 taps at stride 1 in one group: a matrix product."""
        return self.layer.weight[2:] == (1, 1) and self.layer.stride == (1, 1) and self.layer.groups == 1

    @property
    def name(self) -> str:
        """Sizes in one word, such as `resnet50:24x64x56x56-64,3x3` with what is not usual behind it."""
        layer = self.layer
        (rows, columns), filters = layer.weight[2:], layer.weight[0]
        words = ["x".join(map(str, layer.input)), f"-{filters},{rows}x{columns}"]
        words += [f",s{layer.stride[0]}"] if layer.stride != (1, 1) else []
        words += [f",d{layer.dilation[0]}"] if layer.dilation != (1, 1) else []
        words += [f",g{layer.groups}"] if layer.groups > 1 else []
        return f"{next(iter(self.counts))}:{''.join(words)}"

    def point(self, pass_: Pass, numeric: str) -> Point:
        """One pass in a type and layout of NUMERICS."""
        problem = dataclasses.replace(self.layer, pass_=pass_, **NUMERICS[numeric])
        return Point(f"{self.name} {numeric} {pass_}", problem)


def read(path: Path) -> list[NetworkLayer]:
    """Layers of a list. Raises BadArgument for an invalid file."""
    try:
        return [NetworkLayer(Conv2d(**line["layer"]), line["networks"]) for line in json.loads(path.read_text())]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BadArgument(f"{path} is no list of networks' layers: {error}") from None


def write(path: Path, layers: Iterable[NetworkLayer]) -> None:
    """Writes a list, one layer a line."""
    lines = [json.dumps({"layer": _short(each.layer), "networks": each.counts}) for each in layers]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def drawn(layers: Sequence[NetworkLayer], count: int, seed: int) -> Iterator[tuple[NetworkLayer, Pass]]:
    """Yields `count` passes of different layers at random, network by network in turn, so that any prefix is balanced.

    A layer of several networks belongs to its first. Passes alternate; all layers come once before one comes again.
    """
    generator = random.Random(seed)
    left: dict[str, list[tuple[NetworkLayer, list[Pass]]]] = collections.defaultdict(list)
    for each in layers:
        passes = list(Pass)
        generator.shuffle(passes)
        left[next(iter(each.counts))].append((each, passes))
    for own in left.values():
        generator.shuffle(own)
    names = sorted(left)
    while count and any(left.values()):
        generator.shuffle(names)
        for name in names:
            if count and left[name]:
                layer, passes = left[name].pop(0)
                yield layer, passes.pop()
                count -= 1
                if passes:
                    left[name].append((layer, passes))


def derived(names: Iterable[str] = NETWORKS) -> list[NetworkLayer]:
    """The distinct layers of networks at their usual image and BATCH, by one pass without data (PyTorch's `meta`)."""
    from conv2d_bench.network_models import shapes

    found: dict[Conv2d, dict[str, int]] = {}
    for name in names:
        for layer in shapes(name, BATCH, SIDES.get(name, SIDE)):
            counts = found.setdefault(layer, {})
            counts[name] = counts.get(name, 0) + 1
    return [NetworkLayer(layer, counts) for layer, counts in found.items()]


def _short(layer: Conv2d) -> dict[str, Any]:
    """Fields of a layer that are not their defaults."""
    usual = {each.name: each.default for each in dataclasses.fields(layer)}
    fields = {name: getattr(layer, name) for name in ("input", "weight", "stride", "padding", "dilation", "groups")}
    return {name: value for name, value in fields.items() if value != usual[name]}
