"""FFTs within a warp, whose lanes exchange numbers by shuffles: no shared memory and no barrier.

A transform lies in the registers of 2 to 32 lanes, `points` complex numbers in each. The other lanes of the warp have
other transforms. One part of the algorithm works on the registers of a lane, the other across lanes, in steps of
radix 2 and 4 (decimation in frequency). Between them come twiddles, which each lane has from the start. A parameter
chooses which part comes first: it decides whether neighbouring lanes load neighbouring elements or store them
(`First`). An inverse transform has the same flow with conjugate twiddles, and starts from frequencies.

Frequencies end in lanes in bit-reversed order, and the address of a store puts them in order. Two real signals, or two
columns, make one complex signal. A lane separates their spectra with the help of the lane that has the mirrored
frequencies. In 2-D each lane has a column in its registers, and rows lie across lanes.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", sections 5.2 and 5.3. There a lane has n / 32
numbers and all steps have radix 2. Lanes there exchange twiddles by shuffles, where a lane here reads or computes the
two, at most, that it needs across lanes. There bits are reversed and 2-D transforms transposed in shared memory.
"""

from __future__ import annotations

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.problem import Fft, Layout, Order
from warpsmith.generator.fft.shapes import dimensions
from warpsmith.generator.fft.warp.lanes import First
from warpsmith.generator.fft.warp.warp_text import FftWarpText
from warpsmith.generator.fft.words import Packing, Stores, Twiddles, complex_columns
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

LARGEST = {1: 512, 2: 32}
"""Most points along an axis, by the number of axes: the paper's limit of registers, and the lanes of a warp."""
LIKELY_POINTS = 128
"""Most points of a row for which shipped winners are mostly of this family."""
MOST_KEPT = 16
"""Most points per lane whose twiddles can stay in registers: for 32 points they take 62 beside 64, and ptxas spills a
few."""
LEAST_OTHERS = 16
"""Registers of a thread besides: ptxas takes at least 32, 48 and 80 in all for 8, 16 and 32 points (sm_90)."""
_STORES = tuple(each.value for each in (Stores.PLAIN, Stores.STREAMING))


class FftWarp(Family[Fft]):
    """`fft` of small power-of-two sizes."""

    name = "fft_warp"

    def why_not(self, problem: Fft, device: Device) -> str | None:
        largest = LARGEST[len(problem.size)]
        if max(problem.size) > largest or any(points & (points - 1) for points in problem.size):
            return f"transforms powers of two up to {dimensions((largest,) * len(problem.size))} only"
        if problem.start is not None:
            return "takes signals that begin at the first point only"
        if problem.tiling is not None:
            return "takes whole signals, no tiles of planes"
        if problem.border is not None:
            return "reads signals without a border only"
        if problem.layout is not Layout.BATCH:
            return "reads and writes spectra in batch layout only"
        if not _packings(problem):
            return "takes two signals of two columns as one, and these are apart"
        return None

    def is_likely(self, problem: Fft, device: Device) -> bool:
        """True on a GPU for 1-D transforms of up to 128 points: it won 39 of 49 there, and one 2-D transform (H200)."""
        size = problem.size
        return device.kind is DeviceKind.CUDA and len(size) == 1 and size[0] <= LIKELY_POINTS

    def space(self, problem: Fft, device: Device) -> Space:
        return Space(_parameters(problem), _constraints(problem, device))

    def default(self, problem: Fft, device: Device) -> Config:
        wanted = {
            "packing": _packings(problem)[0].value,
            "points": _usual_points(problem.size[-1]),
            "first": _usual_first(problem).value,
            "warps": 4,
            "repeats": 1,
            "twiddles": Twiddles.POWERS.value,
            "stores": Stores.PLAIN.value,
            "min_blocks": 0,
        }
        space = self.space(problem, device)
        config = space.like(wanted)
        if config is None:
            raise ValueError(f"the space of {problem.key()} is empty")
        return config

    def program(self, problem: Fft, config: Config) -> Program:
        text = FftWarpText.of(problem, config)
        source = render("fft/warp.cu.jinja", g=text, config=config.key())
        arguments = tuple(Pointer(operand.name) for operand in problem.operands)
        launch = Launch.of_blocks(self.name, text.blocks, 32 * text.choice.warps, arguments)
        return Program.of_source(self.name, config, source, (launch,))


def _packings(problem: Fft) -> tuple[Packing, ...]:
    """The ways to make a real `problem` complex, the usual one first."""
    if not problem.is_real:
        return (Packing.COMPLEX,)
    able = (Packing.PAIR, Packing.HALF) if problem.size[-1] >= 4 else (Packing.PAIR,)
    return tuple(each for each in able if problem.may_pair or each is not Packing.PAIR)


def _usual_points(points: int) -> int:
    """Points per lane: 8, fewer for a small transform, and more for one that fills all 32 lanes."""
    return max(1, points // 32, min(8, points // 4))


def _usual_first(problem: Fft) -> First:
    """The part that comes first so that neighbouring lanes store neighbouring elements; loads can stay in the L1 cache.

    In reversed order the frequencies of a lane's registers lie apart. A half spectrum has an odd number of columns, so
    it is read 8 bytes at a time, and twice. Neighbouring lanes therefore read neighbours of it, and a signal is stored
    16 bytes at a time.
    """
    is_natural = problem.order is Order.NATURAL
    if problem.inverse:
        return First.REGISTERS if is_natural and problem.is_real else First.LANES
    return First.LANES if is_natural else First.REGISTERS


def _parameters(problem: Fft) -> tuple[Parameter, ...]:
    columns = problem.size[-1]
    is_flat = len(problem.size) == 1
    points = tuple(1 << bit for bit in range(6) if 2 << bit <= columns) if is_flat else (problem.size[0],)
    firsts = tuple(First) if is_flat else (First.REGISTERS,)
    return (
        Parameter("packing", tuple(each.value for each in _packings(problem)), "how real signals become complex ones"),
        Parameter("points", points, "complex numbers of a transform, or of a column, in the registers of a lane"),
        Parameter("first", tuple(each.value for each in firsts), "what is transformed first"),
        Parameter("twiddles", tuple(each.value for each in Twiddles), "where twiddle factors come from"),
        Parameter("warps", (1, 2, 4, 8), "of a block"),
        Parameter("repeats", (1, 2, 4), "transforms that the same lanes do one after the other"),
        Parameter("stores", _STORES, "whether results are marked as not read soon"),
        Parameter("min_blocks", (0, 2, 3, 4, 6, 8, 12, 16), "blocks a multiprocessor must hold; 0 leaves it open"),
    )


def _constraints(problem: Fft, device: Device) -> tuple[Constraint, ...]:
    is_flat = len(problem.size) == 1

    def lanes(packing: object, points: int) -> int:
        columns = complex_columns(problem, Packing(str(packing)))
        return columns // points if is_flat else columns

    return (
        Constraint(
            "2 to 32 lanes share a transform",
            lambda packing, points: 2 <= lanes(packing, points) <= 32,
        ),
        Constraint(
            "with one point to a lane it is all the same what comes first",
            lambda points, first: points > 1 or first == First.REGISTERS,
        ),
        Constraint(
            "powers of a twiddle are more than one from 4 points to a lane on",
            lambda points, twiddles: twiddles != Twiddles.POWERS or (is_flat and points >= 4),
        ),
        Constraint(
            "a single point to a lane, and 4 lanes, need no twiddles",
            lambda packing, points, twiddles: (
                twiddles == Twiddles.TABLE
                or (is_flat and points > 1)
                or lanes(packing, points) > 4
                or packing == Packing.HALF
            ),
        ),
        Constraint(
            f"there are {problem.batch} transforms in all",
            lambda packing, points, warps, repeats: (
                warps * repeats == 1
                or 32 * warps // lanes(packing, points) * repeats * Packing(packing).transforms <= problem.batch
            ),
        ),
        *_room(device, is_flat=is_flat),
    )


def _room(device: Device, *, is_flat: bool) -> tuple[Constraint, ...]:
    registers, threads = device.registers_per_multiprocessor, device.threads_per_multiprocessor

    def taken(points: int, repeats: int) -> int:
        """Registers of a thread: its numbers, twiddles kept between transforms, and LEAST_OTHERS."""
        kept = 2 * (points - 1) if is_flat and repeats > 1 else 0
        return 2 * points + kept + LEAST_OTHERS

    return (
        Constraint(
            f"twiddles of more than {MOST_KEPT} points do not stay in registers from one transform to the next",
            lambda points, repeats: repeats == 1 or points <= MOST_KEPT or not is_flat,
        ),
        Constraint(
            f"a multiprocessor holds {threads} threads",
            lambda warps, min_blocks: 32 * warps * min_blocks <= threads,
        ),
        Constraint(
            f"a multiprocessor has {registers} registers; a thread takes those of its numbers and {LEAST_OTHERS}",
            lambda points, warps, repeats, min_blocks: (
                32 * warps * max(1, min_blocks) * taken(points, repeats) <= registers
            ),
        ),
    )
