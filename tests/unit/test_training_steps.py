"""Training steps without kernels: spectra that passes share, programs that share them, and the rule of choice."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from builders import timing, winner
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.fourier_family import FourierPipeline
from warpsmith.generator.conv2d.fourier.product_stage import SPLITS
from warpsmith.generator.conv2d.fourier.sharing import (
    Kernel,
    SharedPrograms,
    Spectra,
    expected_ns,
    limited,
    passes_of,
    spared,
    spectra_of,
    stage_ns,
)
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.pipeline import Pipeline, Run
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.steps import Lifetime, Pointer
from warpsmith.plans.conv2d.spectra_choice import SharedKernels, choose, shared_kernels
from warpsmith.plans.conv2d.training_step import ChosenBy
from warpsmith.plans.match import MatchKind
from warpsmith.store.record import Record
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.store_reader import Winners
from winners_in_memory import WinnersInMemory

GPU = dataclasses.replace(H200, name="Test GPU")
L3 = Conv2d((128, 128, 32, 32), (128, 128, 9, 9), padding=((4, 3), (4, 4)))
SMALL = Conv2d((2, 4, 14, 14), (4, 4, 3, 3))
FFT, TENSOR, CUBLAS, DIRECT = (
    FOURIER["conv2d_fft"],
    FOURIER["conv2d_fft_tensor"],
    FOURIER["conv2d_fft_cublas"],
    Conv2dDirect(),
)
SECOND = TENSOR.alternatives(L3)[1]
"""A family on the second of the likely bases of L3."""
Times = dict[Pass, float]


def spectra(layer: Conv2d, family: Pipeline = FFT) -> Spectra:
    found = spectra_of(family, layer, GPU)
    assert isinstance(found, Spectra)
    return found


def kernels(layer: Conv2d, family: Pipeline = FFT) -> dict[Pass, Kernel]:
    return {
        pass_: Kernel(problem, family, family.default(problem, GPU)).fitting(spectra(layer, family), GPU)
        for pass_, problem in passes_of(layer).items()
    }


class TestSpectra:
    def test_are_one_transform_of_each_operand(self) -> None:
        """A filter's plane begins at the same point in all passes."""
        found = spectra(L3)
        assert found.w.start == tuple(-pads[0] % points for pads, points in zip(L3.padding, found.w.size, strict=True))
        assert found.x.start is found.dy.start is None
        assert (found.x.batch, found.w.batch, found.dy.batch) == (128 * 128,) * 3
        assert found.x.size == found.w.size == found.dy.size

    def test_are_the_same_whichever_product_follows(self) -> None:
        assert spectra(L3) == spectra(L3, TENSOR) == spectra(L3, CUBLAS)
        assert spectra(L3) != spectra(L3, SECOND)

    def test_are_none_where_passes_differ(self) -> None:
        class Unlike(FourierPipeline):
            """Another basis for one pass."""

            def stages(self, problem: Problem) -> Any:
                stages = super().stages(problem)
                if getattr(problem, "pass_", None) is not Pass.WGRAD:
                    return stages
                moved = dataclasses.replace(stages[0].problem, start=(1, 0))
                return (dataclasses.replace(stages[0], problem=moved), *stages[1:])

        class InParts(FourierPipeline):
            def runs(self, problem: Problem) -> tuple[Run, ...]:
                return super().runs(problem) * 2

        class Elsewhere(FourierPipeline):
            """Another family transforms w."""

            def stages(self, problem: Problem) -> Any:
                return tuple(
                    dataclasses.replace(each, family=Renamed()) if each.memory.get("signal") == "w" else each
                    for each in super().stages(problem)
                )

        class Renamed(FftBlock):
            name = "fft_other"

        variant, basis = FFT.variant, FFT.variant.likely(L3)[0]
        assert spectra_of(Unlike(variant, basis), L3, GPU) == "transforms an operand in one pass as it does in no other"
        assert spectra_of(InParts(variant, basis), L3, GPU) == "takes the batch in parts"
        assert spectra_of(Elsewhere(variant, basis), L3, GPU) == "transforms by fft_block, fft_other"
        few = Conv2d((4, 4, 20, 20), (4, 4, 3, 3))
        assert (
            spectra_of(FOURIER["conv2d_fft_fused"], few, GPU)
            == "keeps no spectra of its result, in whose place those of dy would be"
        )

    def test_leave_room_for_a_result(self) -> None:
        """The spectra of y, dx and dw need as much room as those of dy, x and w; y takes dy's place."""
        layer = Conv2d((4, 8, 9, 9), (16, 8, 3, 3))
        found = spectra(layer)
        frequencies = found.x.size[0] * (found.x.size[1] // 2 + 1)
        taken = [frequencies * number * 8 for number in (4 * 8, 16 * 8, 4 * 16)]
        assert [found.nbytes(name) for name in ("x", "w", "dy")] == [-(-each // 256) * 256 for each in taken]
        assert found.least_bytes == found.kept_bytes + max(map(found.nbytes, ("x", "w")))
        left = {pass_: limited(problem, found).workspace_limit for pass_, problem in passes_of(layer).items()}
        others = {Pass.FPROP: 0, Pass.DGRAD: found.nbytes("x"), Pass.WGRAD: found.nbytes("w")}
        assert left == {pass_: layer.workspace_limit - nbytes for pass_, nbytes in others.items()}


class TestPrograms:
    def test_transform_each_operand_once(self) -> None:
        programs = SharedPrograms.of(kernels(L3), GPU)
        steps = {
            name: [[each.buffer for each in step.arguments if isinstance(each, Pointer)] for step in program.steps]
            for name, program in {
                "fprop": programs.fprop,
                **{f"{pass_} given": each for pass_, each in programs.given_dy.items()},
                **{f"{pass_} kept": each for pass_, each in programs.kept_dy.items()},
            }.items()
        }
        x, w, dy, result = "spectra_x", "spectra_w", "spectra_dy", "spectra_c"
        made = ["dy", dy]
        assert steps == {
            "fprop": [["w", w], ["x", x], [x, w, dy], [dy, "y"]],
            "dgrad given": [made, [dy, w, result], [result, "dx"]],
            "dgrad kept": [[dy, w, result], [result, "dx"]],
            "wgrad given": [made, [dy, x, result], [result, "dw"]],
            "wgrad kept": [[dy, x, result], [result, "dw"]],
        }

    def test_agree_on_what_is_kept(self) -> None:
        programs = SharedPrograms.of(kernels(L3), GPU).programs
        kept = {
            (each.name, each.nbytes)
            for program in programs
            for each in program.workspaces
            if each.lifetime is Lifetime.KEPT
        }
        found = spectra(L3)
        assert kept == {(f"spectra_{name}", getattr(found, name).output.nbytes) for name in ("x", "w", "dy")}

    def test_transform_dy_in_one_way_whichever_gradient_comes_first(self) -> None:
        """The bits of a result do not depend on the order of passes."""
        made = kernels(L3)
        wgrad = made[Pass.WGRAD]
        other = next(iter(FFT.space(wgrad.problem, GPU).neighbours(wgrad.config)))
        first = next(name for name, value in other.items if dict(wgrad.config.items)[name] != value)
        assert first.startswith("first.")
        programs = SharedPrograms.of({**made, Pass.WGRAD: dataclasses.replace(wgrad, config=other)}, GPU)
        texts = {
            unit.source for program in programs.given_dy.values() for unit in program.units if unit.name == "first"
        }
        assert len(texts) == 1

    def test_split_sums_only_as_far_as_the_spectra_leave_room(self) -> None:
        layer = Conv2d((4, 256, 8, 8), (8, 256, 3, 3))
        found = spectra(layer, TENSOR)
        for room in (0, 1 << 20):
            tight = dataclasses.replace(layer, workspace=found.least_bytes + room)
            for pass_, problem in passes_of(tight).items():
                wanted = dict(TENSOR.default(problem, GPU).items) | {SPLITS: 64}
                config = TENSOR.space(dataclasses.replace(problem, workspace=2**40), GPU).like(wanted)
                assert config is not None
                fitting = Kernel(problem, TENSOR, config).fitting(found, GPU)
                taken = sum(-(-each.nbytes // 256) * 256 for each in fitting.program(GPU).workspaces)
                beside = {Pass.FPROP: 0, Pass.DGRAD: found.nbytes("x"), Pass.WGRAD: found.nbytes("w")}
                assert taken + beside[pass_] <= tight.workspace

    def test_of_a_layer_with_a_bias_are_of_one_problem_each(self) -> None:
        problems = passes_of(dataclasses.replace(SMALL, bias=True))
        assert [problems[pass_].bias for pass_ in Pass] == [True, False, False]
        with pytest.raises(BadArgument, match="has no relu"):
            passes_of(dataclasses.replace(SMALL, relu=True))


def stored(layer: Conv2d, *found: tuple[Family, Times], device: Device = GPU) -> list[Record]:
    """Records of the best of each family, for the passes with a time in ns."""
    problems = passes_of(layer)
    return [
        winner(problems[pass_], timing(ns), device, family=family)
        for family, times in found
        for pass_, ns in times.items()
    ]


def chain(won: Iterable[Record] = (), beaten: Iterable[Record] = ()) -> StoreChain[Winners]:
    return StoreChain((WinnersInMemory("made up", tuple(won), tuple(beaten)),))


def each_pass(ns: float) -> Times:
    return dict.fromkeys(Pass, ns)


def found_kernels(layer: Conv2d, stores: StoreChain[Winners], device: Device = GPU) -> SharedKernels:
    found = shared_kernels(passes_of(layer), device, stores)
    assert isinstance(found, SharedKernels)
    return found


def names(found: SharedKernels) -> dict[Pass, str]:
    return {pass_: family.name for pass_, family in found.families.items()}


class TestKernels:
    def test_are_defaults_on_the_likeliest_basis_where_nothing_is_stored(self) -> None:
        """The families are those that are the default for each pass alone."""
        found = found_kernels(L3, chain())
        assert names(found) == dict.fromkeys(Pass, FOURIER["conv2d_fft_warpgroup"].name)
        assert {match.kind for match in found.matches.values()} == {MatchKind.DEFAULT}
        thin = Conv2d((128, 3, 128, 128), (96, 3, 11, 11))
        assert names(found_kernels(thin, chain()))[Pass.FPROP] == FFT.name

    def test_are_the_fastest_of_each_pass_on_one_basis(self) -> None:
        """Winners of other families have runners-up, and products may differ from pass to pass."""
        won = stored(L3, (DIRECT, {Pass.FPROP: 10.0}), (CUBLAS, {Pass.DGRAD: 20.0}), (FFT, {Pass.WGRAD: 30.0}))
        beaten = stored(L3, (FFT, {Pass.FPROP: 40.0, Pass.DGRAD: 41.0}), (TENSOR, {Pass.FPROP: 35.0}))
        found = found_kernels(L3, chain(won, beaten))
        assert names(found) == {Pass.FPROP: TENSOR.name, Pass.DGRAD: CUBLAS.name, Pass.WGRAD: FFT.name}
        assert found.stored_ns == 35.0 + 20.0 + 30.0
        assert {match.kind for match in found.matches.values()} == {MatchKind.EXACT}

    def test_are_on_the_basis_of_the_least_sum(self) -> None:
        fast = stored(L3, (SECOND, {Pass.FPROP: 5.0, Pass.DGRAD: 50.0, Pass.WGRAD: 5.0}), (FFT, each_pass(21.0)))
        assert found_kernels(L3, chain((), fast)).spectra == spectra(L3, SECOND)
        slow = stored(L3, (SECOND, {Pass.FPROP: 5.0, Pass.DGRAD: 60.0, Pass.WGRAD: 5.0}), (FFT, each_pass(21.0)))
        assert found_kernels(L3, chain((), slow)).spectra == spectra(L3, FFT)
        partial = stored(L3, (SECOND, {Pass.FPROP: 5.0}))
        assert found_kernels(L3, chain((), partial)).spectra == spectra(L3, FFT)

    def test_are_on_a_basis_that_only_a_search_has_found(self) -> None:
        basis = FFT.variant.bases(L3)[6]
        assert basis not in FFT.variant.likely(L3)
        last = TENSOR.on(basis)
        found = found_kernels(L3, chain(stored(L3, (last, each_pass(5.0)))))
        assert found.spectra == spectra(L3, last)
        assert found.stored_ns == 15.0

    def test_are_none_where_the_spectra_do_not_fit(self) -> None:
        least = spectra(SMALL).least_bytes
        assert found_kernels(dataclasses.replace(SMALL, workspace=least), chain()).spectra == spectra(SMALL)
        told = shared_kernels(passes_of(dataclasses.replace(SMALL, workspace=least - 1)), GPU, chain())
        assert told == (
            f"needs {least} bytes of workspace for the spectra of x, w and dy and one call beside them; "
            f"the layer allows {least - 1}"
        )


class TestChoice:
    @staticmethod
    def of(layer: Conv2d, stores: StoreChain[Winners], device: Device = GPU) -> Any:
        return choose(passes_of(layer), found_kernels(layer, stores, device), device, stores)

    def test_is_by_stored_times_where_all_are_known(self) -> None:
        fourier = stored(L3, (FFT, each_pass(40_000.0)))
        for direct_ns, reuse in ((39_000.0, True), (20_000.0, False)):
            won = stored(L3, (DIRECT, each_pass(direct_ns)))
            left_out = [
                winner(stage.problem, timing(3_000.0), GPU, family=stage.family)
                for stage in spared(dict.fromkeys(Pass, FFT), passes_of(L3))
            ]
            choice = self.of(L3, chain([*won, *left_out], fourier))
            assert (choice.reuse, choice.by) == (reuse, ChosenBy.STORED)
            assert choice.reason == (
                f"stored times of the three passes: 111.0 us with shared spectra, {3 * direct_ns / 1000:.1f} us without"
            )

    def test_is_by_expected_times_where_not_all_are(self) -> None:
        choice = self.of(L3, chain(stored(L3, (DIRECT, {Pass.FPROP: 1.0}))))
        assert (choice.reuse, choice.by) == (True, ChosenBy.MODEL)
        assert choice.reason.startswith("expected times of the three passes: ")
        small = self.of(SMALL, chain())
        assert (small.reuse, small.by) == (False, ChosenBy.MODEL)

    def test_expects_three_transforms_less(self) -> None:
        problems = passes_of(L3)
        found = found_kernels(L3, chain())
        whole = sum(expected_ns(found.families[pass_], problem, H200) for pass_, problem in problems.items())
        transforms = spared(found.families, problems)
        assert [stage.memory["signal"] for stage in transforms] == ["w", "x", "dy"]
        saved = sum(stage_ns(each, H200) for each in transforms)
        # Products are more than half of the rest.
        assert 0.1 < saved / whole < 0.2
