"""Every fft family on the CPU, compared with numpy.fft in float64, and run under the sanitizers."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
from guarded import Guarded
from together import Case, at_once, chosen, together
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Module
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft import Fft, Layout, Norm, Order, Product, Tiling
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.fft.operation import FFT
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Program
from warpsmith.generator.space import Value
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.registry import random_operands, reference

FAMILIES = FFT.families

HOST = DeviceRef(DeviceKind.HOST)
DEVICE = HOST.device()
ACCURACY = 5e-7
"""Largest relative L2 error of a transform."""

# fmt: off
SMOOTH = (
    2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32, 35, 36, 40, 42, 45, 48, 49, 50, 54,
    56, 60, 63, 64, 70, 72, 75, 80, 81, 84, 90, 96, 98, 100, 105, 108, 112, 120, 125, 126, 128, 135, 140, 144, 147, 150,
    160, 162, 168, 175, 180, 189, 192, 196, 200, 210, 216, 224, 225, 240, 243, 245, 250, 252, 256,
)
"""Products of 2, 3, 5 and 7."""
# fmt: on
SIZES = (*SMOOTH, 11, 13, 22, 26, 33, 39, 512)

DIRECTIONS: dict[str, dict[str, Any]] = {
    "r2c": {"kind": "r2c"},
    "c2r": {"kind": "c2r"},
    "c2c": {"kind": "c2c"},
    "inverse": {"kind": "c2c", "inverse": True},
}
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
Values = NDArray[Any]


def fft(size: Any, batch: int = 1, **fields: Any) -> Fft:
    """A problem from a caller's arguments."""
    return Fft(size, batch, **fields)


def able(problem: Fft) -> tuple[Family, ...]:
    """Families that solve a problem here. Fails if there are none."""
    found = tuple(family for family in FAMILIES if family.why_not(problem, DEVICE) is None)
    assert found, problem.key()
    return found


@dataclasses.dataclass(frozen=True)
class Bench:
    """Runs compiled kernels."""

    runtime: HostRuntime
    module: Module
    programs: Mapping[Case, Program]

    def result(self, case: Case, *given: Values) -> Values:
        """Result of one run. Fails if the run changes anything else."""
        program = self.programs[case]
        operands = {operand.name: Guarded(operand) for operand in case.problem.operands}
        target = operands[case.problem.output.name]
        sources = {each.name: values for each, values in zip(case.problem.inputs, given, strict=True)}
        for name, values in sources.items():
            operands[name].elements[...] = values
        scratch = {each.name: self.runtime.allocate(each.nbytes) for each in program.workspaces}
        addresses = {name: each.address for name, each in (operands | scratch).items()}
        for launch in program.launches:
            self.module.bind(launch, addresses, {})(None)
        for allocation in scratch.values():
            self.runtime.free(allocation)
        assert target.is_intact(), "wrote around its result"
        for name, values in sources.items():
            assert operands[name].is_intact(), "wrote around its input"
            assert np.array_equal(operands[name].elements, values), "wrote to its input"
        return target.elements


def defaults(problems: Iterable[Fft]) -> Iterator[Case]:
    for problem in problems:
        for family in able(problem):
            yield Case(problem, family, family.default(problem, DEVICE))


def drawn(problems: Iterable[Fft], count: int) -> Iterator[Case]:
    """Random configs of every family, the same in each run."""
    for problem in problems:
        for family in able(problem):
            space, rng = family.space(problem, DEVICE), random.Random(problem.key())
            for config in dict.fromkeys(space.drawn(rng) for _ in range(count)):
                assert config is not None
                yield Case(problem, family, config)


def covering(problem: Fft) -> Iterator[Case]:
    """Random configs of every family that together have each value of each parameter that some legal config has."""
    for family in able(problem):
        space, rng, seen = family.space(problem, DEVICE), random.Random(problem.key()), set[tuple[str, Value]]()
        for parameter, value in [(each, value) for each in space.parameters for value in each.values]:
            if (parameter.name, value) in seen:
                continue
            config = space.narrowed({parameter.name: [value]}).drawn(rng)
            if config is not None:
                seen.update(config.items)
                yield Case(problem, family, config)


def check_all(cases: Iterable[Case], check: Callable[[Bench, Case], None], compiler: Compiler) -> None:
    """Runs cases with every feature, many kernels per program, and fails with a list of all wrong kernels."""
    given, wrong = chosen(dict.fromkeys(cases)), []
    with contextlib.closing(HostRuntime(workers=1)) as runtime:
        for numbers in at_once([case.program for case in given]):
            part = [given[number] for number in numbers]
            whole, programs = together([case.program for case in part])
            with contextlib.closing(runtime.load(compiler.compile(whole.compilation()))) as module:
                bench = Bench(runtime, module, dict(zip(part, programs, strict=True)))
                wrong += [f"{case}: {error}" for case in part if (error := failure_of(check, bench, case))]
    assert not wrong, "\n".join([f"{len(wrong)} kernels are wrong", *wrong])


def failure_of(check: Callable[[Bench, Case], None], bench: Bench, case: Case) -> str:
    try:
        check(bench, case)
    except (AssertionError, WarpsmithError) as error:
        return str(error).strip().splitlines()[0]
    return ""


def check_against_numpy(bench: Bench, case: Case) -> None:
    """Checks random input against NumPy: each element as `verify` does, and the relative L2 error."""
    problem = case.problem
    operands = random_operands(problem, 3)
    result, of = bench.result(case, *(operands[each.name] for each in problem.inputs)), reference(problem, operands)
    verdict = verify(result, of, problem.output.dtype)
    assert verdict.right, verdict.message
    error = relative_error(result.view(np.float32).ravel(), of.expected.ravel())
    assert error <= ACCURACY, f"a relative error of {error:.2e}"


def relative_error(got: Values, expected: Values) -> float:
    return float(np.linalg.norm(got.astype(expected.dtype) - expected) / np.linalg.norm(expected))


def numpy_fft(problem: Fft, values: Values) -> Values:
    """NumPy's transform along the last axis."""
    name = {"r2c": "rfft", "c2r": "irfft", "c2c": "ifft" if problem.inverse else "fft"}[problem.kind]
    wide = values.astype(complex if values.dtype.kind == "c" else float)
    return np.asarray(getattr(np.fft, name)(wide, n=problem.size[0]))


@dataclasses.dataclass(frozen=True)
class Probes:
    """Nine one-dimensional inputs of similar size whose transforms are related to each other."""

    n: int
    shift: int
    values: Values

    @classmethod
    def of(cls, problem: Fft) -> Probes:
        (n,), generator = problem.size, np.random.default_rng(problem.points)
        length, shift = problem.inputs[0].shape[-1], n // 3 + 1
        values = np.zeros((9, length), complex)
        values[:2] = generator.standard_normal((2, length))
        if problem.inputs[0].dtype is DType.COMPLEX64:
            values[:2] += 1j * generator.standard_normal((2, length))
        values[2] = 0.6 * values[0] - 0.8 * values[1]
        values[3, 0] = values[4, min(shift, length - 1)] = np.sqrt(n)
        # A shift of the result is a phase factor on the input, and vice versa.
        turn = np.exp(2j * np.pi * (np.arange(length) * shift % n) / n)
        values[5] = values[0] * turn if problem.inverse else np.roll(values[0], shift)
        values[6] = 1
        values[7] = (-1.0) ** np.arange(length)
        values[8] = values[1][::-1]
        given = values if problem.inputs[0].dtype is DType.COMPLEX64 else values.real
        return cls(n, shift, given.astype(problem.inputs[0].dtype.value))


def energy(half: Values, n: int) -> Values:
    """Energy of whole spectra, computed from their non-redundant halves."""
    weights = np.full(half.shape[-1], 2.0)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return np.asarray((np.abs(half) ** 2 * weights).sum(axis=-1))


def check_probes(bench: Bench, case: Case) -> None:
    problem, probes = case.problem, Probes.of(case.problem)
    got = bench.result(case, probes.values)
    expected = numpy_fft(problem, probes.values)
    for i in range(len(got)):
        error = relative_error(got[i], expected[i])
        assert error <= ACCURACY, f"probe {i} has a relative error of {error:.2e}"
    wide = got.astype(expected.dtype)
    n, scale = probes.n, problem.scale * np.sqrt(probes.n)
    close = {"rtol": 0, "atol": 3e-6 * np.abs(wide[:3]).max()}

    np.testing.assert_allclose(wide[2], 0.6 * wide[0] - 0.8 * wide[1], err_msg="linearity", **close)
    frequency = np.arange(wide.shape[-1])
    turn = np.exp((2j if problem.inverse else -2j) * np.pi * (frequency * probes.shift % n) / n)
    if problem.kind == "c2r":
        of_impulse = np.full(n, scale)
        last = min(probes.shift, n // 2)
        times = 1 if 2 * last == n else 2
        of_shifted = times * scale * np.cos(2 * np.pi * (frequency * last % n) / n)
    else:
        of_impulse, of_shifted = np.full(wide.shape[-1], scale + 0j), scale * turn
    np.testing.assert_allclose(wide[3], of_impulse, err_msg="impulse", **close)
    np.testing.assert_allclose(wide[4], of_shifted, err_msg="impulse elsewhere", **close)
    shifted = np.roll(wide[0], -probes.shift) if problem.inverse else wide[0] * turn
    np.testing.assert_allclose(wide[5], shifted, err_msg="shift", **close)

    given = probes.values.astype(complex)
    if problem.kind == "c2r":  # only the real part of a self-conjugate frequency counts
        given[:, 0] = given[:, 0].real
        given[:, -1] = given[:, -1].real if n % 2 == 0 else given[:, -1]
    before = energy(given, n) if problem.kind == "c2r" else (np.abs(given) ** 2).sum(axis=-1)
    after = energy(wide, n) if problem.kind == "r2c" else (np.abs(wide) ** 2).sum(axis=-1)
    np.testing.assert_allclose(after, before * n * problem.scale**2, rtol=2e-6, err_msg="Parseval")


class TestSizes:
    def test_of_every_size_the_default_is_what_numpy_computes(self, quickest: HostCompiler) -> None:
        """A complex transform has the passes of a real one of twice its size, and its inverse has the same text up to
        signs. Therefore each size is in one of the two, and by default in one direction.
        """
        sizes = {"r2c": (SIZES, 0), "c2r": (SIZES, 1), "c2c": (SIZES[::2], 1), "inverse": (SIZES[1::2], 2)}
        some = {direction: exhaustive.share(*which, 3) for direction, which in sizes.items()}
        assert set().union(*some.values()) == set(SIZES)
        check_all(defaults(of_directions(some, 9)), check_probes, quickest)

    def test_of_two_dimensions(self, quickest: HostCompiler) -> None:
        squares = [(n, n) for n in (8, 16, 32, 64, 128)]
        rectangles = [(12, 13), (5, 64), (64, 6), (2, 32), (27, 9), (128, 32), (2, 2), (3, 3)]
        of_real, of_complex = squares + rectangles, squares[:4] + rectangles[:6]
        some = {
            direction: exhaustive.share(of_real if direction in ("r2c", "c2r") else of_complex, turn, 2)
            for turn, direction in enumerate(DIRECTIONS)
        }
        check_all(defaults(of_directions(some, 3)), check_against_numpy, quickest)


def of_directions(sizes: Mapping[str, Sequence[Any]], batch: int) -> list[Fft]:
    return [fft(size, batch, **DIRECTIONS[direction]) for direction in sizes for size in sizes[direction]]


RARE = (
    *((0, "min_blocks", 8), (2, "min_blocks", 2), (2, "threads", 384), (2, "tiles", 2)),
    *((3, "blocks", 8), (3, "min_blocks", 3), (3, "min_blocks", 8), (3, "threads", 160)),
)
"""Rare values in configs of products: number of the problem, parameter and value."""


class TestOptions:
    @every_direction
    def test_every_part_layout_order_and_norm(self, direction: str, quickest: HostCompiler) -> None:
        norms = [*Norm, *Norm]
        problems = [
            fft(size, 5, valid=valid, layout=layout, order=order, norm=norms.pop(), **DIRECTIONS[direction])
            for size, valid, layout, order in (
                ((32, 32), (27, 27), Layout.TRANSPOSED, Order.NATURAL),
                ((16, 8), (16, 5), Layout.FREQUENCY, Order.REVERSED),
                ((8, 15), (3, 15), Layout.FREQUENCY, Order.NATURAL),
                ((8, 16), None, Layout.TRANSPOSED, Order.REVERSED),
                ((60,), (57,), Layout.FREQUENCY, Order.NATURAL),
                ((64,), (1,), Layout.BATCH, Order.REVERSED),
            )
        ]
        check_all(defaults(problems), check_against_numpy, quickest)

    @every_direction
    def test_of_signals_that_begin_elsewhere(self, direction: str, quickest: HostCompiler) -> None:
        problems = [
            fft(size, 5, valid=valid, start=start, layout=layout, **DIRECTIONS[direction])
            for size, valid, start, layout in (
                ((12, 16), (5, 4), (10, 14), Layout.FREQUENCY),
                ((9, 7), (9, 3), (0, 2), Layout.TRANSPOSED),
                ((60,), None, (59,), Layout.BATCH),
            )
        ]
        check_all([*defaults(problems), *drawn(problems[:1], 1)], check_against_numpy, quickest)

    @every_direction
    def test_of_tiles_of_planes(self, direction: str, quickest: HostCompiler) -> None:
        """Covers vectors of two columns, single columns, pairs of two planes and of two tiles, and single rows."""
        is_result = direction in ("c2r", "inverse")
        problems = [
            fft(
                size,
                outer * prod(count) * inner,
                valid=step if is_result or start else valid,
                start=start,
                layout=layout,
                tiling=Tiling(count, step, (0,) * len(size) if is_result else origin, plane, inner),
                **DIRECTIONS[direction],
            )
            for size, valid, start, count, step, origin, plane, outer, inner, layout in (
                ((8, 12), None, None, (3, 2), (5, 8), (-2, -4), (14, 16), 2, 3, Layout.FREQUENCY),
                ((8, 12), (5, 8), None, (2, 2), (5, 8), (-1, 2), (9, 14), 1, 2, Layout.BATCH),
                ((6, 8), None, None, (2, 3), (4, 7), (-1, -1), (7, 16), 2, 2, Layout.FREQUENCY),
                ((10, 9), None, None, (3, 3), (9, 4), (-3, 1), (21, 11), 1, 1, Layout.FREQUENCY),
                ((9, 15), (4, 6), None, (2, 1), (4, 6), (-2, -3), (7, 5), 3, 1, Layout.TRANSPOSED),
                ((12, 16), None, (10, 14), (2, 2), (5, 4), (0, -3), (9, 6), 2, 2, Layout.FREQUENCY),
                ((60,), None, None, (3,), (50,), (-7,), (149,), 1, 5, Layout.FREQUENCY),
                ((16, 16), None, None, (1, 1), (16, 16), (-3, -2), (5, 6), 1, 5, Layout.FREQUENCY),
            )
        ]
        problems = exhaustive.share(problems, list(DIRECTIONS).index(direction), 2)
        check_all([*defaults(problems), *drawn(problems[:3], 2)], check_against_numpy, quickest)

    @exhaustive.one_in(3)
    @pytest.mark.parametrize("ops", ["nn", "nc", "nt", "tn", "cn", "cc", "tt"])
    def test_of_spectra_that_are_products(self, ops: str, quickest: HostCompiler) -> None:
        """Checks products with one to four terms and one to eight rows, whole, clipped, and in tiles of planes. Each
        `ops` draws other configs of the same spaces: fourteen of each size.
        """
        problems = [
            fft(size, rows * columns, kind="c2r", valid=valid, layout="frequency", tiling=tiling, product=product)
            for size, rows, columns, terms, valid, tiling in (
                ((8, 12), 3, 4, 1, None, None),
                ((6, 8), 1, 6, 2, (5, 7), None),
                ((16, 20), 4, 8, 3, (9, 13), None),
                ((8, 8), 8, 6, 4, (5, 6), Tiling((2, 2), (5, 6), (0, 0), (9, 11), 6)),
            )
            for product in (Product(rows, columns, terms, *ops, terms > 2),)  # type: ignore[arg-type]
        ]
        cases = [*defaults(problems), *drawn(problems, 2)]
        for number, name, value in RARE if ops == "nn" else ():
            config = FftBlock().space(problems[number], DEVICE).narrowed({name: [value]}).drawn(random.Random(ops))
            assert config is not None
            cases.append(Case(problems[number], FftBlock(), config))
        check_all(cases, check_against_numpy, quickest)

    @pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
    def test_of_signals_that_have_a_border(self, mode: str, quickest: HostCompiler) -> None:
        """Checks half, paired and complex transforms, the largest allowed borders, and signals read by bulk copies."""
        problems = [
            fft((12, 14), 5, valid=(5, 6), border=f"{mode}:4+3x2+5", layout="frequency"),
            fft((9, 8), 4, valid=(7, 5), border=f"{mode}:1x0+2", start=(3, 7)),
            fft((8, 8), 1, valid=(3, 4), border=f"{mode}:0x3+0", kind="c2c"),
            fft(60, 3, valid=25, border=f"{mode}:13+11"),
        ]
        space = FftBlock().space(problems[0], DEVICE)
        ways = [{"packing": ["half"]}, {"packing": ["pair"]}, {"loads": ["bulk"]}]
        found = [space.narrowed(way).drawn(random.Random(mode)) for way in ways]
        cases = [Case(problems[0], FftBlock(), config) for config in found if config is not None]
        assert len(cases) == len(ways)
        check_all([*defaults(problems), *cases], check_against_numpy, quickest)

    @pytest.mark.parametrize("kind", ["r2c", "c2r"])
    def test_of_part_of_a_signal_by_any_radices(self, kind: str, quickest: HostCompiler) -> None:
        """Three radices per transform. With some, threads may take the results in the order of the tile."""
        problem = fft((64, 4), 6, kind=kind, layout=Layout.FREQUENCY, valid=(40, 3))
        space, cases = FftBlock().space(problem, DEVICE), []
        for word in ("2x8x4", "4x8x2", "2x16x2", "16x2x2"):
            for first in ("x", "y"):
                config = space.narrowed({"y_radices": [word], "first": [first]}).drawn(random.Random(word))
                if config is not None:
                    cases.append(Case(problem, FftBlock(), config))
        assert len(cases) == 8
        check_all(cases, check_against_numpy, quickest)

    @pytest.mark.parametrize("kind", ["r2c", "c2r"])
    def test_of_sets_of_frequencies_that_mirror_each_other(self, kind: str, quickest: HostCompiler) -> None:
        """Covers each possible radix, one tile and several, and parts of signals with any start."""
        space_of = FftBlock().space
        cases = []
        for size, batch, fields, radices in (
            ((8, 8), 6, {}, ("2x4", "4x2")),
            ((12, 16), 10, {"valid": (9, 11), "start": (5, 3), "norm": "ortho"}, ("4x4", "2x8", "8x2")),
            ((2, 12), 2, {"order": "natural"}, ("6x2", "2x6")),
            ((16, 32), 4, {"order": "reversed"}, ("4x8", "2x16", "8x4")),
            ((6, 24), 8, {"norm": "forward", "valid": (5, 23)}, ("4x6", "6x4", "2x12")),
        ):
            problem = fft(size, batch, kind=kind, layout=Layout.FREQUENCY, **fields)
            space, rng = space_of(problem, DEVICE), random.Random(problem.key())
            for word in radices:
                found = space.narrowed({"spectrum": ["mirrored"], "x_radices": [word]}).drawn(rng)
                if found is not None:
                    cases.append(Case(problem, FftBlock(), found))
        assert len(cases) >= 10
        many = fft((4, 8), 40 * DEVICE.multiprocessors, kind=kind, layout=Layout.FREQUENCY)
        ahead = {"spectrum": ["mirrored"], "ahead": [2 * DEVICE.multiprocessors], "transforms": [2]}
        fetching = space_of(many, DEVICE).narrowed(ahead).drawn(random.Random(kind))
        assert fetching is not None
        check_all([*cases, Case(many, FftBlock(), fetching)], check_against_numpy, quickest)

    def test_every_batch(self, quickest: HostCompiler) -> None:
        """Two real transforms may run as one complex transform. In an odd batch the last one has no partner."""
        cases = list[Case]()
        for turn, batch in enumerate((1, 2, 3, 7)):
            for direction in exhaustive.share(("r2c", "c2r"), turn // 2 + turn, 2):
                problems = [fft(size, batch, **DIRECTIONS[direction]) for size in (9, 16, (7, 5))]
                cases += [*defaults(problems), *drawn(problems[1:2], 1)]
        check_all(cases, check_against_numpy, quickest)

    def test_every_batch_of_complex_ones(self, quickest: HostCompiler) -> None:
        problems = [
            problem
            for batch in (1, 2, 3, 7)
            for problem in (fft(16, batch, kind="c2c"), fft((4, 6), batch, kind="c2c", inverse=True))
        ]
        check_all(defaults(problems), check_against_numpy, quickest)


SPREAD: Sequence[Fft] = [
    fft(8, 70),
    fft(7, 9, kind="c2r"),
    fft(60, 6, valid=57, norm="ortho"),
    fft(64, 9, kind="c2r", valid=63),
    fft(96, 5, kind="c2c", inverse=True),
    fft(128, 4, kind="c2c", order="reversed"),
    fft(256, 3, layout="frequency"),
    fft((8, 8), 21),
    fft((12, 13), 5, valid=(9, 7)),
    fft((16, 32), 3, kind="c2r", layout="transposed", order="reversed"),
    fft((8, 14), 7, kind="c2r", layout="frequency"),
    fft((32, 32), 3, valid=(27, 26)),
    fft((15, 8), 4, kind="c2c", layout="transposed", norm="forward"),
    fft((8, 12), 24, kind="c2r", valid=(7, 9), layout="frequency", product=Product(4, 6, 3)),
]


class TestConfigs:
    def test_random_ones_are_what_numpy_computes(self, quickest: HostCompiler) -> None:
        check_all(drawn(exhaustive.share(SPREAD, 0, 2), 1), check_against_numpy, quickest)

    @exhaustive.one_in(2, 1)
    @pytest.mark.parametrize(
        "problem",
        [
            fft(64, 600, valid=61),
            fft((12, 16), 300, kind="c2r", norm="ortho"),
            fft((128, 128), 3),
            fft((128, 64), 2, kind="c2c", inverse=True, layout="transposed", valid=(100, 63)),
        ],
        ids=lambda problem: problem.key().replace(" ", ","),
    )
    def test_of_every_value_of_every_parameter_are_what_numpy_computes(
        self, problem: Fft, quickest: HostCompiler
    ) -> None:
        check_all(covering(problem), check_against_numpy, quickest)

    @pytest.mark.usefixtures("compile_without_optimisation")
    def test_are_clean_under_the_sanitizers(self, tmp_path: Path) -> None:
        problems = exhaustive.share([SPREAD[2], SPREAD[9], SPREAD[10], fft((8, 8), 3)], 1, 2)
        cases = [*defaults(problems), *drawn(problems, 1)]
        sanitized.check([(case.problem, case.program) for case in cases], tmp_path)


def test_of_any_complex_input_c2r_is_what_irfftn_computes(quickest: HostCompiler) -> None:
    """Spectra are random, so real signals need not have them."""

    def check(bench: Bench, case: Case) -> None:
        parts = np.random.default_rng(1).standard_normal(case.problem.inputs[0].components.shape, np.float32)
        given, size = parts.view(np.complex64)[..., 0], case.problem.size
        expected = np.fft.irfftn(given.astype(complex), s=size, axes=tuple(range(1, len(size) + 1)))
        error = relative_error(bench.result(case, given), expected)
        assert error <= ACCURACY, f"a relative error of {error:.2e}"

    sizes: tuple[Any, ...] = ((12,), (9,), (16,), (6, 8), (8, 8), (8, 5))
    problems = [fft(size, 5, kind="c2r") for size in exhaustive.share(sizes, 0, 2)]
    check_all([*defaults(problems), *drawn(problems, 1)], check, quickest)


def test_of_any_complex_input_sets_of_frequencies_are_what_irfftn_computes(quickest: HostCompiler) -> None:
    """A pass reads these spectra and must find the Hermitian part of the self-conjugate columns."""
    problem = fft((8, 8), 6, kind="c2r", layout=Layout.FREQUENCY)
    space = FftBlock().space(problem, DEVICE).narrowed({"spectrum": ["mirrored"]})

    def check(bench: Bench, case: Case) -> None:
        parts = np.random.default_rng(1).standard_normal(problem.inputs[0].components.shape, np.float32)
        given = parts.view(np.complex64)[..., 0]
        expected = np.fft.irfftn(np.moveaxis(given, -1, 0).astype(complex), s=problem.size, axes=(1, 2))
        assert relative_error(bench.result(case, given), expected) <= ACCURACY

    found = [space.narrowed({"x_radices": [word]}).drawn(random.Random(word)) for word in ("2x4", "4x2")]
    cases = [Case(problem, FftBlock(), config) for config in found if config is not None]
    assert len(cases) == 2
    check_all(cases, check, quickest)
