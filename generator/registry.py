"""The kernel families that this version knows. One line each; nothing else names them."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.fft.block.family import FftBlock
from warpsmith.generator.fft.cufft import FftCufft
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.warp.family import FftWarp
from warpsmith.generator.filter2d.matrix import Filter2dMatrix
from warpsmith.generator.filter2d.plain import Filter2dPlain
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.warpgroup.family import Filter2dWarpgroup
from warpsmith.generator.filter2d.window.family import Filter2dWindow
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config

SIMPLEST_FILTER = Filter2dPlain()
"""What filters are set beside: no prefetch, and no constraint on the problem."""

SIMPLEST_TRANSFORM = FftBlock()
"""What transforms are set beside: passes of one radix after the other over shared memory, as the method is written down
(Cooley and Tukey 1965), for any size. `FftWarp` is no simpler: it takes powers of two alone, and exchanges by shuffles
what these passes store."""

SIMPLEST: Mapping[str, Family] = {Filter2d.operation: SIMPLEST_FILTER, Fft.operation: SIMPLEST_TRANSFORM}
"""By operation the family whose default config, which nobody has searched for, is the simplest kernel."""

FAMILIES: tuple[Family, ...] = (
    Filter2dWindow(),
    Filter2dMatrix(),
    Filter2dWarpgroup(),
    SIMPLEST_FILTER,
    SIMPLEST_TRANSFORM,
    FftWarp(),
    FftCufft(),
)
"""In the order of preference where nothing is measured."""


def families_for(problem: Problem, device: Device, families: tuple[Family, ...] = FAMILIES) -> tuple[Family, ...]:
    """The families that can solve `problem` on `device`, preferred first.

    Raises BadArgument with each family's reason where there is none.
    """
    reasons = {family.name: family.why_not(problem, device) for family in families}
    able = tuple(family for family in families if reasons[family.name] is None)
    if not able:
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise BadArgument(f"no kernel family solves {problem.key()}: {told}")
    return able


def answering(problem: Problem, device: Device) -> tuple[Family, Config]:
    """The default that answers where nothing is stored: of a family that is likely to win, else of the first one.

    One that would take the compiler long answers only where all would. Raises BadArgument where no family solves it
    but those that never answer so (`Family.may_answer`).
    """
    solving = families_for(problem, device)
    able = sorted((each for each in solving if each.may_answer), key=lambda each: not each.is_likely(problem, device))
    if not able:
        told = f"{', '.join(each.name for each in solving)} alone, which is chosen by a search and never without"
        raise BadArgument(f"{problem.key()} is solved by {told}: run `warpsmith tune {problem.operation}` first")
    defaults = ((family, family.default(problem, device)) for family in able)
    quick = (each for each in defaults if each[0].unrolled(problem, each[1]) <= MAX_UNROLLED)
    return next(quick, None) or (able[0], able[0].default(problem, device))


def simplest_family(operation: str) -> Family | None:
    """The family of an operation's simplest kernel; None for an operation that this version has none for."""
    return SIMPLEST.get(operation)


def family_named(name: str) -> Family | None:
    """The family of that name, or None where this version has none."""
    return next((family for family in FAMILIES if family.name == name), None)
