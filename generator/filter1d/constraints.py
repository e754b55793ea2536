"""Constraints that several families of filters share."""

from __future__ import annotations

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.space import Constraint


def aligned_rows(problem: Filter1d) -> tuple[Constraint, ...]:
    """Constraints of accesses to rows of a signal and of a result, of several channels."""
    pitch, out_pitch = pitches(problem)
    several = problem.rows > 1
    return (
        Constraint(
            f"loads of channels {pitch} samples apart are aligned only where their width divides that",
            lambda load_vector: not several or pitch % load_vector == 0,
        ),
        Constraint(
            f"stores to channels {out_pitch} outputs apart are aligned only where their width divides that",
            lambda store_vector: not several or out_pitch % store_vector == 0,
        ),
    )


def channel_blocks(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    """Constraints of blocks whose columns are vectors of channels side by side."""
    threads = device.threads_per_multiprocessor
    return (
        Constraint(
            "a block has 32 to 512 threads: more leave the multiprocessor no choice",
            lambda block_columns, block_rows: 32 <= block_columns * block_rows <= 512,
        ),
        Constraint(
            f"a multiprocessor holds {threads} threads",
            lambda block_columns, block_rows, min_blocks: min_blocks * block_columns * block_rows <= threads,
        ),
        Constraint(
            f"a block wider than twice the {problem.channels} channels is a narrower one",
            lambda vector, block_columns: block_columns == 1 or vector * block_columns < 2 * problem.channels,
        ),
    )
