"""Constraints on the registers that a config's launch bounds leave a thread, for a pass's numbers and all else."""

from __future__ import annotations

from warpsmith.generator.device import Device
from warpsmith.generator.fft.block.accesses import spectrum_accesses
from warpsmith.generator.fft.block.block_choice import Access, radices_of
from warpsmith.generator.fft.block.mirrored import radix_of_sets
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.space import Constraint

TOGETHER = 8
"""Registers per thread come in multiples of 8: a warp gets 256 at once (compute capability 3.0 and later)."""
LEAST_REGISTERS = 40
"""Least registers per thread, whatever the radices: ptxas 13.0 miscompiled a config with 32, and no shipped winner has
fewer than 56."""
OTHER_REGISTERS = 16
"""Registers per thread besides a pass's numbers: with fewer, 87% of configs spill; 28 and 32 points do with 72 and
80."""


def register_constraints(problem: Fft, device: Device, radices: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Constraints on registers. The one for a single block lets a walk through the space turn back early."""
    names = (*radices, "spectrum") if Access.MIRRORED in spectrum_accesses(problem) else radices
    have = f"a thread has {LEAST_REGISTERS} registers, and {OTHER_REGISTERS} beside its numbers of a pass"

    def suffice(threads: int, *words: str) -> bool:
        left = device.thread_registers(threads) // TOGETHER * TOGETHER
        return left >= max(LEAST_REGISTERS, _numbers(problem, *words) + OTHER_REGISTERS)

    return (
        Constraint(f"{have}: one block has {device.registers_per_multiprocessor} in all", suffice, ("threads", *names)),
        Constraint(
            f"{have}: the blocks of a multiprocessor share {device.registers_per_multiprocessor}",
            lambda threads, tiles, min_blocks, *words: suffice(threads * tiles * max(1, min_blocks), *words),
            ("threads", "tiles", "min_blocks", *names),
        ),
    )


def _numbers(problem: Fft, x_radices: str, y_radices: str = "1", spectrum: str = "") -> int:
    """Registers for the numbers of the largest pass: two per point, for two sets of points if they are mirrored."""
    x = radices_of(x_radices)
    sets = 2 * radix_of_sets(problem, x) if spectrum == Access.MIRRORED else 1
    return 2 * max(*x, *radices_of(y_radices), sets)
