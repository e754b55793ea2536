"""Registers and shared memory of `filter2d_warpgroup`, and the parts into which they force a filter to be split."""

from __future__ import annotations

from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import Weights, is_strict
from warpsmith.generator.filter2d.warpgroup.warpgroup_geometry import (
    BEFORE_LAST_SEGMENT,
    SEGMENT,
    WHOLE_ROWS,
    Frame,
    batch_rows,
    batches,
    depth,
    part_rows,
    pixel_registers,
)
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Constraint, Value

PARTS = (1, 2, 3, 4)
"""Parts of filters with more than WHOLE_ROWS rows."""
PART_REGISTERS = 8
"""Registers of a thread besides, for a filter in parts: the sums in the result, and their places."""
SPILLED = 12
"""Registers that a thread may lack: values unused in the loop are spilled, which one more warpgroup can be worth."""
LEAST_REGISTERS = 64
"""Least registers of a thread: with 56 ptxas serialises the products of small filters, with 40 it finds too few."""
LEAST_REGISTERS_AHEAD = 112
"""Least registers of a thread with two rows of products in flight: 96 are too few for 3x3 and 5x5."""
LOADS_REGISTERS = 6
"""Registers of a thread besides, if loads make the border: the sources of an image row and of its edges."""


def parts_choices(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """Numbers of parts of the filter that fit; only 1 if it is never split.

    A part's sums lie in the result until the next part adds its own, so the result must be float32.
    """
    if problem.filter[0] <= WHOLE_ROWS or problem.output_dtype is not DType.FLOAT32:
        return (1,)
    return tuple(each for each in PARTS if each == 1 or fits(problem, device, Weights.ARGUMENT, each))


def weights_choices(problem: Filter2d, device: Device) -> list[Weights]:
    """Places of the weights for which a thread's registers and a block's shared memory suffice."""
    choices = [Weights.ARGUMENT, Weights.CONSTANT, *([Weights.LITERAL] if separable_terms(problem) else [])]
    parts = parts_choices(problem, device)
    return [each for each in choices if any(fits(problem, device, each, number) for number in parts)]


def fits(problem: Filter2d, device: Device, weights: Weights, parts: int) -> bool:
    """True if a thread's registers and a block's shared memory suffice."""
    if parts > 1 and weights is Weights.LITERAL:
        return False
    registers = thread_registers(problem, weights, parts=parts)
    return registers <= device.limits.registers_per_thread and has_shared(problem, device, weights, 1, parts=parts)


def matrix_rows(problem: Filter2d, weights: Weights, parts: int) -> int:
    """Rows of weights in a matrix B: those of a part, of a batch, or of the filter's separable terms."""
    if weights is Weights.LITERAL:
        return len(separable_terms(problem))
    return batch_rows(problem, weights, parts)


def has_shared(
    problem: Filter2d, device: Device, weights: Weights, prefetch: int, warpgroups: int = 1, parts: int = 1
) -> bool:
    """True if a block has the shared memory that it needs."""
    needed = shared_bytes(problem, weights, prefetch, warpgroups, parts)
    asked_for = asked_for_bytes(problem, weights)
    return needed <= device.shared_per_block_bytes and needed - asked_for <= STATIC_SHARED_BYTES


def asked_for_bytes(problem: Filter2d, weights: Weights) -> int:
    """Bytes of dynamic shared memory for the matrices; 0 if static shared memory has room for them.

    A filter with a float32 result is split into parts instead.
    """
    if problem.output_dtype is DType.FLOAT32 or shared_bytes(problem, weights, 1) <= STATIC_SHARED_BYTES:
        return 0
    return factor_bytes(problem, weights)


def factor_bytes(problem: Filter2d, weights: Weights, parts: int = 1) -> int:
    """Bytes of both tf32 parts of the Toeplitz matrix, for all batches."""
    return 2 * 4 * depth(problem) * SEGMENT * matrix_rows(problem, weights, parts) * batches(problem, weights)


def shared_bytes(problem: Filter2d, weights: Weights, prefetch: int, warpgroups: int = 1, parts: int = 1) -> int:
    """Bytes of shared memory per block: the matrices, and for each warp its ring of rows and where it begins."""
    ring = (prefetch + 1) * (BEFORE_LAST_SEGMENT + depth(problem)) * problem.dtype.itemsize
    first = 4 if is_strict(problem) else 0
    return factor_bytes(problem, weights, parts) + 4 * warpgroups * (ring + first)


def least_registers(problem: Filter2d, weights: Weights, ahead: int, frame: Frame, parts: int) -> int:
    """Least registers of a thread for products that do not wait for each other."""
    needed = thread_registers(problem, weights, ahead, frame, parts)
    return max(needed, LEAST_REGISTERS_AHEAD) if ahead else max(needed - SPILLED, LEAST_REGISTERS)


def thread_registers(
    problem: Filter2d, weights: Weights, ahead: int = 0, frame: Frame = Frame.APART, parts: int = 1
) -> int:
    """Registers of a thread: products and sums of four outputs per filter row, pixels, and others read off ptxas."""
    outputs = matrix_rows(problem, weights, parts) * (1 + ahead) + part_rows(problem, parts) - 1
    besides = (LOADS_REGISTERS if frame is Frame.LOADS else 0) + (PART_REGISTERS if parts > 1 else 0)
    return 4 * outputs + pixel_registers(problem) * (1 + ahead) + 20 + 4 * ahead + besides


def limit_rules(problem: Filter2d, device: Device, named: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Constraints from registers and shared memory; `named` are this problem's optional parameters."""

    def has_room(weights: str, prefetch: int, block_groups: int, block_strips: int, *values: Value) -> bool:
        parts = int(dict(zip(named, values, strict=True)).get("parts", 1))
        return has_shared(problem, device, Weights(weights), prefetch, block_groups * block_strips, parts)

    def has_registers(
        weights: str, ahead: int, block_groups: int, block_strips: int, min_blocks: int, *values: Value
    ) -> bool:
        chosen = dict(zip(named, values, strict=True))
        frame, parts = Frame(str(chosen.get("frame", Frame.APART))), int(chosen.get("parts", 1))
        resident = 128 * block_groups * block_strips * max(1, min_blocks)
        if ahead and batches(problem, Weights(weights)) > 1:
            return False  # a row's own batches are in flight then
        return device.thread_registers(resident) >= least_registers(problem, Weights(weights), ahead, frame, parts)

    return (
        Constraint(
            f"weights and rows read ahead fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            has_room,
            ("weights", "prefetch", "block_groups", "block_strips", *named),
        ),
        Constraint(
            "blocks that must fit a multiprocessor leave each thread most of the registers that it needs",
            has_registers,
            ("weights", "ahead", "block_groups", "block_strips", "min_blocks", *named),
        ),
    )
