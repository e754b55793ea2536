"""The convolution layer as a problem: shapes, passes, options, operation counts."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count
from warpsmith.generator.conv2d.distance import NEAR_REACH, between_convolutions
from warpsmith.generator.conv2d.shapes import MAX_SIZE, Pair, output_size, pads_of, pair_of, sizes_of
from warpsmith.generator.conv2d.words import ImageLayout, Pass, Precision
from warpsmith.generator.padding import PaddingMode, Pads, told_pads
from warpsmith.generator.problem import Accuracy, DType, Operand, Problem, Role, member

USUAL_WORKSPACE = 2**30
"""Bytes of scratch memory that a plan may take where the caller says nothing: 1 GiB."""
ACCURACIES = (Accuracy.ELEMENTWISE, Accuracy.NORMWISE)
_SIZES = ("input", "weight", "accuracy", "workspace")
"""Fields in which problems may differ that have a winner in common."""


@dataclasses.dataclass(frozen=True)
class Conv2d(Problem):
    """A convolution layer or one of its two gradients, as `torch.nn.functional.conv2d` and its backward compute them.

    With (P, Q) the rows and columns of the result, G groups, and the filter k of group k // (K/G):

    y[n, k, p, q] = b[k] + sum over c, r, s of w[k, c, r, s]
                    * x[n, k // (K/G) * C/G + c, p * stride + r * dilation - padding, likewise the columns]

    where x is what `padding_mode` says outside of the image; relu replaces what is negative by zero. `dgrad` is the
    gradient of x where dy is that of y, `wgrad` the gradient of w; neither has a bias or a ReLU.

    Shapes, all float32 and dense: x and dx (N, C, H, W); w and dw (K, C/G, R, S); b (K,); y and dy (N, K, P, Q).
    A plan takes, by pass: fprop (x, w) or (x, w, b); dgrad (dy, w); wgrad (x, dy).

    Args:
        input: shape of x, (N, C, H, W), whatever the pass.
        weight: shape of w, (K, C/G, R, S).
        stride: input rows and columns from one output to the next; one number for both.
        padding: rows and columns on each side of the image; one number for both, (rows, columns), or ((above, below),
            (left, right)) where the sides differ. `valid` is none; `same` keeps the size of the image, with the odd
            one below and right, as in PyTorch.
        dilation: input rows and columns from one tap to the next; one number for both.
        groups: of channels; each filter sees the channels of its own group alone.
        pass_: which computation.
        precision: of the arithmetic; this version has `ieee` alone.
        layout: of the images; this version has `nchw` alone.
        bias: whether fprop adds one number a filter.
        relu: whether fprop ends in a ReLU. A NaN stays one.
        accuracy: what the error bound of 1e-6 is relative to. `normwise`, the default, is twice the root mean square
            of the whole result, or the result's own sum of |terms| where that is larger: it admits Fourier transforms,
            which let a NaN or an infinity among the inputs reach other results too, and whose errors may be larger
            where the largest numbers of both operands meet at no distance that is kept. `elementwise` is the sum alone.
        workspace: the most bytes of scratch memory that a plan may take.
        padding_mode: what the padding is made of, `zeros`, `reflect`, `replicate` or `circular`. `dgrad` adds to each
            pixel the gradients of all places at which it stands. Without padding it is `zeros`, which is the same.

    Raises:
        BadArgument: shapes that do not fit each other, a result without elements, 2^31 elements or more in an operand,
            a bias or a ReLU of a gradient, a negative workspace, more padding than its mode allows (less than the size
            for `reflect`, the size for `circular`), or what this version does not have.

    Source: the layer of "Optimizing a CNN in CUDA" (convolution forward, error calculation, gradient weights), with
    stride, padding, dilation and groups as PyTorch defines them.
    """

    operation: ClassVar[str] = "conv2d"
    error_unit: ClassVar[str] = "of what `accuracy` names"
    near_reach: ClassVar[float] = NEAR_REACH

    input: tuple[int, int, int, int]
    weight: tuple[int, int, int, int]
    stride: Pair = (1, 1)
    padding: tuple[Pads, Pads] = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)
    groups: int = 1
    pass_: Pass = Pass.FPROP
    precision: Precision = Precision.IEEE
    layout: ImageLayout = ImageLayout.NCHW
    bias: bool = False
    relu: bool = False
    accuracy: Accuracy = Accuracy.NORMWISE
    workspace: int = USUAL_WORKSPACE
    padding_mode: PaddingMode = PaddingMode.ZEROS

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "input", sizes_of(self.input, "input", "N,C,H,W"))
        set_field(self, "weight", sizes_of(self.weight, "weight", "K,C/G,R,S"))
        set_field(self, "stride", pair_of(self.stride, "stride", 1))
        set_field(self, "dilation", pair_of(self.dilation, "dilation", 1))
        set_field(self, "groups", count(self.groups, "groups"))
        set_field(self, "padding", pads_of(self.padding, self.stride, self.dilation, self.weight[2:]))
        set_field(self, "pass_", member(Pass, self.pass_, "pass"))
        set_field(self, "precision", member(Precision, self.precision, "precision"))
        set_field(self, "layout", member(ImageLayout, self.layout, "layout"))
        set_field(self, "accuracy", member(Accuracy, self.accuracy, "accuracy", ACCURACIES))
        set_field(self, "workspace", count(self.workspace, "workspace", least=0))
        for name in ("bias", "relu"):
            set_field(self, name, bool(getattr(self, name)))
        mode = member(PaddingMode, self.padding_mode, "padding_mode")
        set_field(self, "padding_mode", mode if any(map(sum, self.padding)) else PaddingMode.ZEROS)
        self._check_words()
        self._check_channels()
        self._check_padding()
        self._check_sizes()

    def _check_words(self) -> None:
        if self.precision not in (Precision.IEEE, Precision.TF32):
            raise BadArgument(f"precision {self.precision} is not in this version")
        if self.layout is not ImageLayout.NCHW:
            raise BadArgument(f"layout {self.layout} is not in this version, which computes conv2d in nchw only")
        for name in ("bias", "relu"):
            if getattr(self, name) and self.pass_ is not Pass.FPROP:
                raise BadArgument(f"pass {self.pass_} has no {name}: only fprop has")

    def _check_channels(self) -> None:
        (_, channels, _, _), (filters, own, _, _) = self.input, self.weight
        for what, number in (("channels", channels), ("filters", filters)):
            if number % self.groups:
                raise BadArgument(f"{number} {what} do not divide into {self.groups} groups")
        if own * self.groups != channels:
            raise BadArgument(
                f"the weight is for {own} channels a group; the input has {channels} in {self.groups} "
                f"group{'s' if self.groups > 1 else ''}, {channels // self.groups} each"
            )

    def _check_padding(self) -> None:
        """Padding is as large as its mode allows, and kernels count the elements of padded images in int."""
        if self.padding_mode is PaddingMode.ZEROS:
            return
        for what, size, pads in zip(("rows", "columns"), self.input[2:], self.padding, strict=True):
            most = self.padding_mode.most(size)
            if most is not None and max(pads) > most:
                raise BadArgument(
                    f"padding_mode {self.padding_mode} makes at most {most} {what} on each side of an image of {size}; "
                    f"got {told_pads(pads)}"
                )
        if max(self.padded_size) >= MAX_SIZE or math.prod((*self.input[:2], *self.padded_size)) >= 2**31:
            raise BadArgument("the padded x has 2^31 elements or more, or 2^30 in a row or a column")

    def _check_sizes(self) -> None:
        """A result has elements, and kernels count those of an operand in int."""
        if min(self.output_size) < 1:
            padded = "x".join(map(str, self.padded_size))
            spans = zip(self.weight[2:], self.dilation, strict=True)
            taps = "x".join(str((taps - 1) * dilation + 1) for taps, dilation in spans)
            raise BadArgument(f"the filter spans {taps} and is larger than the padded input of {padded}")
        for operand in self.operands:
            if operand.size >= 2**31:
                raise BadArgument(f"{operand.name} has 2^31 elements or more; split the batch")

    @property
    def output_size(self) -> Pair:
        """Rows P and columns Q of y."""
        rows, columns = (
            output_size(size, taps, stride, pads, dilation)
            for size, taps, stride, pads, dilation in zip(
                self.input[2:], self.weight[2:], self.stride, self.padding, self.dilation, strict=True
            )
        )
        return rows, columns

    @property
    def padded_size(self) -> Pair:
        """Rows and columns of an image with its padding."""
        rows, columns = (size + sum(pads) for size, pads in zip(self.input[2:], self.padding, strict=True))
        return rows, columns

    @property
    def of_padded(self) -> Conv2d:
        """The same layer of images that are padded already; the layer itself where the padding is zeros."""
        if self.padding_mode is PaddingMode.ZEROS:
            return self
        return dataclasses.replace(self, input=(*self.input[:2], *self.padded_size), padding=((0, 0), (0, 0)))

    @property
    def group_channels(self) -> int:
        """C/G: channels of x in a group."""
        return self.weight[1]

    @property
    def group_filters(self) -> int:
        """K/G: channels of y in a group."""
        return self.weight[0] // self.groups

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        y_shape = (self.input[0], self.weight[0], *self.output_size)
        match self.pass_:
            case Pass.FPROP:
                shapes = [("x", self.input), ("w", self.weight), ("b", self.weight[:1]), ("y", y_shape)]
                shapes = [shape for shape in shapes if self.bias or shape[0] != "b"]
            case Pass.DGRAD:
                shapes = [("dy", y_shape), ("w", self.weight), ("dx", self.input)]
            case Pass.WGRAD:
                shapes = [("x", self.input), ("dy", y_shape), ("dw", self.weight)]
        *inputs, output = shapes
        return (
            *(Operand(name, Role.INPUT, shape, DType.FLOAT32) for name, shape in inputs),
            Operand(output[0], Role.OUTPUT, output[1], DType.FLOAT32),
        )

    @property
    def workspace_limit(self) -> int:
        return self.workspace

    @property
    def flops(self) -> int:
        """2 N K P Q C/G R S, the same for each pass; taps in the padding count too."""
        rows, columns = self.output_size
        filters, channels, filter_rows, filter_columns = self.weight
        return 2 * self.input[0] * filters * rows * columns * channels * filter_rows * filter_columns

    def features(self) -> Mapping[str, float | str]:
        """Outputs of y in all, and those of one plane, the depth of a sum and its taps; by pass, precision and layout,
        by whether all channels are one group, some or each alone, and by whether the filter moves in single steps.
        """
        plane, taps = math.prod(self.output_size), math.prod(self.weight[2:])
        groups = "one" if self.groups == 1 else "each" if self.group_channels == 1 else "some"
        return {
            "results": self.input[0] * self.weight[0] * plane,
            "plane": plane,
            "depth": self.group_channels,
            "taps": taps,
            "kind": f"{self.pass_} {self.precision} {self.layout}",
            "groups": groups,
            "steps": "single" if self.stride == self.dilation == (1, 1) else "wide",
        }

    def distance(self, other: Problem) -> float | None:
        """In octaves of N, C, H, W and K; other differences count as so many, up to a limit."""
        return between_convolutions(self, other) if isinstance(other, Conv2d) else None

    def is_resized(self, other: Problem) -> bool:
        """In N, C, H, W and K. A winner under another accuracy is right wherever its family solves the problem."""
        if not isinstance(other, Conv2d):
            return False
        names = [name for name in self._field_names() if name not in _SIZES]
        return self.weight[2:] == other.weight[2:] and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    def spec(self) -> dict[str, Any]:
        pairs = {name: list(getattr(self, name)) for name in ("input", "weight", "stride", "dilation")}
        words = {
            name: str(getattr(self, name)) for name in ("pass_", "precision", "layout", "accuracy", "padding_mode")
        }
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, **pairs, **words, "padding": [list(pads) for pads in self.padding]}

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Conv2d:
        return cls(**spec)

    def key(self) -> str:
        parts = {
            "pass": self.pass_,
            "input": _by_x(self.input),
            "weight": _by_x(self.weight),
            "precision": self.precision,
            # From here on only what differs from the usual, so that a key says what is special about its problem.
            "stride": None if self.stride == (1, 1) else _by_x(self.stride),
            "padding": None if self.padding == ((0, 0), (0, 0)) else "x".join(map(told_pads, self.padding)),
            "padding_mode": None if self.padding_mode is PaddingMode.ZEROS else self.padding_mode,
            "dilation": None if self.dilation == (1, 1) else _by_x(self.dilation),
            "groups": None if self.groups == 1 else self.groups,
            "layout": None if self.layout is ImageLayout.NCHW else self.layout,
            "bias": "yes" if self.bias else None,
            "relu": "yes" if self.relu else None,
            "accuracy": None if self.accuracy is Accuracy.NORMWISE else self.accuracy,
            "workspace": None if self.workspace == USUAL_WORKSPACE else self.workspace,
        }
        return " ".join([self.operation, *(f"{name}={value}" for name, value in parts.items() if value is not None)])


def _by_x(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))
