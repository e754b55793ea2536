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

import dataclasses
from functools import cached_property
from math import ceil, gcd, prod

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.problem import Fft, Layout, Order
from warpsmith.generator.fft.signals import dimensions
from warpsmith.generator.fft.text import (
    PACKED,
    Packing,
    Stores,
    Twiddles,
    complex_columns,
    frequency_place,
    half_scale,
    scale,
    text_key,
)
from warpsmith.generator.fft.warp_lanes import First, Spread, WarpChoice, WarpTwiddles, spreads
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space


@dataclasses.dataclass(frozen=True, slots=True)
class WarpSide:
    """Loads or stores of the lanes: the signal or the spectrum."""

    kind: str
    """complex, pair (of real signals), columns (two real ones as a complex one) or spectra (of real signals)."""
    element: str
    """CUDA expression of the place of register j's element in a transform's part of memory."""
    inside: str = ""
    """CUDA condition under which the element exists; empty if it always does."""
    inside_second: str = ""
    """CUDA condition for the second real number of a complex one; empty if it always exists."""
    width: int = 1
    """Consecutive elements per vector access."""


@dataclasses.dataclass(frozen=True)
class FftWarpText:
    """Sizes, places and twiddles of the kernel. A group of lanes has one complex transform at a time."""

    problem: Fft
    choice: WarpChoice

    @classmethod
    def of(cls, problem: Fft, config: Config) -> FftWarpText:
        return cls(problem, WarpChoice.of(config))

    @property
    def summary(self) -> tuple[str, ...]:
        return _summary(self)

    @property
    def is_flat(self) -> bool:
        return len(self.problem.size) == 1

    @property
    def columns(self) -> int:
        """Complex numbers of a row, after packing."""
        return complex_columns(self.problem, self.choice.packing)

    @property
    def lanes(self) -> int:
        """Lanes that share a transform."""
        return self.spreads[0].lanes

    @property
    def lane_shift(self) -> int:
        """Right shift that leaves the bits of a lane of a bit-reversed 32-bit number."""
        return 33 - self.lanes.bit_length()

    @cached_property
    def spreads(self) -> tuple[Spread, Spread]:
        return spreads(self.problem, self.choice)

    @property
    def lanes_first(self) -> bool:
        return self.choice.first is First.LANES

    @property
    def factors(self) -> WarpTwiddles:
        return WarpTwiddles(self.problem, self.choice)

    @property
    def transforms(self) -> int:
        """Complex transforms of the batch."""
        return ceil(self.problem.batch / self.choice.packing.transforms)

    @property
    def blocks(self) -> int:
        groups = 32 * self.choice.warps // self.lanes
        return ceil(self.transforms / (groups * self.choice.repeats))

    @property
    def lacks_second(self) -> bool:
        """True if the last pair has only one transform."""
        return self.choice.packing is Packing.PAIR and self.problem.batch % 2 == 1

    @property
    def key(self) -> str:
        return text_key(self.problem)

    @property
    def scale(self) -> str:
        return scale(self.problem)

    @property
    def half_scale(self) -> str:
        return half_scale(self.problem)

    @property
    def codelets(self) -> tuple[Codelet, ...]:
        points = frozenset({self.choice.points} - {1})
        return codelets(points, inverse=self.problem.inverse is True)

    @cached_property
    def input(self) -> WarpSide:
        return self._spectrum(self.spreads[0]) if self.problem.inverse else self._signal(self.spreads[0])

    @cached_property
    def output(self) -> WarpSide:
        return self._signal(self.spreads[1]) if self.problem.inverse else self._spectrum(self.spreads[1])

    @property
    def input_pitch(self) -> int:
        """Elements, of the array's type, from one transform of the problem to the next."""
        return prod(self.problem.spectrum_size if self.problem.inverse else self.problem.signal_size)

    @property
    def output_pitch(self) -> int:
        return prod(self.problem.signal_size if self.problem.inverse else self.problem.spectrum_size)

    @property
    def signal_type(self) -> str:
        return "float" if self.problem.is_real else "float2"

    @property
    def spectrum_place(self) -> str:
        """CUDA expression of the place of frequency x, or (y, x), in a transform's spectrum; empty if it is x."""
        return _spectrum_place(self.problem)

    def _signal(self, spread: Spread) -> WarpSide:
        columns, packing = self.problem.signal_size[-1], self.choice.packing
        inside, inside_second = _inside(self.problem, packing, spread)
        kind = {Packing.COMPLEX: "complex", Packing.PAIR: "pair", Packing.HALF: "columns"}[packing]
        if packing is Packing.HALF and columns % 2 == 0:
            kind, columns = "complex", columns // 2
        x = f"2 * ({spread.text('j')})" if kind == "columns" else spread.text("j")
        element = x if self.is_flat else f"j * {columns} + {x}"
        width = 1
        if kind != "columns" and spread.lane_weight > 1:
            width = gcd(columns, self.choice.points, 4 if kind == "pair" else 2)
        return WarpSide(kind, element, inside, inside_second, width)

    def _spectrum(self, spread: Spread) -> WarpSide:
        kind = "spectra" if self.problem.is_real else "complex"
        place = spread.text("j") if self.is_flat else f"j, {spread.text('j')}"
        if self.problem.is_real or self.spectrum_place:
            return WarpSide(kind, f"spectrum_offset({place})")
        return WarpSide(kind, place, width=gcd(self.choice.points, 2) if spread.lane_weight > 1 else 1)


def _summary(g: FftWarpText) -> tuple[str, ...]:
    size = dimensions((*g.problem.size[:-1], g.columns))
    direction = "Inverse" if g.problem.inverse else "Forward"
    order = "lanes first" if g.lanes_first else "registers first"
    return (
        f"{direction} transforms of {size} complex numbers, each in the registers of {g.lanes} lanes of a warp:",
        f"{g.choice.points} points within a lane, {g.lanes} across by shuffles, {order}.{PACKED[g.choice.packing]}",
    )


def _inside(problem: Fft, packing: Packing, spread: Spread) -> tuple[str, str]:
    """CUDA conditions under which a signal's element, and the second real one beside it, exist; empty if always."""
    rows = []
    if len(problem.size) == 2 and problem.signal_size[0] < problem.size[0]:
        rows.append(f"j < {problem.signal_size[0]}")
    columns, all_columns = problem.signal_size[-1], problem.size[-1]
    first, second = ceil(columns / 2), columns // 2
    if packing is not Packing.HALF:
        first = second = columns
    else:
        all_columns //= 2
    x = spread.text("j")
    inside = [*rows, f"{x} < {first}"] if first < all_columns else rows
    inside_second = [*rows, f"{x} < {second}"] if second < all_columns else rows
    return " && ".join(inside), " && ".join(inside_second)


def _spectrum_place(problem: Fft) -> str:
    y, x = frequency_place(problem)
    if len(problem.size) == 2:
        return f"{y} * {problem.spectrum_size[-1]} + {x}"
    return x if x != "x" or problem.is_real else ""


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
