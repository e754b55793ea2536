"""Numbers of `fft_warp`: how a transform lies in lanes and their registers, and the steps between lanes."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.fft.factors import reversed_bits
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.words import Packing, Stores, Twiddles, complex_columns
from warpsmith.generator.space import Config


class First(enum.StrEnum):
    """Part that is transformed first. It decides whether loads or stores of neighbouring lanes are neighbours."""

    REGISTERS = "registers"
    """Lane l starts with elements l, l + lanes, ..., and ends with frequencies that follow each other."""
    LANES = "lanes"
    """Lane l starts with elements that follow each other, and ends with frequencies that are `lanes` apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A config of `fft_warp`, read."""

    packing: Packing
    points: int
    """Complex numbers of a transform in the registers of a lane; of a column if there are two dimensions."""
    first: First
    warps: int
    """Warps per block."""
    repeats: int
    """Transforms that a group of lanes computes one after the other."""
    twiddles: Twiddles
    stores: Stores
    min_blocks: int

    @classmethod
    def of(cls, config: Config) -> Choice:
        return cls(
            packing=Packing(config.text("packing")),
            points=config.integer("points"),
            first=First(config.text("first")),
            warps=config.integer("warps"),
            repeats=config.integer("repeats"),
            twiddles=Twiddles(config.text("twiddles")),
            stores=Stores(config.text("stores")),
            min_blocks=config.integer("min_blocks"),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Number of a row that a lane has in register j: `lane * lane_weight + j * register_weight`."""

    lanes: int
    lane_weight: int
    register_weight: int
    is_reversed: bool
    """True if the lane's bits are reversed first, as decimation in frequency leaves them."""

    def at(self, lane: int, j: int) -> int:
        """The number in register j of a lane."""
        place = reversed_bits(lane, self.lanes) if self.is_reversed else lane
        return place * self.lane_weight + j * self.register_weight

    def text(self, j: str) -> str:
        """CUDA text of `at`."""
        lane = "reversed" if self.is_reversed else "lane"
        if self.lane_weight > 1:
            return f"{lane} * kPoints" + (f" + {j}" if j != "0" else "")
        return f"{lane} + {j} * kLanes" if self.register_weight > 1 and j != "0" else lane


def spreads(problem: Fft, choice: Choice) -> tuple[Spread, Spread]:
    """Spreads of a row's numbers before and after the transform.

    In two dimensions both spread the columns over lanes; the rows lie in registers.
    """
    lanes = complex_columns(problem, choice.packing)
    if len(problem.size) == 2:
        return Spread(lanes, 1, 0, False), Spread(lanes, 1, 0, True)
    lanes //= choice.points
    apart, together = (1, lanes), (choice.points, 1)
    if choice.first is First.LANES:
        apart, together = together, apart
    return Spread(lanes, *apart, False), Spread(lanes, *together, True)


@dataclasses.dataclass(frozen=True, slots=True)
class LaneStep:
    """Radix-2 step between lanes `distance` apart: the lower one takes the sum, the upper one the difference.

    Two such steps make one of radix 4, with a quarter turn between them instead of a twiddle.
    """

    distance: int
    turns: bool
    """True if a quarter turn (times i or -i) follows in lanes that are upper in this step and in the next."""
    span: int
    """Order of the roots of the twiddles that follow, in lanes; 0 if none follow."""
    radix: int
    """Radix of the transforms that end with this step."""

    def exponent(self, lane: int) -> int:
        """Exponent of the root of order `span` that this lane multiplies by."""
        if self.radix == 2:
            return lane // self.distance % 2 * (lane % self.distance)
        frequency = lane // (2 * self.distance) % 2 + lane // self.distance % 2 * 2
        return frequency * (lane % self.distance)

    @property
    def exponent_text(self) -> str:
        """CUDA text of `exponent`."""
        upper = f"lane / {self.distance} % 2"
        if self.radix == 2:
            return f"{upper} * (lane % {self.distance})"
        return f"(lane / {2 * self.distance} % 2 + {upper} * 2) * (lane % {self.distance})"


def lane_steps(lanes: int) -> tuple[LaneStep, ...]:
    """Steps that transform one number per lane; the frequencies end in bit-reversed lanes."""
    steps, span = [], lanes
    if lanes.bit_length() % 2 == 0:
        steps.append(LaneStep(lanes // 2, False, lanes if lanes > 2 else 0, 2))
        span //= 2
    while span > 1:
        steps.append(LaneStep(span // 2, True, 0, 2))
        steps.append(LaneStep(span // 4, False, span if span > 4 else 0, 4))
        span //= 4
    return tuple(steps)


def twiddle_exponent(first: First, lanes: int, lane: int) -> int:
    """Exponent of the root whose j-th power multiplies register j between registers and lanes.

    The order of the root is the number of points.
    """
    return lane if first is First.REGISTERS else reversed_bits(lane, lanes)
