"""Whether a training step is faster with spectra that its passes share."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import expected_ns, spared, stage_ns
from warpsmith.generator.conv2d.work import direct_ns
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.registry import family_named
from warpsmith.plans.lookup import exact, find
from warpsmith.plans.match import Match
from warpsmith.plans.training.kernels import SharedKernels, stored_ns, total_ns
from warpsmith.plans.training.step import Choice, ChosenBy
from warpsmith.store.location import StoreChain
from warpsmith.store.store_reader import Winners
from warpsmith.units import format_time


def choose(
    problems: Mapping[Pass, Conv2d], kernels: SharedKernels, device: Device, stores: StoreChain[Winners]
) -> Choice:
    """By the sum over the passes: stored times, where all are known; else expected ones.

    Spectra that are kept save the time of three transforms, which is stored as a problem's of its own, or else is
    expected from their bytes. Of a device without a model the kernels decide: where the three plans would be the very
    ones that keep spectra, these leave steps out and do the same otherwise.

    Args:
        problems: the three passes.
        kernels: those that would keep spectra.
        device: of the question.
        stores: for the answers of the three plans.
    """
    usual = {pass_: find(problem, device, stores) for pass_, problem in problems.items()}
    left_out = spared(kernels.families, problems)
    together, apart = kernels.stored_ns, total_ns(usual.values())
    if together is not None and apart is not None:
        saved = sum(_transform_ns(stage, device, stores) for stage in left_out)
        return _compared(ChosenBy.STORED, "stored times", together - saved, apart)
    if device.kind is DeviceKind.CUDA:
        expected = sum(expected_ns(kernels.families[pass_], problem, device) for pass_, problem in problems.items())
        apart = sum(_expected_of(usual[pass_], problem, device) for pass_, problem in problems.items())
        expected -= sum(stage_ns(stage, device) for stage in left_out)
        return _compared(ChosenBy.MODEL, "expected times", expected, apart)
    if _kernels(usual) == _kernels(kernels.matches):
        return Choice(True, ChosenBy.KERNELS, "the plans are the same kernels, with three transforms more")
    told = ", ".join(match.program.family for match in usual.values())
    return Choice(False, ChosenBy.KERNELS, f"no times are known here, and plans would be {told}")


def _compared(by: ChosenBy, what: str, together_ns: float, apart_ns: float) -> Choice:
    """With shared spectra at a tie: it is the way that does less."""
    told = (
        f"{what} of the three passes: {format_time(together_ns)} with shared spectra, {format_time(apart_ns)} without"
    )
    return Choice(together_ns <= apart_ns, by, told)


def _transform_ns(stage: Stage, device: Device, stores: StoreChain[Winners]) -> float:
    """What a transform takes by itself: stored, or expected; nothing is promised of other devices."""
    match = exact(stage.problem, device, stores)
    known = None if match is None else stored_ns(match)
    if known is not None:
        return known
    return stage_ns(stage, device) if device.kind is DeviceKind.CUDA else 0.0


def _expected_of(match: Match, problem: Conv2d, device: Device) -> float:
    """What a plan is expected to take: its stages, or else sums over taps."""
    family = family_named(match.program.family)
    return expected_ns(family, problem, device) if isinstance(family, Pipeline) else direct_ns(problem, device)


def _kernels(matches: Mapping[Pass, Match]) -> dict[Pass, str]:
    return {pass_: match.program.fingerprint for pass_, match in matches.items()}
