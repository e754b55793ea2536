"""A NaN or an infinite pixel shows in the outputs whose window contains it, and in no others, whatever the family."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import scipy.ndimage
from numpy.typing import NDArray

import exhaustive
from together import AT_ONCE, can_be_together, together
from warpsmith.devices.compiler import Binaries, Binary
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostModule, HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.filter2d.window_geometry import Method
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType, NonFinite
from warpsmith.generator.program import Program
from warpsmith.generator.registry import family_named
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.registry import reference

FAMILIES = FILTER2D.families

HOST = DeviceRef(DeviceKind.HOST)
DEVICE = HOST.device()
BEYOND = ("filter2d_matrix", "filter2d_warpgroup")
"""Families that multiply pixels outside a window by zero, and recompute the outputs that this spoils if the problem
forbids it.
"""
BINOMIAL_5 = tuple(float(a * b) for a in (1, 4, 6, 4, 1) for b in (1, 4, 6, 4, 1))
TENTHS = (0.1,) * 9
WIDE = (40, 620)
"""An image in which every family has an interior."""
MANY_TAPS = 100
STRICT = [
    Filter2d(WIDE, (7, 7)),
    Filter2d(WIDE, (4, 5), border=Border.REFLECT, dtype="float16", result_dtype="float32"),
    Filter2d(WIDE, (5, 3), border=Border.CONSTANT, cval=0.5, filters=2, convolve=True),
    Filter2d(WIDE, (5, 5), border=Border.MIRROR, weights=BINOMIAL_5),
    Filter2d(WIDE, (2, 6), border=Border.NEAREST, accuracy="normwise", anchor=(1, 0)),
    Filter2d((24, 300), (3, 3), border=Border.WRAP, channels=3, planes=2, dtype="float16"),
    Filter2d((30, 620), (3, 5), border=Border.REFLECT, dtype="float16", pitch=1248, result_pitch=1244),
    Filter2d(WIDE, (15, 15), border=Border.NEAREST, planes=2),
    Filter2d(WIDE, (31, 31), border=Border.NEAREST),
    Filter2d((37, 200), (9, 9), border=Border.WRAP, planes=2),
    Filter2d((25, 131), (4, 6), border=Border.CONSTANT, cval=0.5),
    Filter2d((20, 150), (3, 7)),
    Filter2d((60, 70), (9, 9), border=Border.REFLECT, accuracy="imagewise"),
]
ANY = [
    Filter2d(WIDE, (7, 7), nonfinite="any"),
    Filter2d(WIDE, (5, 5), dtype="float16", nonfinite="any"),
]


def reached(problem: Filter2d, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True for outputs whose window contains a `marked` pixel, for each plane, filter and channel."""
    marked = marked.astype(np.float64).reshape(problem.planes, *problem.image, problem.channels)
    (r, s), (row, column) = problem.filter, problem.anchor or (problem.filter[0] // 2, problem.filter[1] // 2)
    function = scipy.ndimage.convolve if problem.convolve else scipy.ndimage.correlate
    mode = "constant" if problem.border in (Border.VALID, Border.CONSTANT) else problem.border.value
    origin = (row - r // 2, column - s // 2)
    top, left = (r - 1 - r // 2, s - 1 - s // 2) if problem.convolve else (r // 2, s // 2)
    rows, columns = problem.output_shape
    inner = (slice(top, top + rows), slice(left, left + columns)) if problem.border is Border.VALID else ()
    windows = np.zeros((problem.planes, problem.filters, rows, columns, problem.channels), bool)
    for p, f, c in np.ndindex(problem.planes, problem.filters, problem.channels):
        sums = function(marked[p, ..., c], np.ones(problem.filter), mode=mode, origin=origin)
        windows[p, f, ..., c] = sums[inner] > 0.5
    return windows.reshape(problem.output.shape)


@dataclasses.dataclass(frozen=True)
class Planted:
    """Image of positive pixels except two that are not finite, and the results it may have."""

    pixels: NDArray[np.generic]
    windows: NDArray[np.bool_]
    """True for outputs that the non-finite pixels may reach."""
    rest: Reference
    """float64 reference of the other outputs."""


@functools.lru_cache(maxsize=1)  # dozens of configs of one problem are compared with it
def planted(problem: Filter2d, seed: int) -> tuple[Planted, ...]:
    """Images with one non-finite pixel in a corner or at a border, and one inside. In large images the two are far
    apart, so that the blocks between them have nothing to repair.
    """
    rng = np.random.default_rng(seed)
    image = problem.operands[0]
    rows, columns = problem.image
    plane = (problem.planes - 1,) if problem.planes > 1 else ()
    channel = (1,) if problem.channels > 1 else ()
    cases = []
    for spots in (
        {(0, 0): np.nan, (rows // 2, columns // 2): np.inf},
        {(rows - 1, columns - 1 - columns // 8): -np.inf, (rows // 2, columns // 3 + 1): np.nan},
    ):
        pixels = rng.uniform(0.5, 2, image.shape).astype(str(image.dtype))
        for at, value in spots.items():
            pixels[(*plane, *at, *channel)] = value
        finite = np.isfinite(pixels)
        clean = np.where(finite, pixels, 1).astype(pixels.dtype)
        rest = reference(problem, {"image": clean, "weights": weights_of(problem)})
        cases.append(Planted(pixels, reached(problem, ~finite), rest))
    return tuple(cases)


def weights_of(problem: Filter2d) -> NDArray[np.float32]:
    """Positive weights, so that no sum of infinities is hidden."""
    if problem.weights is not None:
        return np.array(problem.weights, np.float32).reshape(problem.operands[1].shape)
    return np.random.default_rng(3).uniform(0.5, 1, problem.operands[1].shape).astype(np.float32)


class ClosingRuntime(HostRuntime):
    """Unloads its modules, because a process can load only some hundred libraries."""

    def __init__(self) -> None:
        super().__init__(workers=1)
        self._modules: list[HostModule] = []

    def load(self, binary: Binary) -> HostModule:
        self._modules.append(super().load(binary))
        return self._modules[-1]

    def close(self) -> None:
        for module in self._modules:
            module.close()
        super().close()


@dataclasses.dataclass(frozen=True)
class Bench:
    """Compiles kernels and runs them."""

    compiler: HostCompiler
    runtime: HostRuntime

    def compiled(self, programs: Sequence[Program]) -> Iterator[tuple[Program, Binaries]]:
        """Each program with its binaries. Programs that can be joined are compiled as one text."""
        several = [each for each in programs if can_be_together(each)]
        for start in range(0, len(several), AT_ONCE):
            whole, placed = together(several[start : start + AT_ONCE])
            binaries = self.compiler.compile_program(whole)
            yield from ((each, binaries) for each in placed)
        for each in programs:
            if each not in several:
                yield each, self.compiler.compile_program(each)

    def plan(
        self, problem: Filter2d, program: Program, binaries: Binaries | None = None
    ) -> Callable[[NDArray[np.generic]], NDArray[np.generic]]:
        """Function that filters an image by the program, with `weights_of` the problem."""
        match = Match(MatchKind.DEFAULT, program, None, ())
        plan = Plan.load(problem, match, binaries or self.compiler.compile_program(program), self.runtime)

        def filtered(pixels: NDArray[np.generic]) -> NDArray[np.generic]:
            image = problem.operands[0]
            memory = np.zeros(image.span_bytes // image.dtype.itemsize + problem.image[1], image.dtype.value)
            laid = np.ndarray(image.shape, memory.dtype, memory.data, 0, image.strides)
            laid[...] = pixels
            return np.asarray(plan(laid) if problem.weights is not None else plan(laid, weights_of(problem)))

        return filtered

    def outside(self, problem: Filter2d, program: Program, binaries: Binaries | None = None) -> int:
        """Number of non-finite outputs whose window contains only finite pixels. Fails if another output is wrong.

        All outputs whose window contains a non-finite pixel must be non-finite. All finite outputs must be near the
        float64 reference.
        """
        filtered, beyond = self.plan(problem, program, binaries), 0
        for each in planted(problem, 5):
            result = filtered(each.pixels)
            assert not np.isfinite(result[each.windows]).any(), f"{problem.key()} {program.config}"
            finite = np.isfinite(result)
            beyond += int(np.count_nonzero(~finite & ~each.windows))
            error = np.abs(result.astype(np.float64) - each.rest.expected)[finite]
            rounding = 2.0**-11 if problem.output.dtype is DType.FLOAT16 else 0.0
            assert (error <= (2e-6 + rounding) * each.rest.scale[finite]).all(), f"{problem.key()} {program.config}"
        return beyond


@pytest.fixture
def bench(quick: HostCompiler, quickest: HostCompiler) -> Iterator[Callable[[Filter2d], Bench]]:
    """Makes the bench of a problem. Kernels of many taps are optimised, because they take longer to run than to
    compile.
    """
    with contextlib.closing(ClosingRuntime()) as runtime:
        yield lambda problem: Bench(quick if math.prod(problem.filter) > MANY_TAPS else quickest, runtime)


def configs(family: Family, problem: Filter2d) -> set[Config]:
    """Default config, one config for each method and way to read the image, and a random one."""
    space, default, rng = family.space(problem, DEVICE), family.default(problem, DEVICE), random.Random(problem.key())
    named = {each.name: each.values for each in space.parameters}
    wanted, seen = {default}, set(default.items)
    for name in ("path", "method", "ahead", "tiles", "frame"):
        for value in named.get(name, ()):
            config = None if (name, value) in seen else space.narrowed({name: [value]}).drawn(rng)
            if config is not None:
                seen.update(config.items)
                wanted.add(config)
    return wanted


@exhaustive.one_in(2)
@pytest.mark.parametrize("problem", STRICT, ids=lambda problem: problem.key())
def test_what_is_not_finite_stays_within_the_window(problem: Filter2d, bench: Callable[[Filter2d], Bench]) -> None:
    able = [each for each in FAMILIES if each.why_not(problem, DEVICE) is None]
    programs = [family.program(problem, config) for family in able for config in configs(family, problem)]
    made = bench(problem)
    for program, binaries in made.compiled(programs):
        assert made.outside(problem, program, binaries) == 0, f"{program.family} {program.config}"


def test_every_method_is_among_those_configs() -> None:
    window = family_named("filter2d_window")
    assert window is not None
    methods = {config.text("method") for problem in STRICT for config in configs(window, problem)}
    assert methods == set(Method)


@pytest.mark.parametrize("problem", ANY, ids=lambda problem: problem.key())
def test_products_of_matrices_reach_further_where_that_is_allowed(
    problem: Filter2d, bench: Callable[[Filter2d], Bench]
) -> None:
    """This shows that the test of the strict families can fail."""
    solving = [each for each in FAMILIES if each.name in BEYOND and each.why_not(problem, DEVICE) is None]
    assert solving
    for family in solving:
        assert bench(problem).outside(problem, family.program(problem, family.default(problem, DEVICE))) > 0


def test_each_of_those_families_is_among_the_strict_ones() -> None:
    solving = {each.name for problem in STRICT for each in FAMILIES if each.why_not(problem, DEVICE) is None}
    assert set(BEYOND) <= solving


@pytest.mark.parametrize(("name", "dtype"), [("filter2d_matrix", "float16"), ("filter2d_warpgroup", "float32")])
def test_bytes_are_those_of_the_plain_kernel_where_an_image_is_not_finite(
    name: str, dtype: str, bench: Callable[[Filter2d], Bench]
) -> None:
    """A byte does not show whether its sum was finite. All numbers are small integers, so every finite sum is exact."""
    problem = Filter2d((30, 620), (5, 5), dtype=dtype, result_dtype="uint8", border=Border.MIRROR)
    family, plain = family_named(name), family_named("filter2d_plain")
    assert family is not None
    assert plain is not None
    weights = np.arange(25, dtype=np.float32).reshape(5, 5) % 3 - 1
    known = dataclasses.replace(problem, weights=tuple(weights.ravel().tolist()))
    pixels = np.random.default_rng(2).integers(0, 50, problem.image).astype(dtype)
    pixels[12, 300], pixels[20, 90], pixels[29, 619] = np.nan, np.inf, -np.inf
    results = [
        bench(known).plan(known, each.program(known, each.default(problem, DEVICE)))(pixels) for each in (family, plain)
    ]
    assert 0 < np.count_nonzero(results[1] == 255) < results[1].size / 2
    assert (results[0] == results[1]).all()


def test_the_largest_pixels_do_not_overflow(bench: Callable[[Filter2d], Bench]) -> None:
    """Rounding them to 11 bits gives infinity, and sums of products may overflow although no product does."""
    strict = Filter2d(WIDE, (3, 3))
    family = family_named("filter2d_warpgroup")
    assert family is not None
    pixels = np.random.default_rng(2).uniform(1, 2, strict.image).astype(np.float32)
    pixels[20, 300] = np.finfo(np.float32).max
    config = family.default(strict, DEVICE)
    result, loose = (
        bench(each).plan(each, family.program(each, config))(pixels)
        for each in (dataclasses.replace(strict, weights=TENTHS, nonfinite=rule) for rule in NonFinite)
    )
    assert np.isfinite(result).all()
    assert not np.isfinite(loose).all()
    expected = scipy.ndimage.correlate(pixels.astype(np.float64), np.full((3, 3), 0.1))[1:-1, 1:-1]
    assert np.allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("name", BEYOND)
def test_bytes_have_nothing_to_spread(name: str) -> None:
    """uint8 pixels are always finite, so their source has no repair code under either rule."""
    family = family_named(name)
    assert family is not None
    problem = Filter2d((1080, 1920), (5, 5), dtype="uint8")
    assert family.why_not(problem, H200) is None
    assert "repair" not in family.program(problem, family.default(problem, H200)).source


@pytest.mark.parametrize("problem", ANY, ids=lambda problem: problem.key())
def test_a_winner_under_one_rule_is_near_to_the_other(problem: Filter2d) -> None:
    strict = dataclasses.replace(problem, nonfinite=NonFinite.WINDOW)
    distance = strict.distance(problem)
    assert distance is not None
    assert 0 < distance < 0.01
    for family in FAMILIES:
        if family.name in BEYOND and family.why_not(problem, H200) is None:
            config = family.default(problem, H200)
            program = Gate(strict, H200).program_if_legal(family, config)
            assert program is not None
            assert program.config == config
            assert program.fingerprint != family.program(problem, config).fingerprint


def test_the_text_of_other_families_is_the_same_under_either_rule() -> None:
    """A time measured under one rule is therefore valid under the other if the config is legal there."""
    window = family_named("filter2d_window")
    assert window is not None
    config = window.default(STRICT[0], H200)
    strict, loose = (window.program(each, config) for each in (STRICT[0], ANY[0]))
    assert STRICT[0].nonfinite is NonFinite.WINDOW
    assert strict.fingerprint == loose.fingerprint
