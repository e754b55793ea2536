"""Layers whose padding repeats pixels: families, texts, folding, and the stages of transforms."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from typing import Any

import pytest

from builders import count_of_words
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.fourier.circular_family import Conv2dCircular
from warpsmith.generator.conv2d.fourier.cufft import Conv2dCufft
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.plane_transforms import bases, least_points
from warpsmith.generator.conv2d.fourier.product_stage import SPECTRA, SPLITS
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.layer.fold import PADDED, Fold
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.family import Family
from warpsmith.generator.fft import Fft
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Pointer, Program

FAMILIES = CONV2D.families

PLAIN, DIRECT, FFT = Conv2dPlain(), Conv2dDirect(), FOURIER["conv2d_fft"]
MODES = [mode for mode in PaddingMode if mode is not PaddingMode.ZEROS]
every_mode = pytest.mark.parametrize("mode", MODES)
every_pass = pytest.mark.parametrize("pass_", Pass)
SHAPE: dict[str, Any] = {"input": (4, 6, 12, 14), "weight": (8, 6, 3, 5), "padding": ((1, 2), (3, 0))}


def problem(pass_: Pass, mode: PaddingMode = PaddingMode.REFLECT, **fields: Any) -> Conv2d:
    return Conv2d(**{**SHAPE, **fields}, pass_=pass_, padding_mode=mode)


def programs(family: Family, conv2d: Conv2d) -> list[Program]:
    """Programs of the default config and of random ones."""
    space, rng = family.space(conv2d, H200), random.Random(1)
    drawn = (space.drawn(rng) for _ in range(6))
    return [family.program(conv2d, each) for each in (family.default(conv2d, H200), *drawn) if each is not None]


class TestText:
    @every_mode
    @every_pass
    @pytest.mark.parametrize("family", [PLAIN, DIRECT], ids=lambda family: family.name)
    def test_is_tidy_and_tells_its_problem(self, family: Family, pass_: Pass, mode: PaddingMode) -> None:
        conv2d = problem(pass_, mode)
        for program in programs(family, conv2d):
            first, second, *rest = program.source.splitlines()
            assert first == f"// warpsmith {family.name}"
            assert second == f"// problem: {conv2d.key()}"
            assert max(map(len, rest)) <= 120 or max(map(len, rest)) == len(f"// config:  {program.config.key()}")
            assert not [line for line in rest if line != line.rstrip()]
            assert "\n\n\n" not in program.source

    @every_mode
    @every_pass
    @pytest.mark.parametrize("family", [PLAIN, DIRECT], ids=lambda family: family.name)
    def test_uses_every_constant_and_function_that_it_has(self, family: Family, pass_: Pass, mode: PaddingMode) -> None:
        for padding in (SHAPE["padding"], ((0, 2), (0, 0)), ((0, 0), (1, 0))):
            for program in programs(family, problem(pass_, mode, padding=padding)):
                code = re.sub(r"//.*", "", program.source)
                defined = set(re.findall(r"constexpr (?:int|unsigned|Taps) (k\w+)", code))
                defined |= set(re.findall(r"__forceinline__ \w+ (\w+)\(", code))
                count = count_of_words(code)
                for name in defined:
                    assert count[name] > 1, (name, program.config)

    def test_of_padding_that_no_tap_reaches_is_without_it(self) -> None:
        """Strided windows may end before the last rows."""
        conv2d = Conv2d((1, 1, 8, 8), (1, 1, 2, 2), stride=2, padding=((0, 1), (0, 0)), padding_mode="reflect")  # type: ignore[arg-type]
        assert all("source_of" not in program.source for program in programs(PLAIN, conv2d))

    def test_of_zeros_has_none_of_it(self) -> None:
        for family, pass_ in itertools.product((PLAIN, DIRECT), Pass):
            for program in programs(family, problem(pass_, PaddingMode.ZEROS)):
                assert "source_of" not in program.source
                assert "first_place" not in program.source
                assert program.workspaces == ()


class TestFold:
    @every_mode
    def test_direct_sums_write_padded_images_and_then_fold_them(self, mode: PaddingMode) -> None:
        conv2d = problem(Pass.DGRAD, mode)
        for program in programs(DIRECT, conv2d):
            sums, fold = program.launches
            assert sums.arguments == (Pointer("dy"), Pointer("w"), Pointer(PADDED))
            assert fold.arguments == (Pointer(PADDED), Pointer("dx"))
            assert [each.nbytes for each in program.workspaces] == [4 * 4 * 6 * 15 * 17]
            threads = fold.grid[0] * fold.block[0]
            assert threads - fold.block[0] < conv2d.output.size <= threads

    def test_takes_no_more_workspace_than_is_allowed(self) -> None:
        nbytes = 4 * 4 * 6 * 15 * 17
        assert DIRECT.why_not(problem(Pass.DGRAD, workspace=nbytes), H200) is None
        told = DIRECT.why_not(problem(Pass.DGRAD, workspace=nbytes - 1), H200)
        assert told == f"the gradient of the padded images takes {nbytes} bytes of workspace"
        for pass_ in (Pass.FPROP, Pass.WGRAD):
            assert DIRECT.why_not(problem(pass_, workspace=0), H200) is None
        assert PLAIN.why_not(problem(Pass.DGRAD, workspace=0), H200) is None

    def test_spaces_are_those_of_padded_images(self) -> None:
        conv2d = problem(Pass.DGRAD)
        assert DIRECT.space(conv2d, H200).fingerprint == DIRECT.space(conv2d.of_padded, H200).fingerprint
        assert DIRECT.default(conv2d, H200) == DIRECT.default(conv2d.of_padded, H200)


@every_mode
@pytest.mark.parametrize(
    ("size", "before", "after"), [(5, 4, 3), (5, 0, 2), (5, 3, 0), (2, 1, 1), (1, 0, 0), (6, 5, 5)]
)
def test_the_places_of_an_element_are_those_at_which_it_stands(
    mode: PaddingMode, size: int, before: int, after: int
) -> None:
    """The templates' arithmetic in Python: folding is the adjoint of reading."""
    found = [(place, i) for i in range(size) for place in places(mode, i, before, size, before + size + after)]
    assert sorted(found) == [(place, source(mode, place - before, size)) for place in range(before + size + after)]


def source(mode: PaddingMode, i: int, size: int) -> int:
    """The function `source_of` in templates/shared/padding.cu.jinja."""
    if mode is PaddingMode.REFLECT:
        return min(abs(size - 1 - abs(size - 1 - i)), size - 1)
    if mode is PaddingMode.REPLICATE:
        return min(max(i, 0), size - 1)
    return i + size if i < 0 else i if i < size else min(i - size, size - 1)


def places(mode: PaddingMode, i: int, before: int, size: int, count: int) -> list[int]:
    """Places that `first_place` and `next_place` of templates/shared/padding.cu.jinja enumerate."""
    last = before + size - 1
    first = {
        PaddingMode.REFLECT: before - i if 0 < i <= before else before + i,
        PaddingMode.REPLICATE: 0 if i == 0 else before + i,
        PaddingMode.CIRCULAR: (before + i) % size,
    }[mode]
    found = []
    while first < count:
        found.append(first)
        if mode is PaddingMode.REFLECT:
            first = before + i if first < before else 2 * last - first if first < last else count
        elif mode is PaddingMode.REPLICATE:
            first = first + 1 if first < before or i == size - 1 else count
        else:
            first += size
    return found


class TestTransforms:
    @every_mode
    @every_pass
    def test_read_the_border_of_the_image_and_begin_with_it(self, pass_: Pass, mode: PaddingMode) -> None:
        conv2d = problem(pass_, mode)
        (basis, *_) = bases(conv2d)
        assert (least_points(conv2d, 0), least_points(conv2d, 1)) == (15, 17)
        assert basis.rows >= 15
        assert basis.columns >= 17
        for stage in FFT.stages(conv2d):
            transform = stage.problem
            if not isinstance(transform, Fft):
                continue
            memory = stage.memory["signal"]
            assert transform.start is None
            assert (transform.border is not None) is (memory == "x")
            if memory == "x":
                assert str(transform.border) == f"{mode}:1+2x3+0"
                assert transform.signal_size == (12, 14)
            if memory == PADDED:
                assert transform.signal_size == (15, 17)
            assert (memory == "dx") is False

    @every_mode
    def test_of_zeros_are_those_of_before(self, mode: PaddingMode) -> None:
        zeros, mirrored = problem(Pass.FPROP, PaddingMode.ZEROS), problem(Pass.FPROP, mode)
        starts = [stage.problem.start for stage in FFT.stages(zeros) if isinstance(stage.problem, Fft)]
        assert starts.count(None) == 2
        assert all(getattr(stage.problem, "border", None) is None for stage in FFT.stages(zeros))
        assert least_points(zeros, 0) == 14 < least_points(mirrored, 0)

    def test_a_gradient_is_folded_behind_the_way_back(self) -> None:
        program = FFT.program(problem(Pass.DGRAD), FFT.default(problem(Pass.DGRAD), H200))
        *_, back, fold = program.launches
        assert back.arguments == (Pointer(SPECTRA[2]), Pointer(PADDED))
        assert (fold.entry, fold.unit) == ("fold", "fold")
        assert fold.arguments == (Pointer(PADDED), Pointer("dx"))
        (text,) = (unit.source for unit in program.units if unit.name == "fold")
        assert text.startswith(f"// warpsmith conv2d_fft\n// problem: {problem(Pass.DGRAD).key()}\n")
        for pass_ in (Pass.FPROP, Pass.WGRAD):
            conv2d = problem(pass_)
            assert "fold" not in {unit.name for unit in FFT.program(conv2d, FFT.default(conv2d, H200)).units}

    def test_the_fold_is_one_text_for_all_configs(self) -> None:
        found = programs(FFT, problem(Pass.DGRAD))
        assert len(found) > 3
        assert len({unit.source for program in found for unit in program.units if unit.name == "fold"}) == 1

    def test_parts_are_folded_into_their_places(self) -> None:
        whole = problem(Pass.DGRAD)
        taken = sum(each.nbytes for each in FFT.workspaces(whole))
        conv2d = dataclasses.replace(whole, workspace=taken - 1)
        program = FFT.program(conv2d, FFT.default(conv2d, H200))
        assert sum(each.nbytes for each in program.workspaces) < taken
        folds = [step for step in program.launches if step.entry == "fold"]
        assert len(folds) == 2
        assert [step.arguments[1] for step in folds] == [Pointer("dx"), Pointer("dx", conv2d.output.nbytes // 2)]
        assert all(step.arguments[0] == Pointer(PADDED) for step in folds)
        assert all(step.grid == (-(-conv2d.output.size // 2 // 256), 1, 1) for step in folds)

    @pytest.mark.parametrize("family", [FFT, FOURIER["conv2d_fft_tensor"]], ids=lambda family: family.name)
    def test_leave_sums_what_the_spectra_and_the_fold_leave(self, family: Conv2dFft) -> None:
        layer = Conv2d((4, 8, 8, 8), (256, 8, 3, 3), pass_=Pass.DGRAD, padding=1, padding_mode="circular")  # type: ignore[arg-type]
        taken = sum(each.nbytes for each in family.workspaces(layer))
        for room in (0, 2**20):
            conv2d, rng = dataclasses.replace(layer, workspace=taken + room), random.Random(2)
            space = family.space(conv2d, H200).within(family.default(conv2d, H200))
            found = [family.default(conv2d, H200), *(space.drawn(rng) for _ in range(20))]
            for config in filter(None, found):
                assert sum(each.nbytes for each in family.program(conv2d, config).workspaces) <= conv2d.workspace
                assert room or config.integer(SPLITS) == 1

    def test_are_expected_to_take_longer_with_a_fold(self) -> None:
        large: dict[str, Any] = {"input": (128, 64, 64, 64), "weight": (64, 64, 9, 9), "padding": 4}
        for pass_ in Pass:
            conv2d = Conv2d(**large, pass_=pass_, padding_mode="reflect")
            assert FFT.is_likely(conv2d, H200)
        fold = Fold.of(Conv2d(**large, pass_=Pass.DGRAD, padding_mode="reflect"), "fold", 128)
        assert fold.nbytes == 4 * 128 * 64 * (72 * 72 + 64 * 64)


class TestRefusals:
    def test_other_families_say_so_in_a_line(self) -> None:
        depthwise = Conv2d((2, 4, 20, 20), (4, 1, 9, 9), groups=4, padding=4, padding_mode="reflect")  # type: ignore[arg-type]
        assert Conv2dCircular().why_not(depthwise, H200) == "pads with zeros only"
        assert Conv2dCufft().why_not(problem(Pass.FPROP), H200) == "pads with zeros only"

    @every_mode
    @every_pass
    def test_every_family_solves_a_layer_or_says_why_not(self, pass_: Pass, mode: PaddingMode) -> None:
        solving = {family.name for family in FAMILIES if family.why_not(problem(pass_, mode), H200) is None}
        assert solving >= {"conv2d_plain", "conv2d_direct", "conv2d_fft", "conv2d_fft_tensor"}
        for family in FAMILIES:
            if family.name in solving and not isinstance(family, Pipeline):
                assert family.space(problem(pass_, mode), H200).contains(family.default(problem(pass_, mode), H200))
