"""A conv2d problem as text for CUDA: the variable `p` of its templates, and the arguments of their kernels."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Accuracy, DType, NonFinite
from warpsmith.generator.program import Pointer

SOURCE = {each: each.select("x", "dy", "x") for each in Pass}
"""The first images that a pass sums over; wgrad sums over dy, too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conv2dText:
    """Variable `p` of the templates. Sizes count elements; channels and filters are those of one group."""

    key: str
    pass_: Pass
    parameters: tuple[str, ...]
    """Parameter declarations of the kernel."""
    source: str
    result: str
    images: int
    groups: int
    channels: int
    filters: int
    rows: int
    columns: int
    filter_rows: int
    filter_columns: int
    output_rows: int
    output_columns: int
    stride_rows: int
    stride_columns: int
    dilation_rows: int
    dilation_columns: int
    above: int
    """Rows of padding above the image."""
    left: int
    padded_rows: int
    """Rows of the image with its padding."""
    padded_columns: int
    padding_mode: PaddingMode
    checks_rows: bool
    """Whether a tap can read padding above or below. `output_rows` is the number that fits, so no tap reads beyond the
    padding.
    """
    checks_columns: bool
    bias: bool
    relu: bool
    dtype: DType
    element: str
    """CUDA type of the inputs' elements."""
    result_element: str
    """CUDA type of the result's elements."""
    channels_last: bool
    is_large: bool
    """Whether elements are counted in 64 bits."""

    @property
    def index(self) -> str:
        """CUDA type of an index into an operand."""
        return "long long" if self.is_large else "int"

    @property
    def count(self) -> str:
        """CUDA type of what a grid counts: results, or positions."""
        return "unsigned long long" if self.is_large else "unsigned"

    @property
    def repeats(self) -> bool:
        """Whether the padding repeats pixels of the image instead of zeros."""
        return self.padding_mode is not PaddingMode.ZEROS

    @classmethod
    def of(cls, problem: Conv2d) -> Conv2dText:
        images, _, rows, columns = problem.input
        output_rows, output_columns = problem.output_size
        (above, _), (left, _) = problem.padding
        padded_rows, padded_columns = problem.padded_size
        checks_rows, checks_columns = (_reaches_outside(problem, axis) for axis in (0, 1))
        return cls(
            key=text_key(problem),
            pass_=problem.pass_,
            parameters=_parameters(problem),
            source=SOURCE[problem.pass_],
            result=problem.output.name,
            images=images,
            groups=problem.groups,
            channels=problem.group_channels,
            filters=problem.group_filters,
            rows=rows,
            columns=columns,
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            output_rows=output_rows,
            output_columns=output_columns,
            stride_rows=problem.stride[0],
            stride_columns=problem.stride[1],
            dilation_rows=problem.dilation[0],
            dilation_columns=problem.dilation[1],
            above=above,
            left=left,
            padded_rows=padded_rows,
            padded_columns=padded_columns,
            padding_mode=problem.padding_mode,
            checks_rows=checks_rows,
            checks_columns=checks_columns,
            bias=problem.bias,
            relu=problem.relu,
            dtype=problem.dtype,
            element=element_of(problem),
            result_element=element_of(problem),
            channels_last=problem.layout is ImageLayout.NHWC,
            is_large=problem.is_large,
        )

    def writing_float(self) -> Conv2dText:
        """The same text with a float32 result that has no bias and no ReLU yet; another kernel makes the layer's result
        of it.
        """
        inputs = tuple(each for each in self.parameters[:-1] if not (self.bias and each.endswith(" b")))
        result = f"float* __restrict__ {self.result}"
        return dataclasses.replace(self, parameters=(*inputs, result), result_element="float", bias=False, relu=False)


def text_key(problem: Conv2d) -> str:
    """Problem key in the header of generated source. It leaves out accuracy, nonfinite and workspace, on which no
    source depends, so a measured time holds for all their values.
    """
    usual = dataclasses.replace(problem, accuracy=Accuracy.NORMWISE, nonfinite=NonFinite.ANY, workspace=None)
    return usual.key()


def _reaches_outside(problem: Conv2d, axis: int) -> bool:
    """Whether some tap of some result reads padding, before the image or behind it."""
    before = problem.padding[axis][0]
    last = (problem.output_size[axis] - 1) * problem.stride[axis]
    last += (problem.weight[2 + axis] - 1) * problem.dilation[axis] - before
    return before > 0 or last >= problem.input[2 + axis]


def conv2d_arguments(problem: Conv2d) -> tuple[Pointer, ...]:
    """Pointers to all operands, inputs first, in the order of every template's parameters."""
    return tuple(Pointer(operand.name) for operand in problem.operands)


def element_of(problem: Conv2d) -> str:
    """CUDA type of an operand's elements; `Element` has the bits of a 16-bit float."""
    return "float" if problem.dtype is DType.FLOAT32 else "Element"


def _parameters(problem: Conv2d) -> tuple[str, ...]:
    element = element_of(problem)
    inputs = (f"const {element}* __restrict__ {operand.name}" for operand in problem.inputs)
    return (*inputs, f"{element}* __restrict__ {problem.output.name}")
