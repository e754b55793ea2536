"""The convolution layer as a problem: shapes, passes, options, operation counts."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count, flag
from warpsmith.generator.conv2d.layer import shapes
from warpsmith.generator.conv2d.layer.shapes import Pair
from warpsmith.generator.conv2d.layer.words import DTYPES, ImageLayout, Pass, check_precision
from warpsmith.generator.distances import FARTHEST, NONFINITE_CHANGED, RULE_CHANGED, SIDE_CHANGED, octaves
from warpsmith.generator.padding import PaddingMode, Pads, pads_text
from warpsmith.generator.precision import BOUNDS, Precision
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Operand, Problem, Role, dtype_of, member

LEAST_USUAL_WORKSPACE, USUAL_SHARE = 2**30, 1.5
"""Bytes of scratch memory that a plan may take by default: 1 GiB, or 1.5 times the bytes of images, weights and
results. Kernels that lay out or split both images of a gradient of weights need 1.1 times as many.
"""
ACCURACIES = (Accuracy.ELEMENTWISE, Accuracy.NORMWISE)
TAP_OCTAVE = 4.0
"""Octaves per doubling of a filter's rows or columns: registers and unrolled code grow with them."""
NEAR_REACH = 3.0
"""`Problem.near_reach` of layers, in octaves. In 15 pairs that differ by up to 3 octaves of N, C, H, W and K (H200),
the winner of one took 1.03 times the best of the other, the default 1.06; farther off, other families win.
"""
DEFAULT_REACH = 0.5
"""`Family.default_reach` of layer families, in octaves: two changes among `_SIDES`, but no other size. The default took
1.01 times the best where a winner from 0.8 octaves away with another padding took 1.15.
"""
_SIDES = ("padding", "padding_mode", "bias", "relu", "accuracy", "workspace")
_SIZES = ("input", "weight", "accuracy", "workspace", "nonfinite")
"""Fields that may differ between two layers if the winner of one is to fit the other (`Conv2d.is_resized`)."""


@dataclasses.dataclass(frozen=True)
class Conv2d(Problem):
    """A convolution layer or one of its two gradients, as `torch.nn.functional.conv2d` and its backward compute them.

    With (P, Q) the rows and columns of the result, G groups, and the filter k of group k // (K/G):

    y[n, k, p, q] = b[k] + sum over c, r, s of w[k, c, r, s]
                    * x[n, k // (K/G) * C/G + c, p * stride + r * dilation - padding, likewise the columns]

    Outside of the image, `padding_mode` defines x. relu replaces negative results by zero. `dgrad` is the gradient of x
    for a gradient dy of y, `wgrad` the gradient of w. With a bias, one number per channel of dx, and a ReLU behind it,
    dgrad is a transposed convolution (`transposed`). Sums are in float32; a result is rounded once.

    All operands are dense and have element type `dtype`. Their shapes are: x and dx (N, C, H, W); w and dw (K, C/G, R,
    S); y and dy (N, K, P, Q); b (K,), for dgrad (C,). A plan takes, by pass: fprop (x, w) or (x, w, b); dgrad (dy, w)
    or (dy, w, b); wgrad (x, dy).

    Args:
        input: shape of x, (N, C, H, W), whatever the pass.
        weight: shape of w, (K, C/G, R, S).
        stride: input rows and columns from one output to the next; one number for both.
        padding: rows and columns on each side of the image; one number for both, (rows, columns), or ((above, below),
            (left, right)) where the sides differ. `valid` is none; `same` keeps the size of the image, with the odd one
            below and right, as in PyTorch.
        dilation: input rows and columns from one tap to the next; one number for both.
        groups: number of channel groups; each filter sees the channels of its own group alone.
        pass_: fprop, dgrad or wgrad.
        precision: precision of the products, which sets the error bound relative to the scale that `accuracy` names:
            `ieee`, float32, 1e-6; `tf32`, factors of 10 bits of mantissa, 1e-3, for float32 data; `f16`, for float16 or
            float32 data, 1e-3; `bf16`, for bfloat16 or float32 data, 8e-3. The rounding of a result to 16 bits, 2^-11
            or 2^-8 of it, comes on top.
        layout: layout of images and weights, `nchw` or `nhwc`. The latter is PyTorch's channels_last: all operands have
            the same shapes, and strides that make the channels of a pixel, or of a tap, contiguous.
        bias: whether fprop adds one number per filter, and dgrad one per channel of dx.
        relu: whether fprop or dgrad ends in a ReLU. A NaN stays a NaN.
        accuracy: scale of the error bound. `normwise`, the default, is the larger of two: the result's own sum of
            |terms|, and twice the root mean square of all results of its image (in wgrad: of all results). It admits
            Fourier transforms, whose errors may be larger where the largest numbers of both operands meet at no
            distance that is kept. `elementwise` is the sum of |terms| alone.
        workspace: most bytes of scratch memory that a plan may take. None is 1 GiB, or 1.5 times the bytes of the
            layer's images, weights and results if that is more.
        padding_mode: content of the padding, `zeros`, `reflect`, `replicate` or `circular`, or another name of these
            (`OUTSIDE`). `reflect` has PyTorch's meaning: it leaves the pixel at the edge out, and `mirror` is the same;
            `symmetric` is refused. `dgrad` adds to each pixel the gradients of all places at which it stands.
            Without padding it is `zeros`, which is the same.
        dtype: element type of all operands, `float32`, `float16` or `bfloat16`, or a dtype of NumPy or PyTorch of that
            name.
        nonfinite: results that may be affected by a NaN, by an infinity, or by a finite number so large that a
            transform of its plane overflows. `any`, the default: other results of the same image in fprop and dgrad,
            and any of wgrad. `window`: only those whose sum has it as a term. Either way no image of a batch affects
            another's results, and a number of w that is not finite may affect all results of its filter, or of its
            channel in dgrad.

    Raises:
        BadArgument: shapes that do not fit each other, a result without elements, 2^31 weights or 2^36 elements of an
            operand or more, a bias or a ReLU of wgrad, a precision that the data do not have, a negative workspace, or
            more padding than its mode allows (less than the size for `reflect`, the size for `circular`).

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
    workspace: int | None = None
    padding_mode: PaddingMode = PaddingMode.ZEROS
    dtype: DType = DType.FLOAT32
    nonfinite: NonFinite = NonFinite.ANY

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "input", shapes.sizes_of(self.input, "input", "N,C,H,W"))
        set_field(self, "weight", shapes.sizes_of(self.weight, "weight", "K,C/G,R,S"))
        set_field(self, "stride", shapes.pair_of(self.stride, "stride", 1))
        set_field(self, "dilation", shapes.pair_of(self.dilation, "dilation", 1))
        set_field(self, "groups", count(self.groups, "groups"))
        set_field(self, "padding", shapes.pads_of(self.padding, self.stride, self.dilation, self.weight[2:]))
        set_field(self, "pass_", member(Pass, self.pass_, "pass"))
        set_field(self, "dtype", dtype_of(self.dtype, "dtype", DTYPES))
        set_field(self, "precision", member(Precision, self.precision, "precision"))
        set_field(self, "layout", member(ImageLayout, self.layout, "layout"))
        set_field(self, "accuracy", member(Accuracy, self.accuracy, "accuracy", ACCURACIES))
        set_field(self, "nonfinite", member(NonFinite, self.nonfinite, "nonfinite"))
        if self.workspace is not None:
            set_field(self, "workspace", count(self.workspace, "workspace", least=0))
        for name in ("bias", "relu"):
            set_field(self, name, flag(getattr(self, name), name))
        mode = member(PaddingMode, self.padding_mode, "padding_mode")
        set_field(self, "padding_mode", mode if any(map(sum, self.padding)) else PaddingMode.ZEROS)
        self._check()
        if self.workspace == self._usual_workspace:
            set_field(self, "workspace", None)

    def _check(self) -> None:
        """Checks that the fields fit each other; each field by itself is valid already."""
        check_precision(self.precision, self.dtype)
        for name in ("bias", "relu"):
            if getattr(self, name) and self.pass_.sums_images:
                raise BadArgument(f"pass wgrad has no {name}: only fprop and dgrad have")
        shapes.check_channels(self.input, self.weight, self.groups)
        shapes.check_padding(self.padding_mode, self.input[2:], self.padding)
        shapes.check_window(self.weight[2:], self.dilation, self.padded_size)
        shapes.check_counts(self.operands)

    @classmethod
    def transposed(
        cls,
        input: tuple[int, int, int, int],  # noqa: A002 - as of the layer itself
        weight: tuple[int, int, int, int],
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        precision: Precision = Precision.IEEE,
        layout: ImageLayout = ImageLayout.NCHW,
        bias: bool = False,
        relu: bool = False,
        accuracy: Accuracy = Accuracy.NORMWISE,
        workspace: int | None = None,
        dtype: DType = DType.FLOAT32,
        nonfinite: NonFinite = NonFinite.ANY,
    ) -> Conv2d:
        """A transposed convolution, as `torch.nn.functional.conv_transpose2d` computes it: the dgrad of a layer.

        A plan takes (dy, w) or (dy, w, b), with w as in PyTorch and b one number per channel of dx, the result. The
        field `input` of the returned problem is the shape of dx.

        Args:
            input: shape (N, C_in, h, w) of the argument dy.
            weight: shape (C_in, C_out/G, R, S).
            stride: rows and columns of the result from one pixel of the input to the next; one number for both.
            padding: rows and columns that are cut off the result on each side.
            output_padding: rows and columns added to the result below and right; less than the stride or the dilation.
            dilation, groups: as for a layer. The other arguments are those of a layer too.
        Raises BadArgument as a layer and `shapes_of_transposed` do.
        """
        shape, pads = shapes.shapes_of_transposed(input, weight, stride, padding, output_padding, dilation, groups)
        return cls(
            input=shape,
            weight=weight,
            stride=stride,
            padding=pads,
            dilation=dilation,
            groups=groups,
            pass_=Pass.DGRAD,
            precision=precision,
            layout=layout,
            bias=bias,
            relu=relu,
            accuracy=accuracy,
            workspace=workspace,
            dtype=dtype,
            nonfinite=nonfinite,
        )

    @functools.cached_property
    def output_size(self) -> Pair:
        """Rows P and columns Q of y."""
        rows, columns = (
            shapes.output_size(size, taps, stride, pads, dilation)
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

    @functools.cached_property
    def of_padded(self) -> Conv2d:
        """The same layer on images that are padded already; the layer itself if the padding is zeros."""
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
    def summed_channels(self) -> int:
        """Channels of a group that fprop or dgrad sums over."""
        return self.pass_.select(self.group_channels, self.group_filters, 1)

    @functools.cached_property
    def result_channels(self) -> int:
        """Channels of a group in the result of fprop or dgrad."""
        return self.pass_.select(self.group_filters, self.group_channels, 1)

    @functools.cached_property
    def terms(self) -> int:
        """Most products of one result's sum (K of the implicit GEMM), if each pixel stands at one place of the padded
        image.
        """
        taps, y_pixels = math.prod(self.weight[2:]), self.input[0] * math.prod(self.output_size)
        return self.pass_.select(self.group_channels * taps, self.group_filters * taps, y_pixels)

    @property
    def scales(self) -> int:
        """Equal parts of the result, each with a scale of its own: its images, or 1 for a sum over images."""
        return 1 if self.pass_.sums_images else self.input[0]

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs in the order in which a plan is called, then the result."""
        x, w, y = self.input, self.weight, (self.input[0], self.weight[0], *self.output_size)
        of_pass = self.pass_.select(
            (("x", x), ("w", w), ("b", w[:1]), ("y", y)),
            (("dy", y), ("w", w), ("b", x[1:2]), ("dx", x)),
            (("x", x), ("dy", y), ("dw", w)),
        )
        return tuple(self._operand(*each) for each in of_pass if self.bias or each[0] != "b")

    def _operand(self, name: str, shape: tuple[int, ...]) -> Operand:
        role = Role.OUTPUT if name in ("y", "dx", "dw") else Role.INPUT
        return Operand(name, role, shape, self.dtype, strides_of(shape, self.dtype, self.layout))

    @property
    def is_large(self) -> bool:
        """Whether an operand, or x with its padding, has 2^31 elements or more, which are counted in 64 bits."""
        padded = math.prod((*self.input[:2], *self.padded_size))
        return max(padded, *(operand.size for operand in self.operands)) >= shapes.COUNTED

    @property
    def workspace_limit(self) -> int:
        return self._usual_workspace if self.workspace is None else self.workspace

    @property
    def _usual_workspace(self) -> int:
        result = self.input[0], self.weight[0], *self.output_size
        elements = sum(map(math.prod, (self.input, self.weight, result)))
        return max(LEAST_USUAL_WORKSPACE, int(USUAL_SHARE * elements * self.dtype.itemsize))

    @property
    def error_bound(self) -> float:
        return BOUNDS[self.precision]

    @property
    def flops(self) -> int:
        """2 N K P Q C/G R S, the same for each pass; taps in the padding count too."""
        rows, columns = self.output_size
        filters, channels, filter_rows, filter_columns = self.weight
        return 2 * self.input[0] * filters * rows * columns * channels * filter_rows * filter_columns

    @property
    def _other_dtype(self) -> tuple[DType, ...]:
        """The element type in a tuple if it is not float32; otherwise an empty tuple."""
        return () if self.dtype is DType.FLOAT32 else (self.dtype,)

    def features(self) -> Mapping[str, float | str]:
        """Numbers: outputs of y in all and per plane, summed channels (depth) and taps. Words: pass with precision,
        layout and dtype; groups (all channels in one, some, or each alone); filter steps (single or wide).
        """
        plane, taps = math.prod(self.output_size), math.prod(self.weight[2:])
        groups = "one" if self.groups == 1 else "each" if self.group_channels == 1 else "some"
        return {
            "results": self.input[0] * self.weight[0] * plane,
            "plane": plane,
            "depth": self.group_channels,
            "taps": taps,
            "kind": " ".join([self.pass_, self.precision, self.layout, *self._other_dtype]),
            "groups": groups,
            "steps": "single" if self.stride == self.dilation == (1, 1) else "wide",
        }

    def distance(self, other: Problem) -> float | None:
        """Octaves of N, C, H, W and K between two layers, plus octaves for other differences; None beyond a limit."""
        words = ("pass_", "precision", "layout", "dtype")
        if not isinstance(other, Conv2d) or any(getattr(self, name) != getattr(other, name) for name in words):
            return None
        pairs = zip((*self.input, self.weight[0]), (*other.input, other.weight[0]), strict=True)
        size = sum(octaves(here, there) for here, there in pairs)
        taps = sum(octaves(here, there) for here, there in zip(self.weight[2:], other.weight[2:], strict=True))
        rest = (
            TAP_OCTAVE * taps
            + NONFINITE_CHANGED * (self.nonfinite is not other.nonfinite)
            + RULE_CHANGED * sum(getattr(self, name) != getattr(other, name) for name in ("stride", "dilation"))
            + self._between_groups(other)
            + SIDE_CHANGED * sum(getattr(self, name) != getattr(other, name) for name in _SIDES)
        )
        return size + rest if rest <= FARTHEST else None

    def _between_groups(self, other: Conv2d) -> float:
        """Octaves between the groups of two layers. The work of a thread depends on the channels and filters per group,
        not on the number of groups: the channels of all groups together count as sizes.
        """
        is_one = self.groups == 1, other.groups == 1
        own = octaves(self.group_channels, other.group_channels) + octaves(self.group_filters, other.group_filters)
        return RULE_CHANGED * (is_one[0] != is_one[1]) + (own if False in is_one else 0.0)

    def is_resized(self, other: Problem) -> bool:
        """Whether two layers differ only in N, C, H, W, K, accuracy, workspace and nonfinite. A winner under another
        accuracy or `nonfinite` is right wherever its family solves the problem.
        """
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
        spec = {**fields, **pairs, **words, "padding": [list(pads) for pads in self.padding], "dtype": str(self.dtype)}
        spec["workspace"] = self.workspace_limit  # never None, so that old and new stores agree
        if not self._other_dtype:
            del spec["dtype"]  # keeps the spec of float32 layers as stored before there were other types
        if self.nonfinite is NonFinite.ANY:
            del spec["nonfinite"]  # likewise for problems stored before this field
        else:
            spec["nonfinite"] = str(self.nonfinite)
        return spec

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Conv2d:
        return cls(**spec)

    def key(self) -> str:
        parts = {
            "pass": self.pass_,
            "input": _by_x(self.input),
            "weight": _by_x(self.weight),
            "precision": self.precision,
            "dtype": self.dtype if self._other_dtype else None,
            # The fields below appear only if they differ from the default, so that a key says what is special.
            "stride": None if self.stride == (1, 1) else _by_x(self.stride),
            "padding": None if self.padding == ((0, 0), (0, 0)) else "x".join(map(pads_text, self.padding)),
            "padding_mode": None if self.padding_mode is PaddingMode.ZEROS else self.padding_mode,
            "dilation": None if self.dilation == (1, 1) else _by_x(self.dilation),
            "groups": None if self.groups == 1 else self.groups,
            "layout": None if self.layout is ImageLayout.NCHW else self.layout,
            "bias": "yes" if self.bias else None,
            "relu": "yes" if self.relu else None,
            "accuracy": None if self.accuracy is Accuracy.NORMWISE else self.accuracy,
            "nonfinite": None if self.nonfinite is NonFinite.ANY else self.nonfinite,
            "workspace": self.workspace,
        }
        return " ".join([self.operation, *(f"{name}={value}" for name, value in parts.items() if value is not None)])


def _by_x(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))


def strides_of(shape: tuple[int, ...], dtype: DType, layout: ImageLayout) -> tuple[int, ...]:
    """Byte strides; () for C order, which a bias always has."""
    if layout is ImageLayout.NCHW or len(shape) != 4:
        return ()
    _, channels, rows, columns = shape
    pixel = channels * dtype.itemsize
    return rows * columns * pixel, dtype.itemsize, columns * pixel, pixel
