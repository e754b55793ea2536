"""Chooses the programs to try for a layer, and their order."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

from warpsmith.generator.cgemm.tiled_family import CgemmTiled
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.plane_transforms import TILES
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for, is_simplest
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure
from warpsmith.tuner.workers.compile_pool import Compiled

MOST_CHANGES = 12
"""Most single-parameter changes of a default that are tried."""
OTHERS_SHARE = 3
"""Families that are not expected to be the fastest get this fraction (1/3) of the starts."""
MODEL_ERROR = 1.3
"""Factor over the shortest expected time above which a transform family is not tried. For L1 to L4 the expected times
were within a tenth of the measured ones; no measured time of a tiled transform was known.
"""
OTHERS_ERROR = 3.0
"""The same factor for families without transforms. `conv2d_direct` takes up to 3.2 times what is expected."""
MANY_PRODUCTS, FEW_PRODUCTS = 3, 1
"""Number of product variants to try for the fastest expected kind of transform (whole or tiled), and for the other
kind. Each variant costs a kernel to compile and 50 ms; the transforms are shared.
"""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A program that is being compiled."""

    family: Family
    config: Config
    program: Program
    compiling: Future[Compiled | Failure]


def families(problem: Conv2d, device: Device, beside: Sequence[str] = ()) -> list[Family]:
    """Families that may be fastest for a layer, judged without measurements, the likeliest first, after those of
    `beside`.

    The simplest kernel is never expected to win, so it is left out if any other family solves the problem.
    """
    able = [each for each in families_for(problem, device) if not is_simplest(each.name)]
    wanted = [each for each in able if each.name in beside]
    # A family that calls libraries for its transforms moves every spectrum four more times (tuning notes).
    rest = [each for each in able if each not in wanted and (isinstance(each, Conv2dFft) or each.may_answer)]
    fourier = _fourier(problem, device, [each for each in rest if isinstance(each, Conv2dFft)])
    least_ns = min((each.expected_ns(problem, device) for each in fourier), default=math.inf)
    others = [each for each in rest if not isinstance(each, Conv2dFft)]
    if device.kind is DeviceKind.CUDA:
        expected = {each.name: each.expected_ns(problem, device) or 0.0 for each in others}
        others = [each for each in others if expected[each.name] <= OTHERS_ERROR * least_ns]
        others.sort(key=lambda each: expected[each.name])
    likely = [each for each in (*fourier, *others) if each.is_likely(problem, device)]
    found = wanted + likely + [each for each in (*fourier, *others) if each not in likely]
    return found or able or list(families_for(problem, device))


def _fourier(problem: Conv2d, device: Device, able: Sequence[Conv2dFft]) -> list[Conv2dFft]:
    """Transform families that may be the fastest of all: whole planes and tiles, the faster kind first."""
    expected = {each.name: each.expected_ns(problem, device) for each in able}
    kinds: list[list[Conv2dFft]] = [[], []]
    for each in able:
        if expected[each.name] <= MODEL_ERROR * min(expected.values()):
            kinds[each.variant.transforms is TILES].append(each)
    found: list[Conv2dFft] = []
    for kind in sorted(filter(None, kinds), key=lambda kind: min(expected[each.name] for each in kind)):
        # A likely product on tensor cores is twice as fast as the products of the other bases, which use none.
        on_tensor_cores = [each for each in kind if type(each.variant.product.family) is not CgemmTiled]
        quick = [each for each in on_tensor_cores if each.is_likely(problem, device)]
        first = [each for each in kind if each.may_answer] if quick else kind
        ranked = sorted(first, key=lambda each: (not each.is_likely(problem, device), expected[each.name]))
        found += ranked[: FEW_PRODUCTS if found else MANY_PRODUCTS]
    return found


def configs(
    problem: Conv2d, device: Device, starts: int, beside: Sequence[str] = (), only: Sequence[str] = ()
) -> Iterator[tuple[Family, Config]]:
    """Yields the default of every family, then the first start of each, then the second and so on, each config once.

    Args:
        problem: the problem.
        device: the device.
        starts: number of starts for the likeliest family, and for those of `beside`. Others get one part in
            OTHERS_SHARE, but at least one. A family that calls libraries also gets single changes of its default after
            its starts.
        beside: families that are tried however unlikely they are.
        only: the only families to try; empty for all.
    """
    lists: list[tuple[Family, list[Config]]] = []
    kinds: collections.Counter[object] = collections.Counter()
    for family in families(problem, device, (*beside, *only)):
        if only and family.name not in only:
            continue
        is_wanted = family.name in beside or all(other.name in beside for other, _ in lists)
        count = starts if is_wanted else min(starts, max(1, starts // OTHERS_SHARE))
        if not is_wanted and kinds[_kind(family)]:
            count = 0  # its starts equal those of the family before, except for the product
        kinds[_kind(family)] += family.name not in beside
        lists.append((family, _configs(family, problem, device)[: 1 + count]))
    for number in range(max((len(found) for _, found in lists), default=0)):
        yield from ((family, found[number]) for family, found in lists if number < len(found))


def single_units(programs: Iterable[Program]) -> list[Program]:
    """Every unit of some programs as a separate program; units with equal text only once.

    They are compiled before the whole programs, which then find all their units in the cache: several families of a
    layer share their transforms.
    """
    found: dict[str, Program] = {}
    for program in programs:
        for unit in program.units:
            launches = tuple(each for each in program.launches if each.unit == unit.name)
            single = dataclasses.replace(program, units=(unit,), steps=launches, workspaces=())
            found.setdefault(repr(single.compilation(unit.name)), single)
    return list(found.values())


def _kind(family: Family) -> object:
    """Key that is equal for families with the same transforms."""
    if not isinstance(family, Conv2dFft):
        return family.name
    variant = family.variant
    return variant.transforms, variant.product.parts, variant.product.beside


def _configs(family: Family, problem: Conv2d, device: Device) -> list[Config]:
    default = family.default(problem, device)
    starts = family.starts(problem, device)
    changes = () if family.may_answer else family.space(problem, device).neighbours(default)
    known = dict.fromkeys((default, *starts, *itertools.islice(changes, MOST_CHANGES)))
    quick = [config for config in known if family.unrolled(problem, config) <= MAX_UNROLLED]
    return quick or [default]
