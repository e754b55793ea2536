"""How a transform of `fft_warp` lies on lanes and in their registers, and the steps between lanes: the numbers."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.fft.factors import reversed_bits
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.words import Packing, Stores, Twiddles, complex_columns
from warpsmith.generator.space import Config


class First(enum.StrEnum):
    """What is transformed first. It decides which side of memory neighbouring lanes reach at neighbouring places."""

    REGISTERS = "registers"
    """Lane l starts with elements l, l + lanes, ..., and ends with frequencies that follow each other."""
    LANES = "lanes"
    """Lane l starts with elements that follow each other, and ends with frequencies that are `lanes` apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A config, read."""

    packing: Packing
    points: int
    """Complex numbers of a transform in the registers of a lane; those of a column where there are two dimensions."""
    first: First
    warps: int
    """Of a block."""
    repeats: int
    """Transforms that a group of lanes does one after the other."""
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
    """Which of a row's numbers a lane has in register j: `lane * lane_weight + j * register_weight`."""

    lanes: int
    lane_weight: int
    register_weight: int
    is_reversed: bool
    """Whether the lane's bits are turned round first, as decimation in frequency leaves them."""

    def at(self, lane: int, j: int) -> int:
        """The number."""
        place = reversed_bits(lane, self.lanes) if self.is_reversed else lane
        return place * self.lane_weight + j * self.register_weight

    def text(self, j: str) -> str:
        """The same in CUDA."""
        lane = "reversed" if self.is_reversed else "lane"
        if self.lane_weight > 1:
            return f"{lane} * kPoints" + (f" + {j}" if j != "0" else "")
        return f"{lane} + {j} * kLanes" if self.register_weight > 1 and j != "0" else lane


def spreads(problem: Fft, choice: Choice) -> tuple[Spread, Spread]:
    """Where the numbers of a row lie at the start, and at the end.

    Of two dimensions these are the columns of both: rows lie in registers.
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
    """A step of radix 2 between lanes: the sum of two that are `distance` apart, in the upper one the difference.

    Two such steps make one of radix 4, with a quarter turn between them instead of a twiddle.
    """

    distance: int
    turns: bool
    """Whether a quarter turn follows, in lanes that are the upper ones of this step and of the next."""
    span: int
    """Lanes over which the twiddles that follow go once round; 0 where none follow."""
    radix: int
    """Of the transforms that end with this step."""

    def exponent(self, lane: int) -> int:
        """Of the root of order `span` that turns this lane."""
        if self.radix == 2:
            return lane // self.distance % 2 * (lane % self.distance)
        frequency = lane // (2 * self.distance) % 2 + lane // self.distance % 2 * 2
        return frequency * (lane % self.distance)

    @property
    def exponent_text(self) -> str:
        """The same in CUDA."""
        upper = f"lane / {self.distance} % 2"
        if self.radix == 2:
            return f"{upper} * (lane % {self.distance})"
        return f"(lane / {2 * self.distance} % 2 + {upper} * 2) * (lane % {self.distance})"


def lane_steps(lanes: int) -> tuple[LaneStep, ...]:
    """From a number in each lane to its transform, whose frequencies end in lanes with their bits turned round."""
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
    """What register j of a lane is turned by, between registers and lanes: the power j of the root with this exponent.

    Its order is the number of points.
    """
    return lane if first is First.REGISTERS else reversed_bits(lane, lanes)
