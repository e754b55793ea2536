"""Pages of docs/design/kernels/: their figures equal the geometries that the code computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import warpsmith as ws
from warpsmith.generator.cgemm.warpgroup_geometry import WarpgroupGeometry
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.wgmma.wgmma_image import WgmmaImageGeometry
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.registers_geometry import Filter1dRegistersGeometry
from warpsmith.generator.filter1d.text import Weights
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.warpgroup_geometry import COLUMNS, STEP, Filter2dWarpgroupGeometry
from warpsmith.generator.filter2d.window_geometry import WindowGeometry
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import family_named
from warpsmith.generator.space import Config

PAGES = Path(__file__).parents[2] / "docs/design/kernels"
Figures = dict[str, object]


def default(name: str, problem: Problem) -> tuple[Config, Program]:
    """Default config of a family on an H200, and its program."""
    family = family_named(name)
    assert family is not None
    config = family.default(problem, H200)
    return config, family.program(problem, config)


def window() -> Figures:
    problem = Filter2d(image=(9216, 9216), filter=(3, 3))
    config, program = default("filter2d_window", problem)
    g = WindowGeometry.of(problem, config)
    (launch,) = program.launches
    return {
        "blocks": launch.grid[0],
        "blocks of the frame, first in the grid": g.frame_blocks,
        "blocks across and down the interior": f"{g.column_blocks} x {g.strip_blocks}",
        "threads of a block, across and down": f"{g.block_columns} x {g.block_strips}",
        "outputs of a thread, across and down": f"{g.columns} x {g.rows}",
        "loads of a row, pixels of a load": f"{g.loads} x {g.load_vector}",
        "rows of outputs in progress": problem.filter[0] - 1 + g.unroll,
        "rows read ahead": g.prefetch,
        "elements that output rows are skewed, row by row": ", ".join(map(str, g.skews)),
        "static shared memory, bytes": 0,
    }


def matrix() -> Figures:
    problem = Filter2d(image=(9216, 9216), filter=(9, 9))
    config, program = default("filter2d_warpgroup", problem)
    g = Filter2dWarpgroupGeometry.of(problem, config)
    (launch,) = program.launches
    columns, slot, slots = 8 * g.batch_rows, 120 + g.depth, g.prefetch + 1
    return {
        "blocks": launch.grid[0],
        "threads of a block": launch.block[0],
        "outputs of a warpgroup, across": COLUMNS,
        "rows of outputs of a strip": g.rows,
        "strips, warpgroups across": f"{g.strips} x {g.interior_groups}",
        "K: pixels that a segment's products sum over": g.depth,
        "N: columns of matrix B, 8 outputs for each of 9 rows": columns,
        "instructions of a row: 3 products x K / 8": 3 * g.depth // STEP,
        "accumulators of a thread, for each of 2 rows in flight": 4 * g.batch_rows,
        "slots of a warp's ring": slots,
        "pixels of a slot": slot,
        "static shared memory without the warps' places, bytes": 4 * (2 * g.depth * columns + 4 * slots * slot),
    }


def signal() -> Figures:
    problem = Filter1d(2**24, 65)
    config, program = default("filter1d_registers", problem)
    g = Filter1dRegistersGeometry.of(problem, config)
    (launch,) = program.launches
    return {
        "blocks": launch.grid[0],
        "threads of a block": launch.block[0],
        "outputs of a thread, of a block": f"{g.outputs}, {g.outputs * g.columns}",
        "samples of the tile": g.tile,
        "samples of a thread's part of the tile, and numbers of padding behind it": f"{g.thread_stride} + {g.padding}",
        "samples of a thread's window, in loads of 4": g.window,
        "multiply-adds of a thread": g.rest * g.outputs,
        "static shared memory, bytes": g.shared_bytes(problem, Weights.of(config)),
    }


def transform() -> Figures:
    config, program = default("fft_block", Fft(size=(32, 32), batch=65536, kind="r2c"))
    (launch,) = program.launches
    place = re.search(r"tile\[t \* (\d+) \+ y % 4u \* (\d+) \+ y / 4u \* (\d+)", program.source)
    assert place is not None
    whole, group, row = place.groups()
    return {
        "blocks": launch.grid[0],
        "threads of a block": launch.block[0],
        "complex transforms of a tile, each of two real ones": config.integer("transforms"),
        "dynamic shared memory, bytes": launch.shared_bytes,
        "complex numbers from transform to transform, with gaps": whole,
        "from row group to row group (first digit of y)": group,
        "from row to row (second digit of y)": row,
    }


def product() -> Figures:
    problem = ws.Cgemm(batch=2112, m=128, n=64, k=64, b="c", accuracy="normwise")
    config, program = default("cgemm_warpgroup", problem)
    g = WarpgroupGeometry.of(problem, config)
    (launch,) = program.launches
    return {
        "blocks": launch.grid[0],
        "warpgroups of a block": g.groups,
        "results of a block, rows and columns": f"{g.a.block} x {g.b.block}",
        "terms of a stage": g.terms,
        "stages of a sum": g.split_steps,
        "stages that are copied at once": g.stages,
        "bytes of a stage as copied, a and b": f"{g.a.staged} + {g.b.staged}",
        "bytes of a stage split into fp16 parts": g.parts_bytes,
        "bytes of a part of a, and of b": f"{g.a.part}, {g.b.part}",
        "dynamic shared memory, bytes": launch.shared_bytes,
    }


def layer() -> Figures:
    problem = Conv2d(input=(32, 64, 56, 56), weight=(64, 64, 3, 3), padding=1)
    config, program = default("conv2d_warpgroup", problem)
    g = WgmmaImageGeometry.of(problem, config)
    launch = program.launches[-1]
    vectors = 16 * g.arithmetic.parts * g.chunks
    return {
        "blocks, persistent": launch.grid[0],
        "tiles": g.tiles,
        "threads of a block: 3 consumer warpgroups and a producer": launch.block[0],
        "M: positions of a tile": g.tile_m,
        "N: channels of a tile": g.columns,
        "K of a stage: channels": config.integer("channels"),
        "positions of an image on the line": g.lattice.image_pitch,
        "positions of a pixel stage: a tile's and what a row of taps reaches": g.run,
        "pixel stages x bytes": f"{g.pixel_stages} x {vectors * g.run}",
        "weight stages x bytes": f"{g.filter_stages} x {vectors * g.columns}",
        "epilogue staging, bytes": g.staged_bytes,
        "dynamic shared memory, bytes": launch.shared_bytes,
        "registers of a consumer thread, of a producer thread": f"{g.registers}, {g.copying_registers}",
    }


def pipeline() -> Figures:
    problem = Conv2d(input=(128, 128, 32, 32), weight=(128, 128, 9, 9))
    _, program = default("conv2d_fft_warpgroup", problem)
    grids = [launch.grid[0] for launch in program.launches if not launch.entry.endswith("_begin")]
    (spectra,) = {each.nbytes for each in program.workspaces if each.name.startswith("spectra")}
    planes = 128 * 128
    frequencies = spectra // (8 * planes)
    return {
        "transform, points": "32 x 32",
        "frequencies": frequencies,
        "planes of x, of w, of y": ", ".join([str(planes)] * 3),
        "bytes of the spectra of each": spectra,
        "products, m x n x k": f"{frequencies} of 128 x 128 x 128",
        "blocks of the transform of w, of x, of the product, of the transform back": ", ".join(map(str, grids)),
    }


DRAWN: dict[str, Callable[[], Figures]] = {
    "filter2d-window": window,
    "filter2d-warpgroup": matrix,
    "filter1d-registers": signal,
    "fft-block": transform,
    "cgemm-warpgroup": product,
    "conv2d-warpgroup": layer,
    "conv2d-fft": pipeline,
}


def test_every_page_is_checked() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == DRAWN.keys()


@pytest.mark.parametrize("page", DRAWN)
def test_figures_of_a_page(page: str) -> None:
    table = (PAGES / f"{page}.md").read_text().split("| figure | value |\n|---|---|\n")[1].split("\n\n")[0]
    told = dict(re.findall(r"^\| (.*?) \| (.*?) \|$", table, re.MULTILINE))
    assert told == {name: str(value) for name, value in DRAWN[page]().items()}


@pytest.mark.parametrize("page", DRAWN)
def test_files_of_a_page_are_there(page: str) -> None:
    named = re.findall(r"`((?:generator|templates|tuner|src)/[^`]+)`", (PAGES / f"{page}.md").read_text())
    assert len(named) >= 3
    assert [each for each in named if not (PAGES.parents[2] / each).exists()] == []
