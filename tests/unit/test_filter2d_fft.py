"""Tiles in global memory: every result once, every chunk in order, every element of a line at its own address."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random

import numpy as np
import pytest

import exhaustive
from rectangles import cover
from warpsmith.generator.architectures import PARAMETER_BYTES
from warpsmith.generator.device import Device
from warpsmith.generator.fft.axes import Axis
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.fft.fft_family import Filter2dFft
from warpsmith.generator.filter2d.fft.fft_geometry import Filter2dFftGeometry
from warpsmith.generator.filter2d.fft.fft_model import MOST_SPECTRA, MOST_WORK, Filter2dFftChoice, likely, nanoseconds
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.program import ByValue, Lifetime, Pointer
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import axis_of, radices_of, span, turns, ways

FAMILY = Filter2dFft()
T4 = dataclasses.replace(
    H200,
    name="T4",
    compute_capability=(7, 5),
    l2_bytes=4 << 20,
    shared_per_block_bytes=64 << 10,
    shared_per_multiprocessor_bytes=64 << 10,
)


def of(image: tuple[int, int], size: tuple[int, int], **fields: object) -> Filter2d:
    return Filter2d(image, size, **{"accuracy": "imagewise", "nonfinite": "any", **fields})  # type: ignore[arg-type]


PROBLEMS = (
    of((9216, 9216), (65, 65)),
    of((2048, 2048), (255, 255), border="constant"),
    of((1080, 1920), (101, 80), border="reflect", dtype="uint8"),
    of((333, 512), (13, 13), planes=3, filters=2),
    of((50, 61), (7, 8), border="wrap"),
    of((12, 90), (12, 9)),
    of((1, 9000), (1, 2000)),
)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
every_device = pytest.mark.parametrize("device", [H200, HOST, T4], ids=lambda device: device.name)
LINES = ((4, 4), (2, 8), (5, 16), (32, 32), (4, 5, 4), (8, 8, 8), (12, 12, 16), (16, 16, 16), (10, 16, 10))
every_line = pytest.mark.parametrize("radices", LINES, ids=str)


@functools.cache
def sample(problem: Filter2d) -> tuple[Config, ...]:
    """The default, the starts and some random configs."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = filter(None, (space.drawn(rng) for _ in range(12)))
    return tuple(dict.fromkeys((FAMILY.default(problem, H200), *FAMILY.starts(problem, H200), *drawn)))


@exhaustive.one_in(2)
@every_problem
def test_every_result_is_stored_once(problem: Filter2d) -> None:
    rows, columns = problem.output_shape
    for config in sample(problem):
        geometry = Filter2dFftGeometry.of(problem, config)
        tiles = itertools.chain.from_iterable(map(geometry.partners_of, range(geometry.pairs)))
        stored = [geometry.results(tile) for tile in tiles if tile < geometry.tiles]
        assert (cover((rows, columns), stored) == 1).all(), config
        # What a tile has, and what its blocks go through: all of it, and no row or column of pixels too few.
        assert geometry.valid_rows == min(geometry.tile_rows_valid, rows)
        assert geometry.valid_columns == min(geometry.tile_columns_valid, columns)
        assert geometry.pixel_rows <= geometry.columns.points
        assert geometry.pixel_columns <= geometry.rows.points


@every_problem
def test_blocks_take_every_row_and_column_once(problem: Filter2d) -> None:
    for config in sample(problem):
        geometry = Filter2dFftGeometry.of(problem, config)
        lines = geometry.rows.count
        assert 0 <= geometry.row_blocks * lines - geometry.pixel_rows < lines
        assert 0 <= geometry.result_blocks * lines - geometry.valid_rows < lines
        assert geometry.column_blocks * geometry.columns.count == geometry.rows.points
        assert 0 <= geometry.tap_blocks * lines - problem.filters * problem.filter[0] < lines


@exhaustive.one_in(2)
@every_problem
def test_a_chunk_passes_all_steps_before_the_next_one_takes_its_place(problem: Filter2d) -> None:
    for config in exhaustive.share(sample(problem), 0, 2):
        geometry, program = Filter2dFftGeometry.of(problem, config), FAMILY.program(problem, config)
        assert sum(geometry.chunks) == geometry.items == geometry.pairs * problem.planes * problem.filters
        assert all(items == geometry.chunk for items in geometry.chunks[:-1])
        taps, spectrum, *steps = program.launches
        assert [taps.entry, spectrum.entry] == ["filter2d_fft_taps", "filter2d_fft_spectrum"]
        assert spectrum.grid[0] == geometry.column_blocks * problem.filters
        assert spectrum.arguments == (Pointer("spectra"), Pointer("taps"))
        if geometry.is_double or geometry.flows:
            continue
        assert len(steps) == 3 * len(geometry.chunks)
        for number, items in enumerate(geometry.chunks):
            rows, columns, results = steps[3 * number : 3 * number + 3]
            assert [each.entry[13:] for each in (rows, columns, results)] == ["rows", "columns", "results"]
            assert rows.grid[0] == geometry.row_blocks * items
            assert columns.grid[0] == geometry.column_blocks * items
            assert results.grid[0] == geometry.result_blocks * items
            assert rows.arguments[-1] == results.arguments[-1] == Pointer("work", number)
            assert (Pointer("work", number) in columns.arguments) == (problem.filters > 1 or number == 0)


def test_two_buffers_take_turns() -> None:
    """One launch stores a chunk's results and reads the next chunk's pixels into the other buffer."""
    problem = PROBLEMS[0]
    config = Config.of({**FAMILY.default(problem, H200).values(), "buffers": 2, "pairs": 4, "blocks": 0})
    assert FAMILY.space(problem, H200).contains(config)
    geometry, program = Filter2dFftGeometry.of(problem, config), FAMILY.program(problem, config)
    count, steps = len(geometry.chunks), program.launches[2:]
    assert count > 2
    names = [each.entry.removeprefix("filter2d_fft_") for each in steps]
    assert names == ["rows", *["columns", "between"] * (count - 1), "columns", "results"]
    assert [steps[1 + 2 * number].arguments[-1] for number in range(count)] == [
        Pointer("work", n) for n in range(count)
    ]
    for number in range(count - 1):
        between, (here, there) = steps[2 + 2 * number], geometry.chunks[number : number + 2]
        assert between.grid[0] == geometry.result_blocks * here + geometry.row_blocks * there
        assert between.arguments[-1] == Pointer("work", number)
    assert geometry.work_bytes == 2 * 4 * 8 * geometry.pixel_rows * geometry.rows.points


@pytest.mark.parametrize(("results", "rows"), [(6, 6), (6, 2), (2, 7), (5, 0)])
def test_blocks_of_both_kinds_alternate(results: int, rows: int) -> None:
    """Blocks are numbered as in filter2d_fft_between, each once."""
    both = min(results, rows)
    found: dict[bool, list[int]] = {True: [], False: []}
    for block in range(results + rows):
        writes = block % 2 == 0 if block < 2 * both else both < results
        found[writes].append(block // 2 if block < 2 * both else block - both)
    assert found == {True: list(range(results)), False: list(range(rows))}


@exhaustive.one_in(2)
@every_problem
def test_workspaces_have_room(problem: Filter2d) -> None:
    for config in exhaustive.share(sample(problem), 1, 2):
        geometry, program = Filter2dFftGeometry.of(problem, config), FAMILY.program(problem, config)
        sizes = {each.name: each.nbytes for each in program.workspaces}
        tile = 8 * geometry.rows.points
        assert sizes["work"] == geometry.slots * max(geometry.chunks) * geometry.pixel_rows * tile <= 8 * MOST_WORK
        assert sizes["spectra"] == problem.filters * geometry.columns.points * tile
        assert sizes["taps"] == problem.filters * problem.filter[0] * tile
        assert all(each.lifetime is Lifetime.CALL for each in program.workspaces)
        # The address that tells a chunk's number lies in the workspace.
        assert len(geometry.chunks) <= sizes["work"]


@exhaustive.meeting()
@every_line
@pytest.mark.parametrize("side_by_side", [1, 4, 8, 16])
def test_no_two_elements_of_a_line_share_a_place(radices: tuple[int, ...], side_by_side: int) -> None:
    axis = axis_of(radices, side_by_side)
    places = {axis.index_place.at(index) for index in range(axis.points)}
    assert len(places) == axis.points
    assert min(places) == 0
    assert max(places) == span(axis) - 1
    assert places == {axis.frequency_place.at(frequency) for frequency in range(axis.points)}
    dense = Axis.of(radices, axis.index_weights())
    assert 1 <= turns(axis, side_by_side) <= min(1.5, turns(dense, side_by_side))


def test_gaps_take_conflicts_away() -> None:
    dense = Axis.of((16, 16), (16, 1))
    assert turns(dense, 1) == 8.5  # without conflicts in the first pass, all in one bank in the second
    assert turns(axis_of((16, 16), 1), 1) == 1.0


@pytest.mark.parametrize("points", [16, 80, 128, 1024, 2304, 4096])
def test_a_line_is_taken_apart_in_two_or_three(points: int) -> None:
    assert ways(points)
    for radices in ways(points):
        assert np.prod(radices) == points
        assert len(radices) in (2, 3)
        assert max(radices) <= (32 if len(radices) == 2 else 16)
        assert radices_of("x".join(map(str, radices))) == radices


@exhaustive.one_in(2)
@every_problem
@every_device
def test_the_default_is_legal_and_fits(problem: Filter2d, device: Device) -> None:
    assert FAMILY.why_not(problem, device) is None
    space = FAMILY.space(problem, device)
    for config in (FAMILY.default(problem, device), *FAMILY.starts(problem, device)):
        assert space.why_not(config) is None
        geometry = Filter2dFftGeometry.of(problem, config)
        assert max(geometry.rows.shared_bytes, geometry.columns.shared_bytes) <= device.shared_per_block_bytes


def test_two_halves_of_an_image_are_one_complex_tile() -> None:
    problem = of((2048, 2048), (255, 255))
    geometry = Filter2dFftGeometry.of(problem, FAMILY.default(problem, H200))
    assert (geometry.tiles, geometry.items) == (2, 1)
    assert geometry.work_bytes < H200.l2_bytes / 2


def test_what_stays_in_the_cache_takes_less_time() -> None:
    problem = of((9216, 9216), (65, 65))
    small = dataclasses.replace(H200, l2_bytes=1 << 20)
    choice = Filter2dFftChoice((32, 32), (32, 32), 8, 2)
    assert nanoseconds(problem, choice, H200) < nanoseconds(problem, choice, small)
    assert nanoseconds(problem, Filter2dFftChoice((16, 16, 16), (32, 32), 16, 2), H200) == float(
        "inf"
    )  # 512 KB of columns


def test_larger_filters_want_larger_tiles() -> None:
    sizes = []
    for taps in (17, 65, 255):
        choice = likely(of((9216, 9216), (taps, taps)), H200)[0]
        sizes.append(np.prod(choice.y) * np.prod(choice.x))
    assert sizes == sorted(sizes)
    assert sizes[-1] > 2 * sizes[0]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"accuracy": "normwise"}, "has errors relative to its whole tile: accuracy imagewise"),
        ({"accuracy": "elementwise"}, "has errors relative to its whole tile: accuracy imagewise"),
        ({"nonfinite": "window"}, "spreads what is not finite over its tiles: nonfinite any"),
        ({"nonfinite": "window", "dtype": "uint8"}, None),
        ({"channels": 3}, "one channel"),
        ({"filter": (6, 8)}, "fewer than 49 taps"),
        ({"filter": (400, 511)}, None),
        ({"filter": (2, 4000), "image": (9, 9000)}, "no tile for a filter of 2x4000 has lines of at most 4096 points"),
    ],
)
def test_says_why_not(fields: dict[str, object], told: str | None) -> None:
    usual = {"image": (512, 512), "filter": (9, 9), "accuracy": "imagewise", "nonfinite": "any"}
    problem = Filter2d(**{**usual, **fields})  # type: ignore[arg-type]
    why_not = FAMILY.why_not(problem, H200)
    assert why_not is None if told is None else (why_not and told in why_not)


def test_no_workspace_of_a_large_bank_is_too_large() -> None:
    problem = of((300, 310), (64, 65), filters=3000)
    for config in sample(problem):
        geometry = Filter2dFftGeometry.of(problem, config)
        assert geometry.spectrum_bytes <= 8 * MOST_SPECTRA
        assert geometry.spectrum_bytes // 8 < 2**31  # kernels count in int
        assert len(geometry.chunks) < geometry.work_bytes
    told = FAMILY.why_not(dataclasses.replace(problem, image=(64, 65), filters=200_000), H200)
    assert told is not None
    assert "fits its workspaces" in told


def test_answers_for_filters_that_tiles_in_shared_memory_are_too_small_for() -> None:
    """65x65 taps on 9216x9216 took 631 us here and 717 us with tiles in shared memory; 31x31 took 804 and 427."""
    assert FAMILY.is_likely(of((9216, 9216), (65, 65)), H200)
    assert FAMILY.is_likely(of((2048, 2048), (255, 255)), H200)
    assert not FAMILY.is_likely(of((9216, 9216), (31, 31)), H200)
    assert not FAMILY.is_likely(of((1024, 1024), (65, 65)), H200)
    assert not FAMILY.is_likely(of((2048, 2048), (255, 255)), HOST)


def test_weights_come_in_the_parameters_where_they_fit() -> None:
    """A caller may then pass the same arrays to any family."""
    for problem, fits in ((of((400, 401), (90, 90)), True), (of((400, 401), (91, 91)), False)):
        assert (problem.operands[1].nbytes <= PARAMETER_BYTES - 8) == fits
        taps = FAMILY.program(problem, FAMILY.default(problem, H200)).launches[0]
        assert taps.arguments == (Pointer("taps"), ByValue("weights") if fits else Pointer("weights"))
