"""Generated CUDA of filter2d and fft: a person has reviewed each text; NVRTC compiles it without warnings or spills.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

import exhaustive
from golden_files import UPDATE as UPDATE
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of, ptx_of
from warpsmith.generator.fft import Fft, Kind, Product, Tiling
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import NonFinite
from warpsmith.generator.program import Program
from warpsmith.generator.registry import OPERATIONS, family_named
from warpsmith.generator.space import Config, Value

from .filter2d_configs import fft, plain, warpgroup, window

BINOMIAL_7 = tuple(float(a * b) for a in (1, 6, 15, 20, 15, 6, 1) for b in (1, 6, 15, 20, 15, 6, 1))
BINOMIAL_15 = tuple(float(math.comb(14, r) * math.comb(14, s)) for r in range(15) for s in range(15))
LAPLACIAN = (0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """Problem, family and config of one golden file; config None is the family's default for an H200."""

    family: str
    problem: Filter2d | Fft
    config: Config | None = None

    def program(self) -> Program:
        family = family_named(self.family)
        assert family is not None, self.family
        config = self.config or family.default(self.problem, H200)
        assert family.space(self.problem, H200).why_not(config) is None, config
        return family.program(self.problem, config)


def block(problem: Fft, **wanted: Value) -> Case:
    """A case of `fft_block`; `wanted` changes the default config for an H200."""
    family = family_named("fft_block")
    assert family is not None
    values = family.default(problem, H200).values() | wanted
    return Case("fft_block", problem, Config.of(values))


CASES = {
    "window_3x3_valid": Case("filter2d_window", Filter2d(image=(9216, 9216), filter=(3, 3))),
    "window_5x5_reflect": Case("filter2d_window", Filter2d(image=(512, 512), filter=(5, 5), border=Border.REFLECT)),
    "window_7x7_constant_literal": Case(
        "filter2d_window",
        Filter2d(image=(1080, 1920), filter=(7, 7), border=Border.CONSTANT, cval=0.5, weights=BINOMIAL_7),
    ),
    "window_3x3_wrap_planes_scalar": Case(
        "filter2d_window",
        Filter2d(image=(333, 517), filter=(3, 3), planes=3, border=Border.WRAP),
        window(columns=1, vectors=(1, 1), turn=(3, 12), block=(64, 1), min_blocks=4),
    ),
    "window_4x2_mirror_strips": Case(
        "filter2d_window",
        Filter2d(image=(480, 640), filter=(4, 2), border=Border.MIRROR),
        window(columns=8, vectors=(2, 4), turn=(2, 32), block=(32, 4), tail="trimmed", load="streaming"),
    ),
    "window_6x6_async": Case(
        "filter2d_window",
        Filter2d(image=(9216, 9216), filter=(6, 6)),
        window(columns=4, vectors=(4, 4), turn=(4, 16), block=(64, 2), path="async", prefetch=3),
    ),
    "window_5x5_uint8_shuffle": Case(
        "filter2d_window",
        Filter2d(image=(4320, 7680), filter=(5, 5), dtype="uint8"),
        window(columns=8, vectors=(8, 4), turn=(4, 8), block=(64, 2), path="shuffle", prefetch=1, store="streaming"),
    ),
    "window_3x3_float16_shared": Case(
        "filter2d_window",
        Filter2d(image=(1080, 1920), filter=(3, 3), dtype="float16", channels=3, border=Border.NEAREST),
        window(columns=8, vectors=(8, 8), turn=(2, 4), block=(32, 4), path="shared"),
    ),
    "window_11x11_texture": Case(
        "filter2d_window",
        Filter2d(image=(720, 1281), filter=(11, 11), border=Border.REFLECT),
        window(columns=4, vectors=(1, 1), turn=(1, 24), block=(64, 1), path="texture", weights="constant"),
    ),
    "window_11x11_taps": Case(
        "filter2d_window",
        Filter2d(image=(9216, 9216), filter=(11, 11)),
        window(columns=4, vectors=(4, 2), turn=(2, 210), block=(64, 1), order="taps", prefetch=2),
    ),
    "window_63x7_loop": Case("filter2d_window", Filter2d(image=(3000, 3000), filter=(63, 7), border=Border.REFLECT)),
    "window_1x63_async": Case("filter2d_window", Filter2d(image=(3000, 3000), filter=(1, 63))),
    "window_31x3_one_turn": Case(
        "filter2d_window", Filter2d(image=(2999, 3001), filter=(31, 3), border=Border.WRAP, dtype="uint8")
    ),
    "window_8x8_winograd": Case(
        "filter2d_window",
        Filter2d(image=(1080, 1920), filter=(8, 8), border=Border.NEAREST, convolve=True, accuracy="normwise"),
        window(columns=4, vectors=(4, 4), turn=(2, 64), block=(64, 1), order="taps", method="winograd"),
    ),
    "window_2x7_winograd_literal": Case(
        "filter2d_window",
        Filter2d(image=(480, 644), filter=(2, 7), weights=BINOMIAL_7[:14], accuracy="normwise"),
        window(columns=2, vectors=(2, 2), turn=(1, 24), block=(64, 2), method="winograd", weights="literal"),
    ),
    "matrix_5x5_uint8": Case("filter2d_matrix", Filter2d(image=(4320, 7680), filter=(5, 5), dtype="uint8")),
    "matrix_3x3_float16_rgb": Case(
        "filter2d_matrix",
        Filter2d(
            image=(1080, 1920),
            filter=(3, 3),
            dtype="float16",
            channels=3,
            border=Border.REFLECT,
            weights=LAPLACIAN,
            nonfinite=NonFinite.ANY,
        ),
    ),
    "matrix_5x5_float16_window": Case(
        "filter2d_matrix", Filter2d(image=(1080, 1920), filter=(5, 5), dtype="float16", border=Border.NEAREST)
    ),
    "warpgroup_15x15_window": Case(
        "filter2d_warpgroup",
        Filter2d(image=(9216, 9216), filter=(15, 15)),
        warpgroup(rows=419, prefetch=5, block=(1, 1), weights="argument", min_blocks=1),
    ),
    "overlap_31x31": Case("filter2d_overlap_save", Filter2d(image=(9216, 9216), filter=(31, 31), accuracy="imagewise")),
    "overlap_7x8_bank": Case(
        "filter2d_overlap_save",
        Filter2d(
            image=(300, 401),
            filter=(7, 8),
            filters=2,
            planes=3,
            dtype="float16",
            border=Border.REFLECT,
            weights=tuple(float(i % 5 - 1) for i in range(112)),
            accuracy="imagewise",
            nonfinite=NonFinite.ANY,
        ),
        Config.of(
            {
                "path": "global",
                "weights": "argument",
                "y_radices": "7x5",
                "x_radices": "3x9",
                "gaps": 6,
                "group": 3,
                "warps": 3,
                "ahead": 0,
                "min_blocks": 4,
                "twiddles": "powers",
                "partners": "apart",
                "store": "streaming",
            }
        ),
    ),
    "fft_65x65": Case(
        "filter2d_fft",
        Filter2d(image=(9216, 9216), filter=(65, 65), accuracy="imagewise", nonfinite=NonFinite.ANY),
        fft(
            y_radices="32x32",
            x_radices="8x8x16",
            twiddles="powers",
            weights="argument",
            column_threads=256,
            columns=8,
            pairs=4,
        ),
    ),
    "fft_65x65_one_launch": Case(
        "filter2d_fft",
        Filter2d(image=(9216, 9216), filter=(65, 65), accuracy="imagewise", nonfinite=NonFinite.ANY),
        fft(
            y_radices="20x24",
            x_radices="28x32",
            twiddles="powers",
            store="streaming",
            weights="argument",
            buffers=4,
            blocks=264,
            column_threads=192,
            row_threads=192,
            columns=16,
            rows=8,
        ),
    ),
    "fft_95x91_constant_bank": Case(
        "filter2d_fft",
        Filter2d(
            image=(200, 190),
            filter=(95, 91),
            filters=2,
            planes=3,
            dtype="uint8",
            border=Border.CONSTANT,
            cval=3.0,
            convolve=True,
            accuracy="imagewise",
        ),
        fft(
            y_radices="12x16", x_radices="4x6x6", rows=3, row_threads=96, buffers=2, partners="apart", store="streaming"
        ),
    ),
    "fft_7x8_known": Case(
        "filter2d_fft",
        Filter2d(
            image=(60, 71),
            filter=(7, 8),
            border=Border.REFLECT,
            dtype="float16",
            weights=tuple(float(i % 5 - 1) for i in range(56)),
            accuracy="imagewise",
            nonfinite=NonFinite.ANY,
        ),
        fft(y_radices="4x6", x_radices="4x8", weights="argument", column_threads=32, row_threads=32),
    ),
    "warpgroup_31x31_parts": Case("filter2d_warpgroup", Filter2d(image=(4096, 4096), filter=(31, 31))),
    "warpgroup_31x31_uint8": Case(
        "filter2d_warpgroup", Filter2d(image=(2000, 3000), filter=(31, 31), dtype="uint8", border=Border.CONSTANT)
    ),
    "warpgroup_9x9": Case("filter2d_warpgroup", Filter2d(image=(9216, 9216), filter=(9, 9), nonfinite=NonFinite.ANY)),
    "warpgroup_15x15_separable": Case(
        "filter2d_warpgroup",
        Filter2d(
            image=(1080, 1920), filter=(15, 15), border=Border.NEAREST, weights=BINOMIAL_15, nonfinite=NonFinite.ANY
        ),
        warpgroup(rows=17, prefetch=11, block=(1, 1), weights="literal", min_blocks=0, ahead=1, frame="apart"),
    ),
    "warpgroup_9x9_wrap_planes": Case(
        "filter2d_warpgroup", Filter2d(image=(512, 512), filter=(9, 9), planes=64, border=Border.WRAP)
    ),
    "warpgroup_7x7_zeros": Case(
        "filter2d_warpgroup",
        Filter2d(image=(128, 128), filter=(7, 7), planes=100, border=Border.CONSTANT, nonfinite=NonFinite.ANY),
    ),
    "warpgroup_5x9_constant_loads": Case(
        "filter2d_warpgroup",
        Filter2d(
            image=(511, 300), filter=(5, 9), channels=3, border=Border.CONSTANT, cval=0.5, nonfinite=NonFinite.ANY
        ),
        warpgroup(rows=64, prefetch=5, block=(2, 1), weights="argument", min_blocks=0, frame="loads"),
    ),
    "warpgroup_5x3_uint8_rgb": Case(
        "filter2d_warpgroup",
        Filter2d(image=(1080, 1920), filter=(5, 3), dtype="uint8", channels=3, border=Border.REFLECT, convolve=True),
        warpgroup(rows=32, prefetch=3, block=(2, 2), weights="constant", min_blocks=1),
    ),
    "plain_3x3_valid": Case("filter2d_plain", Filter2d(image=(9216, 9216), filter=(3, 3))),
    "plain_3x3_nearest_literal": Case(
        "filter2d_plain",
        Filter2d(image=(512, 512), filter=(3, 3), border=Border.NEAREST, weights=LAPLACIAN),
    ),
    "plain_1x6_constant_planes": Case(
        "filter2d_plain",
        Filter2d(image=(1, 4099), filter=(1, 6), planes=64, border=Border.CONSTANT, cval=-1.25),
        plain(block=(256, 1)),
    ),
    "plain_5x5_reflect_texture": Case(
        "filter2d_plain",
        Filter2d(image=(512, 640), filter=(5, 5), dtype="float16", border=Border.REFLECT),
        plain(block=(32, 4), path="texture", outputs=(2, 1), min_blocks=4, weights="constant"),
    ),
    "plain_3x3_mirror_rgb": Case(
        "filter2d_plain",
        Filter2d(image=(1080, 1920), filter=(3, 3), dtype="uint8", channels=3, border=Border.MIRROR, convolve=True),
        plain(block=(64, 4), outputs=(1, 4)),
    ),
    "plain_31x31_wrap_bank": Case(
        "filter2d_plain",
        Filter2d(image=(20, 301), filter=(31, 31), filters=5, border=Border.WRAP, result_pitch=1216),
        plain(block=(128, 1), filters=2),
    ),
    "fft_block_256": block(Fft(256, 262144), spectrum="staged", threads=128, transforms=16),
    "fft_block_32x32_padded": block(
        Fft((32, 32), 65536, valid=(27, 27)), packing="half", threads=128, transforms=4, x_radices="16"
    ),
    "fft_block_64x64_inverse": Case("fft_block", Fft((64, 64), 16384, kind="c2r", valid=(57, 57), norm="ortho")),
    "fft_block_15_pairs_inverse": block(Fft(15, 1001, kind="c2r"), loads="plain", spectrum="staged", stores="plain"),
    "fft_block_245_pairs_bulk": block(
        Fft(245, 273913, kind="c2r"),
        spectrum="direct",
        loads="bulk",
        stores="bulk",
        transforms=5,
        threads=192,
    ),
    "fft_block_20_sequential": block(Fft(20, 3355443), threads=192, transforms=192, spectrum="sequential"),
    "fft_block_12x20_frequency": Case("fft_block", Fft((12, 20), 4096, kind="c2c", layout="frequency")),
    "fft_block_50x50_tiles": Case(
        "fft_block",
        Fft((50, 50), 3456, layout="frequency", tiling=Tiling((3, 3), (40, 40), (-5, -5), (127, 127), 3)),
    ),
    "fft_block_32x32_tiles_inverse": Case(
        "fft_block",
        Fft(
            (32, 32),
            442368,
            kind="c2r",
            valid=(22, 22),
            layout="frequency",
            tiling=Tiling((6, 6), (22, 22), (0, 0), (118, 118), 96),
        ),
    ),
    "fft_block_28x28_product": Case(
        "fft_block",
        Fft(
            (28, 28),
            602112,
            kind="c2r",
            valid=(18, 18),
            layout="frequency",
            tiling=Tiling((7, 7), (18, 18), (0, 0), (118, 118), 96),
            product=Product(6272, 96, 3, "n", "c", offset=True),
        ),
    ),
    "fft_block_256x256_shared": Case("fft_block", Fft((256, 256), 1024)),
    "fft_cufft_12x20_ortho": Case("fft_cufft", Fft((12, 20), 4096, norm="ortho")),
    "fft_cufft_12x20_inverse": Case("fft_cufft", Fft((12, 20), 4096, kind="c2r")),
    "fft_warp_64": Case("fft_warp", Fft(64, 1048576)),
    "fft_warp_8x8_inverse": Case("fft_warp", Fft((8, 8), 4, kind="c2r")),
}

GOLDEN = GoldenFiles(Path(__file__).parent, CASES, lambda name: CASES[name].program().source)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Family of a case, and the types, the border or the kind of transform of its problem."""
    problem = CASES[name].problem
    options = (problem.kind, problem.inverse) if isinstance(problem, Fft) else (problem.border, problem.dtype)
    return frozenset((CASES[name].family, *options))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


def test_the_cases_cover_every_family_border_and_kind_of_weights() -> None:
    filters = [(case.family, case.problem) for case in CASES.values() if isinstance(case.problem, Filter2d)]
    assert {problem.border for _, problem in filters} == set(Border)
    seen = {(family, problem.weights is None) for family, problem in filters}
    assert seen == {(family.name, known) for family in OPERATIONS["filter2d"].families for known in (True, False)}


def test_the_cases_cover_every_family_and_kind_of_transform() -> None:
    transforms = [(case.family, case.problem) for case in CASES.values() if isinstance(case.problem, Fft)]
    assert {problem.kind for _, problem in transforms} == set(Kind)
    seen = {(family, problem.inverse) for family, problem in transforms}
    # A pipeline has no text of its own: its stages generate them.
    names = {each.name for each in OPERATIONS["fft"].families if not isinstance(each, Pipeline)}
    assert seen == {(name, inverse) for name in names for inverse in (True, False)}


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    text = GOLDEN.generated(name)
    assert frames_of(text) == [NOTHING] * text.count("__global__")


def test_zero_taps_vanish() -> None:
    text = ptx_of(GOLDEN.generated("plain_3x3_nearest_literal"))
    taps = sum(tap != 0 for tap in LAPLACIAN)
    assert text.count("ld.global.nc.f32") == text.count("fma.rn.f32") == taps
