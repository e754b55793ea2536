"""Every filter2d family on the CPU, compared with scipy.ndimage in float64, and run under the sanitizers."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import sanitized
from filter2d_bench import Bench
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.filter2d.warpgroup_family import Filter2dWarpgroup
from warpsmith.generator.filter2d.warpgroup_geometry import batches
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.filter2d.window_geometry import Method
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import NonFinite
from warpsmith.generator.space import Config, Space, Value
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

FAMILIES = FILTER2D.families

HOST = DeviceRef(DeviceKind.HOST)
DEVICE = HOST.device()
WARPGROUP = Filter2dWarpgroup()
NARROW = Filter2d((13, 142), (4, 2), dtype="float16", nonfinite=NonFinite.ANY)
OF_NARROW_IMAGES = [each for each in FAMILIES if each.why_not(NARROW, DEVICE) is None]
"""Families that solve images as narrow as those of `spread`. Warpgroup families need wider ones."""
every_family = pytest.mark.parametrize("family", OF_NARROW_IMAGES, ids=lambda family: family.name)

BINOMIAL_13 = tuple(float(math.comb(12, r) * math.comb(12, s)) for r in range(13) for s in range(13))
TWO_TERMS = tuple(((r + 1) * (s - 2) + r % 2 * (s + 3)) / 64 for r in range(6) for s in range(8))
_WIDE = (
    Filter2d((26, 1117), (9, 9)),
    Filter2d((21, 178), (3, 6), dtype="float16", channels=3),
    Filter2d((22, 544), (4, 3), dtype="uint8", border="constant", cval=7.5, result_dtype="float16"),
    Filter2d((24, 600), (5, 25), border="constant", cval=-1.5, result_dtype="uint8"),
    Filter2d((27, 640), (13, 13), border="nearest", planes=2, weights=BINOMIAL_13),
    Filter2d((20, 541), (2, 2), dtype="uint8", border="nearest", pitch=544, result_pitch=547, convolve=True),
    Filter2d((28, 555), (6, 8), border="reflect", weights=TWO_TERMS, accuracy="normwise"),
    Filter2d((25, 272), (6, 4), dtype="float16", border="reflect", channels=2, anchor=(5, 0), result_dtype="float32"),
    Filter2d((23, 531), (3, 7), border="mirror", pitch=2136, anchor=(0, 6), convolve=True),
    Filter2d((24, 1040), (7, 4), dtype="uint8", border="mirror", planes=3),
    Filter2d((22, 140), (5, 3), dtype="uint8", border="wrap", channels=4, result_dtype="float32"),
    Filter2d((20, 536), (12, 2), dtype="float16", border="wrap"),
)
WIDE = tuple(dataclasses.replace(each, nonfinite=NonFinite.ANY) for each in _WIDE)
"""Problems with rows at least as wide as the 512 elements of a row that a warpgroup computes."""


def check_all(bench: Bench, family: Family, problems: Iterable[Filter2d]) -> None:
    """Checks each problem with one config."""
    bench.check_all((each, family, config_for(family, each, turn)) for turn, each in enumerate(problems))


@pytest.fixture
def bench(quick: HostCompiler) -> Iterator[Bench]:
    with contextlib.closing(HostRuntime(workers=1)) as runtime:
        yield Bench(quick, runtime)


@pytest.fixture
def bench_of_small_ones(quickest: HostCompiler) -> Iterator[Bench]:
    """Bench for kernels that take longer to compile than to run."""
    with contextlib.closing(HostRuntime(workers=1)) as runtime:
        yield Bench(quickest, runtime)


def narrowed(space: Space, **wanted: Value) -> Space:
    """Part of a space in which parameters have the `wanted` values."""
    return Space(
        tuple(
            dataclasses.replace(each, values=(wanted[each.name],)) if each.name in wanted else each
            for each in space.parameters
        ),
        space.constraints,
    )


def config_for(family: Family, problem: Filter2d, turn: int) -> Config:
    """Default config in every fourth turn, else a random one. The ways to read the image take turns."""
    default, space = family.default(problem, DEVICE), family.space(problem, DEVICE)
    ways = paths(space)
    wanted = narrowed(space, path=ways[turn % len(ways)])
    return default if turn % 4 == 0 else wanted.drawn(random.Random(problem.key())) or default


def paths(space: Space) -> tuple[Value, ...]:
    """Ways to read the image."""
    return next(each.values for each in space.parameters if each.name == "path")


@every_family
@pytest.mark.parametrize("border", Border)
def test_is_what_scipy_computes(
    family: Family, border: Border, spread: tuple[Filter2d, ...], bench_of_small_ones: Bench
) -> None:
    """The problems cover all pairs of values of two factors but not all combinations, because every case costs a
    compilation.
    """
    solved = [each for each in spread if each.border is border and family.why_not(each, DEVICE) is None]
    assert solved
    turn = list(Border).index(border) + OF_NARROW_IMAGES.index(family)
    check_all(bench_of_small_ones, family, exhaustive.share(solved, turn, 2))


def test_products_of_warpgroups_are_what_scipy_computes(bench: Bench) -> None:
    """Two problems per border, one of them with the default config or both with random ones."""
    assert all(WARPGROUP.why_not(each, DEVICE) is None for each in WIDE)
    assert {each.border for each in WIDE} == set(Border)
    check_all(bench, WARPGROUP, WIDE)


def test_products_of_two_rows_at_a_time_end_where_the_strip_does(bench: Bench) -> None:
    """Strips of 8 and 3 result rows read an odd and an even number of rows: 13 and 8."""
    cases = []
    for weights, ahead in itertools.product((None, TWO_TERMS), (0, 1)):
        problem = Filter2d((24, 530), (6, 8), weights=weights, accuracy="normwise", nonfinite=NonFinite.ANY)
        cases.append(of_warpgroups(problem, rows=8, ahead=ahead))
        assert WARPGROUP.space(problem, DEVICE).why_not(cases[-1][2]) is None
    bench.check_all(cases)


_IN_PARTS: tuple[tuple[Filter2d, dict[str, Value]], ...] = (
    (Filter2d((44, 1101), (17, 17)), {"parts": 2, "rows": 8, "ahead": 1, "weights": "constant"}),
    (Filter2d((36, 620), (31, 31), border="reflect"), {"parts": 2}),
    (Filter2d((44, 1101), (31, 31)), {"parts": 3, "rows": 8, "block_groups": 2}),
    (Filter2d((64, 1130), (31, 5), border="wrap", planes=2), {"parts": 4, "rows": 8, "block_strips": 2}),
    (Filter2d((50, 567), (21, 21), border="mirror", convolve=True, anchor=(0, 20)), {"parts": 3, "store": "streaming"}),
    (Filter2d((50, 300), (25, 5), channels=3, border="nearest", result_pitch=3620), {"parts": 2}),
    (
        Filter2d((30, 1100), (25, 25), dtype="float16", result_dtype="float32", border="constant", cval=1.5),
        {"parts": 2, "ahead": 1},
    ),
    (Filter2d((40, 620), (5, 31), dtype="uint8", result_dtype="float32", border="wrap"), {}),
)
IN_PARTS = (
    _IN_PARTS[0],
    *((dataclasses.replace(each, nonfinite=NonFinite.ANY), wanted) for each, wanted in _IN_PARTS[1:]),
)
"""Filters whose rows are split, and the changes to their default configs. 5x31 is there for its columns.

Only the first one repairs sums that are not numbers. Such sums would come from adding to old contents of the result.
"""


def test_parts_of_a_filter_add_up_to_what_scipy_computes(bench: Bench) -> None:
    """Some blocks have warpgroups without work of their own. Two warpgroups compute parts of the same outputs."""
    cases = [of_warpgroups(problem, **wanted) for problem, wanted in exhaustive.share(IN_PARTS, 0, 2)]
    for problem, family, config in cases:
        assert Gate(problem, DEVICE).program_if_legal(family, config) is not None
    bench.check_all(cases)


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_parts_of_a_filter_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    problem, wanted = IN_PARTS[4]
    small = dataclasses.replace(problem, image=(27, problem.image[1]))
    check_sanitized(tmp_path, of_warpgroups(small, **wanted, block_groups=2))


IN_BATCHES: tuple[tuple[Filter2d, dict[str, Value]], ...] = (
    (Filter2d((44, 1104), (31, 31), dtype="uint8"), {"rows": 8, "block_groups": 2}),
    (Filter2d((45, 620), (29, 6), dtype="float16", border="reflect"), {"store": "streaming"}),
    (Filter2d((44, 1100), (38, 5), dtype="uint8", border="wrap", planes=2, nonfinite="any"), {"block_strips": 2}),
    (Filter2d((50, 600), (31, 5), result_dtype="float16", border="constant", cval=1.5, nonfinite="any"), {}),
    (Filter2d((30, 1100), (25, 25), dtype="float16", border="nearest"), {"block_groups": 2}),
    (Filter2d((52, 300), (28, 9), dtype="uint8", channels=3, convolve=True, anchor=(0, 8), border="mirror"), {}),
)
"""Filters with more rows than there is room for their products or weights. Their results are not float32."""


def test_batches_of_a_filters_rows_add_up_to_what_scipy_computes(bench: Bench) -> None:
    cases = [of_warpgroups(problem, **wanted) for problem, wanted in exhaustive.share(IN_BATCHES, 0, 2)]
    for problem, family, config in cases:
        assert batches(problem) == (1 if problem.filter[0] < 28 else 2)
        assert Gate(problem, DEVICE).program_if_legal(family, config) is not None
    bench.check_all(cases)


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_batches_of_a_filters_rows_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    check_sanitized(tmp_path, of_warpgroups(Filter2d((33, 544), (30, 3), dtype="uint8"), rows=8))


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], ids=hex)
def test_a_weight_that_is_not_a_number_shows_in_every_output(bits: int, bench: Bench) -> None:
    """Every NaN bit pattern counts. Rounding it like a number's would turn some patterns into zero."""
    problem = Filter2d((12, 530), (3, 3), nonfinite=NonFinite.ANY)
    weights = np.ones((3, 3), np.float32)
    weights.view(np.uint32)[1, 1] = bits
    program = WARPGROUP.program(problem, WARPGROUP.default(problem, DEVICE))
    _, target = bench.filtered(problem, program, np.ones(problem.image, np.float32), weights)
    assert np.isnan(target.elements).all()


BINOMIAL_15 = tuple(float(math.comb(14, r) * math.comb(14, s)) / 2**20 for r in range(15) for s in range(15))
LOADS: tuple[tuple[Filter2d, dict[str, Value]], ...] = (
    (Filter2d((37, 512), (9, 9), border="wrap", planes=3), {}),
    (Filter2d((29, 133), (4, 6), border="mirror", planes=5, convolve=True, anchor=(3, 0)), {"rows": 8}),
    (
        Filter2d((30, 130), (5, 3), border="reflect", planes=2, pitch=544, result_pitch=524),
        {"block_groups": 3, "prefetch": 2},
    ),
    (Filter2d((24, 128), (3, 25), border="constant", cval=1.5), {"rows": 8, "ahead": 1}),
    (Filter2d((19, 530), (9, 9), border="constant"), {"block_groups": 2, "prefetch": 1}),
    (Filter2d((2, 260), (7, 7), border="nearest", planes=3), {"ahead": 0}),
    (Filter2d((5, 140), (13, 5), border="reflect", anchor=(12, 4)), {"weights": "constant"}),
    (Filter2d((6, 132), (15, 3), border="mirror", planes=2), {"store": "streaming"}),
    (Filter2d((26, 48), (6, 5), border="wrap", channels=3, planes=2), {"rows": 8, "prefetch": 7}),
    (Filter2d((21, 40), (3, 7), border="mirror", channels=4, anchor=(0, 6)), {"ahead": 1}),
    (Filter2d((23, 65), (5, 2), border="reflect", channels=2, planes=2), {}),
    (Filter2d((40, 640), (15, 15), border="nearest", weights=BINOMIAL_15), {}),
    (Filter2d((18, 200), (5, 5), border="wrap", result_dtype="uint8"), {"rows": 16}),
    (Filter2d((20, 300), (9, 9), planes=2), {}),
    (Filter2d((33, 136), (9, 9)), {"rows": 16}),
    (Filter2d((17, 150), (2, 12), result_pitch=640), {"ahead": 1}),
)
"""Images whose border is made by loads or that are too narrow for a warpgroup, and the changes to default configs.

Cases: one warp across the image, one that reaches over both of its ends, rows of every alignment, windows that reach
past a further image, and warps without work of their own.
"""


def test_borders_made_by_loads_are_what_scipy_computes(bench_of_small_ones: Bench) -> None:
    cases = [
        of_warpgroups(dataclasses.replace(problem, nonfinite=nonfinite), frame="loads", **wanted)
        for number, (problem, wanted) in enumerate(LOADS)
        for nonfinite in NonFinite
        # The loads are the same under either rule, so it is enough to test some without the repair code.
        if nonfinite is NonFinite.WINDOW or number % 3 == 0
    ]
    cases = exhaustive.share(cases, 0, 2)
    for problem, family, config in cases:
        assert family.space(problem, DEVICE).why_not(config) is None
    bench_of_small_ones.check_all(cases)


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_borders_made_by_loads_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    cases = [LOADS[case] for case in (1, 3, 4, 8, 15)]
    check_sanitized(tmp_path, *(of_warpgroups(problem, frame="loads", **wanted) for problem, wanted in cases))


def test_pairs_of_outputs_are_what_scipy_computes(bench: Bench) -> None:
    """Winograd's pairs of outputs, for each way to cut a row of taps."""
    family, cases = Filter2dWindow(), []
    for turn, columns in enumerate((2, 3, 4, 7, 15)):
        free = Filter2d((40, 121), (3, columns), filters=2, border=Border.REFLECT, convolve=True, accuracy="normwise")
        known = tuple((i * 5 % 7 - 3) / 8 for i in range(6 * columns))
        for weights in exhaustive.share(("argument", "literal"), turn, 2):
            problem = dataclasses.replace(free, weights=known) if weights == "literal" else free
            space = narrowed(family.space(problem, DEVICE), method=Method.WINOGRAD.value, weights=weights)
            for config in {space.drawn(random.Random(f"{columns} {weights} {seed}")) for seed in range(2)}:
                assert config is not None
                cases.append((problem, family, config))
    bench.check_all(cases)


SOBEL = Filter2d(image=(31, 44), filter=(3, 3), border=Border.MIRROR, weights=(1, 0, -1, 2, 0, -2, 1, 0, -1))


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if each.why_not(SOBEL, DEVICE) is None], ids=lambda family: family.name
)
def test_known_weights_are_literals_and_zeros_vanish(family: Family) -> None:
    """An infinite pixel under a zero tap would give NaN if the tap were multiplied."""
    problem = SOBEL
    program = family.program(problem, family.default(problem, DEVICE))
    assert program.by_value == frozenset()
    image = np.zeros(problem.image, np.float32)
    image[10, 20] = np.inf
    plan = Plan.load(
        problem, Match(MatchKind.DEFAULT, program, None, ()), HOST.compiler().compile_program(program), HostRuntime()
    )
    result = plan(image)
    assert np.isinf(result[9:12, [19, 21]]).all()
    assert not result[:, 20].any()


@pytest.mark.usefixtures("compile_without_optimisation")
@every_family
def test_clean_under_the_sanitizers(family: Family, spread: tuple[Filter2d, ...], tmp_path: Path) -> None:
    """Checks two problems per border, each with one config; one problem is wide enough for an interior.

    Filters have few taps, because more taps only add statements of the same kind, and g++ takes up to a second for
    each. Results are small, because 150000 outputs take a minute.
    """
    rng, turns = random.Random(family.name), itertools.count()
    cases: list[Case] = []
    small = [each for each in spread if math.prod(each.filter) * each.filters <= 30 and each.output.size <= 40_000]
    for border in Border:
        solved = [each for each in small if each.border is border and family.why_not(each, DEVICE) is None]
        wide = [each for each in solved if each.image[1] > 140]
        for problem in dict.fromkeys([rng.choice(wide), rng.choice(solved)]):
            cases.append((problem, family, config_for(family, problem, next(turns))))
    check_sanitized(tmp_path, *cases)


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_products_of_warpgroups_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """One problem of each element type, the first with the default config and the others with random ones."""
    problems = (WIDE[8], WIDE[11], WIDE[5])
    check_sanitized(
        tmp_path, *((each, WARPGROUP, config_for(WARPGROUP, each, turn)) for turn, each in enumerate(problems))
    )


@pytest.mark.parametrize(
    ("fault", "told"), [("reads-outside", "heap-buffer-overflow"), ("wrong", "elements are wrong"), ("none", "")]
)
def test_the_sanitizers_find_what_is_planted(fault: str, told: str, planted: Any, tmp_path: Path) -> None:
    family, problem = planted(fault), Filter2d((9, 9), (3, 3))
    case = (problem, family, family.default(problem, DEVICE))
    if fault == "none":
        check_sanitized(tmp_path, case)
    else:
        with pytest.raises(AssertionError, match=told):
            check_sanitized(tmp_path, case)


Case = tuple[Filter2d, Family, Config]


def of_warpgroups(problem: Filter2d, **wanted: Value) -> Case:
    """Case of a warpgroup family: the default config with the `wanted` changes, without its bound on registers."""
    return problem, WARPGROUP, Config.of({**WARPGROUP.default(problem, DEVICE).values(), "min_blocks": 0, **wanted})


def check_sanitized(folder: Path, *cases: Case) -> None:
    sanitized.check([(problem, family.program(problem, config)) for problem, family, config in cases], folder)
