"""What the families of banded Toeplitz matrices can solve, and how they may split numbers."""

from __future__ import annotations

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_state
from warpsmith.generator.filter1d.text import why_no_gradient
from warpsmith.generator.filter1d.toeplitz_geometry import Split
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.tensor_cores import WARP

MAX_TAPS = 512
"""Most taps: tensor cores truncate each of the taps / 16 additions to a sum, and transforms are faster."""


def splits_of(problem: Filter1d) -> tuple[Split, ...]:
    """Splits that keep the problem's accuracy. 16-bit samples have the type of the parts."""
    if problem.dtype is DType.FLOAT32:
        is_signalwise = problem.accuracy is Accuracy.SIGNALWISE
        return (Split.HALVES, Split.BFLOATS) if is_signalwise else (Split.BFLOATS,)
    return (Split.HALVES,) if problem.dtype is DType.FLOAT16 else (Split.BFLOATS,)


def why_no_products(problem: Filter1d, device: Device, most_taps: int = MAX_TAPS, warps: int = WARP) -> str | None:
    """The reason why products of `warps` warps on a device's tensor cores cannot solve a problem, in one line; None if
    they can.
    """
    if (reason := why_no_gradient(problem) or why_no_state(problem)) is not None:
        return reason
    if problem.dtype is DType.FLOAT16 and problem.accuracy is not Accuracy.SIGNALWISE:
        return "loses bits of float16 samples below 2^-14, which accuracy elementwise does not allow"
    if problem.dtype is DType.FLOAT16 and problem.output_dtype is DType.FLOAT32:
        return "loses bits of float16 samples below 2^-14, which a float32 result would show"
    if problem.down > 1:
        return f"computes every output; this problem keeps every {problem.down}-th"
    if problem.taps > most_taps:
        return f"is for filters of {most_taps} taps at the most; this one has {problem.taps}"
    reasons = (device.why_no_tensor_instruction(split.tensor_type, warps) for split in splits_of(problem))
    return next((each for each in reasons if each is not None), None)
