"""Tile of samples in shared memory, and the sums of windows that a block's threads compute from it."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import Weights
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config, Constraint, Parameter, words

BUSY_BLOCKS = 4
"""Least blocks for each SM with which a default keeps larger blocks."""
UNROLLS = (4, 8, 16, 32, 64)


class Windows(enum.StrEnum):
    """Windows of a thread."""

    APART = "apart"
    """A block's threads apart: each product reads its element from shared memory."""
    BESIDE = "beside"
    """Side by side: a thread reads 16 bytes at a time and keeps the elements that its windows share in registers. The
    sums are exchanged through the tile, so that stores are of neighbours again."""

    @classmethod
    def of(cls, config: Config) -> Windows:
        return cls(config.text("windows"))


@dataclasses.dataclass(frozen=True, slots=True)
class WindowTile:
    """Sizes in elements: window w begins at element `w * down` of the tile and has `taps` elements.

    Thread t has the sums of the windows t, t + threads and so on. The elements of one tap under consecutive windows lie
    side by side, so that no two lanes of a warp read one bank: element i lies in phase i % down.
    """

    threads: int
    own: int
    """Windows of a thread."""
    taps: int
    down: int
    unroll: int
    """Taps that are unrolled."""
    chain: int
    """Taps that are added one after the other; longer sums are sums of such partial sums."""
    filled: int
    """Elements that windows with a result need; the others are left undefined."""
    number_bytes: int
    weight_bytes: int
    has_taps: bool
    """True if the taps lie in shared memory too."""
    is_beside: bool

    @classmethod
    def of(
        cls, problem: Filter1d, threads: int, count: int, unroll: int, weights: Weights, windows: Windows
    ) -> WindowTile:
        """Tile for `count` windows of `problem`."""
        complex64 = DType.COMPLEX64
        return cls(
            threads=threads,
            own=-(-count // threads),
            taps=problem.taps,
            down=problem.down,
            unroll=unroll,
            chain=min(CHAIN, problem.taps),
            filled=(count - 1) * problem.down + problem.taps,
            number_bytes=8 if problem.dtype is complex64 else 4,
            weight_bytes=8 if problem.weights_dtype is complex64 else 4,
            has_taps=weights is Weights.SHARED,
            is_beside=windows is Windows.BESIDE,
        )

    @property
    def elements(self) -> int:
        """Elements under all windows of all threads; some threads may have one window more than there are results. A
        thread whose windows lie side by side reads up to a vector beyond the last one.
        """
        return (self.own * self.threads - 1) * self.down + self.taps + self.vector * self.is_beside

    @property
    def vector(self) -> int:
        """Elements of 16 bytes."""
        return 16 // self.number_bytes

    @property
    def phase(self) -> int:
        """Elements of one phase: an odd number, so that the phases begin in different banks."""
        return -(-self.elements // self.down) | 1

    @property
    def places(self) -> int:
        """Elements of the tile's array."""
        return self.elements if self.down == 1 else self.down * self.phase

    @property
    def rounds(self) -> int:
        """Elements that every thread fills."""
        return self.filled // self.threads

    @property
    def halo(self) -> int:
        """Threads that fill one more: the first taps - 1, if these are fewer than a block's threads and all outputs
        are kept."""
        return self.filled % self.threads

    @property
    def shared_bytes(self) -> int:
        return self.places * self.number_bytes + self.has_taps * self.taps * self.weight_bytes


def windows_parameter(problem: Filter1d) -> Parameter:
    """Windows that lie side by side share elements in registers only if all outputs are kept."""
    ways = tuple(Windows) if problem.down == 1 else (Windows.APART,)
    return Parameter("windows", words(ways), "windows of a thread: a block's threads apart, or side by side")


def windows_constraint() -> Constraint:
    return Constraint(
        "a thread reads 16 bytes for windows that lie side by side: 4, 8 or 16 of them",
        lambda outputs, windows: windows == Windows.APART or outputs % 4 == 0,
    )


def unroll_parameter() -> Parameter:
    return Parameter("unroll", UNROLLS, "taps of a round of the loop over the taps")


def unroll_constraint(problem: Filter1d) -> Constraint:
    """Constraint on `unroll`: a longer loop than the filter is the same code as the shortest that covers it."""
    return Constraint(
        f"a loop over {problem.taps} taps is unrolled by no more than the next larger number",
        lambda unroll: unroll == UNROLLS[0] or unroll < 2 * problem.taps,
    )


def usual_unroll(problem: Filter1d) -> int:
    """The whole loop up to the largest of UNROLLS, else rounds of 16."""
    return next((each for each in UNROLLS if each >= problem.taps), 16)


def usual_block(problem: Filter1d, device: Device) -> tuple[int, int]:
    """Threads of a block and windows of a thread: the most whose blocks keep every SM busy and are no longer than a
    channel's result. Fewer than 16 taps need no more windows to hide the loads.
    """
    sizes = ((256, 8), (256, 4), (128, 4), (64, 4))
    for threads, own in sizes[0 if problem.taps >= 16 else 1 :]:
        blocks = problem.rows * -(-problem.result_length // (threads * own))
        if threads * own <= problem.result_length and blocks >= BUSY_BLOCKS * device.multiprocessors:
            return threads, own
    return sizes[-1]


def why_no_tile(problem: Filter1d, device: Device, threads: int) -> str | None:
    """Reason why no tile of a block of `threads` threads fits; None if one does."""
    tile = WindowTile.of(problem, threads, threads, UNROLLS[0], Weights.GLOBAL, Windows.APART)
    most = device.limits.static_shared_bytes
    if tile.shared_bytes > most:
        return (
            f"a tile for {problem.taps} taps, {problem.down} samples apart, takes {tile.shared_bytes} of {most} bytes"
        )
    return None
