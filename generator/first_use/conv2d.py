"""Reference kernels of `conv2d`."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.first_use.reference import Reference, ResultFunction, Scale, packed, reference_program
from warpsmith.generator.problem import Accuracy, Operand


def conv2d_reference(problem: Conv2d, threads: int) -> Reference:
    """Reference whose sums are one result of a pass: all taps, channels or pixels that it adds."""
    by_role = {operand.name.removeprefix("d"): operand for operand in problem.operands}
    integers = {
        "pass_number": problem.pass_.number,
        "mode": problem.padding_mode.outside,
        "has_bias": int(problem.bias),
        "n_size": problem.input[0],
        **dict(zip(("c_size", "h_size", "w_size"), problem.input[1:], strict=True)),
        "k_size": problem.weight[0],
        **dict(zip(("r_size", "s_size"), problem.weight[2:], strict=True)),
        **dict(zip(("p_size", "q_size"), problem.output_size, strict=True)),
        "group_channels": problem.group_channels,
        "group_filters": problem.group_filters,
        **dict(zip(("padded_h", "padded_w"), problem.padded_size, strict=True)),
        **dict(zip(("stride_r", "stride_s"), problem.stride, strict=True)),
        **dict(zip(("dilation_r", "dilation_s"), problem.dilation, strict=True)),
        **{name: pads[0] for name, pads in zip(("pad_r", "pad_s"), problem.padding, strict=True)},
        **_strides("x", "nchw", by_role["x"]),
        **_strides("w", "kcrs", by_role["w"]),
        **_strides("y", "nkpq", by_role["y"]),
    }
    names = [operand.name for operand in problem.inputs]
    return Reference(
        program=reference_program("conv2d", threads, integers, {}, problem.dtype, problem.dtype),
        values=packed(integers, {}),
        inputs=(names[0], names[1], names[-1]),
        terms=problem.terms,
        term_cost=1,
        scale=Scale.NORM if problem.accuracy is Accuracy.NORMWISE else Scale.TERMS,
        function=ResultFunction.RELU if problem.relu else ResultFunction.IDENTITY,
    )


def _strides(name: str, axes: str, operand: Operand) -> dict[str, int]:
    return {f"{name}_{axis}": stride for axis, stride in zip(axes, operand.element_strides, strict=True)}
