"""The arrays of a convolution layer, by its pass: shapes, element type, and strides by the layout of its images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.problem import DType, Operand, Role

if TYPE_CHECKING:
    from warpsmith.generator.conv2d.layer.problem import Conv2d


def operands_of(layer: Conv2d) -> tuple[Operand, ...]:
    """The inputs in the order in which a plan is called, then the result."""
    y_shape = (layer.input[0], layer.weight[0], *layer.output_size)
    x, w, y = layer.input, layer.weight, y_shape
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    match layer.pass_:
        case Pass.FPROP:
            shapes = (("x", x), ("w", w), ("b", w[:1]), ("y", y))
        case Pass.DGRAD:
            shapes = (("dy", y), ("w", w), ("b", x[1:2]), ("dx", x))
        case Pass.WGRAD:
            shapes = (("x", x), ("dy", y), ("dw", w))
    *inputs, (result, result_shape) = [each for each in shapes if layer.bias or each[0] != "b"]

    def operand(name: str, role: Role, shape: tuple[int, ...]) -> Operand:
        return Operand(name, role, shape, layer.dtype, strides_of(shape, layer.dtype, layer.layout))

    return (*(operand(name, Role.INPUT, shape) for name, shape in inputs), operand(result, Role.OUTPUT, result_shape))


def strides_of(shape: tuple[int, ...], dtype: DType, layout: ImageLayout) -> tuple[int, ...]:
    """Byte strides; () for C order, which a bias always has."""
    if layout is ImageLayout.NCHW or len(shape) != 4:
        return ()
    _, channels, rows, columns = shape
    pixel = channels * dtype.itemsize
    return rows * columns * pixel, dtype.itemsize, columns * pixel, pixel
