"""Numbers of `fft_warp`: how a transform lies in lanes and their registers, and the steps between lanes."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.fft.axes import reversed_bits, root
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.text import Packing, Power, Stores, Table, Twiddles, complex_columns, half_root, powers_of
from warpsmith.generator.render import float_literal
from warpsmith.generator.space import Config


class First(enum.StrEnum):
    """Part that is transformed first. It decides whether loads or stores of neighbouring lanes are neighbours."""

    REGISTERS = "registers"
    """Lane l starts with elements l, l + lanes, ..., and ends with frequencies that follow each other."""
    LANES = "lanes"
    """Lane l starts with elements that follow each other, and ends with frequencies that are `lanes` apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class WarpChoice:
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
    def of(cls, config: Config) -> WarpChoice:
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


def spreads(problem: Fft, choice: WarpChoice) -> tuple[Spread, Spread]:
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


@dataclasses.dataclass(frozen=True, slots=True)
class WarpTwiddles:
    """Factors by which a lane multiplies its numbers; it loads or computes all of them before its first transform."""

    problem: Fft
    choice: WarpChoice

    @property
    def steps(self) -> tuple[LaneStep, ...]:
        """Steps between lanes."""
        return lane_steps(self._lanes)

    @property
    def are_twiddles(self) -> bool:
        """True if twiddles lie between registers and lanes; in two dimensions the two are independent axes."""
        return len(self.problem.size) == 1 and self.choice.points > 1

    @property
    def twiddles(self) -> tuple[tuple[int, str], ...]:
        """Registers and CUDA expressions of their twiddles: a table's entry, a root, or a product of two."""
        found = list[tuple[int, str]]()
        for power in self._powers:
            if power.row >= 0:
                factor = f"kTwiddles[{f'{power.row} * kLanes + ' if power.row else ''}lane]"
            elif power.angle:
                factor = f"exp_pi_i({power.angle} * {self._root_lane})"
            else:
                factor = f"times(twiddle[{power.factors[0]}], twiddle[{power.factors[1]}])"
            found.append((power.exponent, factor))
        return tuple(found)

    @property
    def half_roots(self) -> tuple[str, ...]:
        """CUDA expressions of the factors that separate or pack two columns, for each register that needs one."""
        if self.choice.packing is not Packing.HALF:
            return ()
        inverse, size = self.problem.inverse, self.problem.size[-1]
        spread = spreads(self.problem, self.choice)[0 if inverse else 1]
        # Forward, a register's frequencies and their mirror images have one factor.
        count = self.choice.points if inverse else self.choice.points // 2 + (spread.register_weight <= 1)
        first = f"{'times_i' if inverse else 'times_minus_i'}(exp_pi_i({self.angle(size)} * {spread.text('0')}))"
        found = []
        for j in range(count if len(self.problem.size) == 1 else 1):
            factor = root((j if inverse else -j) * spread.register_weight, size)
            product = f"times(packing_twiddle[0], {float_literal(factor.real)}, {float_literal(factor.imag)})"
            is_computed = self.choice.twiddles is Twiddles.COMPUTED
            found.append((product if j else first) if is_computed else f"kPackingTwiddles[{spread.text(str(j))}]")
        return tuple(found)

    @property
    def half_meaning(self) -> str:
        """Formula of the factors `half_roots` for frequency x."""
        return half_root(self.problem)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables that the kernel reads from memory."""
        if self.choice.twiddles is Twiddles.COMPUTED:
            return ()
        sign, tables = self._sign, []
        powers = [power.exponent for power in self._powers if power.row >= 0]
        if powers:
            exponents = [twiddle_exponent(self.choice.first, self._lanes, lane) for lane in range(self._lanes)]
            values = [self._directed(root(j * exponent, self._columns)) for j in powers for exponent in exponents]
            indices = f"j = {', '.join(map(str, powers))} and each lane"
            meaning = f"exp({sign}2 pi i j {self._root_lane} / {self._columns}) for {indices}."
            tables.append(Table.of("kTwiddles", values, meaning))
        for step in (step for step in self.steps if step.span):
            values = [self._directed(root(step.exponent(lane), step.span)) for lane in range(step.span)]
            meaning = f"exp({sign}2 pi i ({step.exponent_text}) / {step.span})."
            tables.append(Table.of(f"kRoots{step.span}", values, meaning))
        if self.half_roots:
            values = [self._directed(root(x, self.problem.size[-1]) * 1j) for x in range(self._columns)]
            tables.append(Table.of("kPackingTwiddles", values, f"{self.half_meaning}."))
        return tuple(tables)

    def angle(self, order: int) -> str:
        """Literal angle of the first root of that order, in units of pi."""
        return float_literal(self._turn / order)

    @property
    def _powers(self) -> tuple[Power, ...]:
        count = self.choice.points if self.are_twiddles else 1
        return powers_of(count, self._columns, self.choice.twiddles, self._turn)

    @property
    def _lanes(self) -> int:
        return spreads(self.problem, self.choice)[0].lanes

    @property
    def _columns(self) -> int:
        return complex_columns(self.problem, self.choice.packing)

    @property
    def _root_lane(self) -> str:
        """CUDA name of the number whose root is the twiddle of register 1."""
        return "lane" if self.choice.first is First.REGISTERS else "reversed"

    @property
    def _sign(self) -> str:
        return "" if self.problem.inverse else "-"

    @property
    def _turn(self) -> int:
        """A full circle in units of pi, with the sign of the direction."""
        return 2 if self.problem.inverse else -2

    def _directed(self, value: complex) -> complex:
        return value if self.problem.inverse else value.conjugate()
