"""Which kernels a training step with shared spectra has: those with the least stored time, of one basis."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from warpsmith.errors import WrongResult
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import Kernel, SharedPrograms, Spectra, limited, spectra_of, takes
from warpsmith.generator.device import Device
from warpsmith.generator.gate import Gate
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.registry import OPERATIONS, answering
from warpsmith.plans.lookup import exact, find
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.training.step import too_little
from warpsmith.store.location import StoreChain
from warpsmith.store.store_reader import Winners


@dataclasses.dataclass(frozen=True, slots=True)
class SharedKernels:
    """The kernels of a training step that keeps spectra."""

    spectra: Spectra
    matches: Mapping[Pass, Match]
    families: Mapping[Pass, Pipeline]

    @property
    def stored_ns(self) -> float | None:
        """The sum of the stored times, as plans that share nothing; None where one is not known."""
        return total_ns(self.matches.values())

    def programs(self, problems: Mapping[Pass, Conv2d], device: Device) -> SharedPrograms:
        """Theirs, with as much scratch memory as the spectra leave."""
        kernels = {
            pass_: Kernel(problems[pass_], self.families[pass_], match.program.config)
            for pass_, match in self.matches.items()
        }
        return SharedPrograms.of({pass_: each.fitting(self.spectra, device) for pass_, each in kernels.items()}, device)


def shared_kernels(problems: Mapping[Pass, Conv2d], device: Device, stores: StoreChain[Winners]) -> SharedKernels | str:
    """The kernels on the basis whose stored times have the least sum; where no sum is known, on the likeliest basis.

    Returns: why there are none, in one line.
    """
    found: list[SharedKernels] = []
    reasons: list[str] = []
    bases, unable = _bases(problems[Pass.FPROP], device)
    for spectra in bases:
        kernels = _of_basis(problems, spectra, device, stores)
        if isinstance(kernels, str):
            reasons.append(kernels)
        else:
            found.append(kernels)
    timed = [(ns, number) for number, each in enumerate(found) if (ns := each.stored_ns) is not None]
    if found:
        return found[min(timed)[1] if timed else 0]
    return (*reasons, *unable)[0]


def stored_ns(match: Match) -> float | None:
    """The time of an answer in ns, where it was taken of this very problem on this device."""
    return match.record.timing.median_ns if match.kind is MatchKind.EXACT and match.record is not None else None


def total_ns(matches: Iterable[Match]) -> float | None:
    """The sum of the times of several answers; None where one is not stored."""
    times = [stored_ns(match) for match in matches]
    known = [ns for ns in times if ns is not None]
    return sum(known) if len(known) == len(times) else None


def _pipelines(layer: Conv2d) -> list[Pipeline]:
    return [family for family in OPERATIONS[layer.operation].families if isinstance(family, Pipeline)]


def _bases(layer: Conv2d, device: Device) -> tuple[list[Spectra], list[str]]:
    """The spectra that all passes of some family share, the likeliest basis first; and why the others share none."""
    bases: list[Spectra] = []
    reasons: list[str] = []
    for family in _pipelines(layer):
        spectra = spectra_of(family, layer, device)
        if isinstance(spectra, str):
            reasons.append(spectra)
        elif spectra not in bases:
            bases.append(spectra)
    return bases, reasons


def _of_basis(
    problems: Mapping[Pass, Conv2d], spectra: Spectra, device: Device, stores: StoreChain[Winners]
) -> SharedKernels | str:
    """Each pass by the best family that takes these spectra, also by one that solves no other pass."""
    if spectra.least_bytes > (allowed := problems[Pass.FPROP].workspace_limit):
        return too_little(spectra.least_bytes, allowed)
    matches: dict[Pass, Match] = {}
    chosen: dict[Pass, Pipeline] = {}
    for pass_, problem in problems.items():
        left = limited(problem, spectra)
        takers = (family for family in _pipelines(problem) if takes(family, problem, spectra, device))
        gate = Gate(left, device)
        able = [family for family in takers if gate.why_unable(family) is None]
        try:
            answer = _answer(problem, able, device, stores)
        except WrongResult as wrong:
            return str(wrong)
        if answer is None:
            return f"no family of {pass_} answers on this basis before a search has chosen it"
        matches[pass_], chosen[pass_] = answer
    return SharedKernels(spectra, matches, chosen)


def _answer(
    problem: Conv2d, able: list[Pipeline], device: Device, stores: StoreChain[Winners]
) -> tuple[Match, Pipeline] | None:
    """The fastest that is stored of some families; else what is known of the one that is likely to win."""
    stored = [(match, family) for family in able if (match := exact(problem, device, stores, family)) is not None]
    timed = [(ns, number) for number, (match, _) in enumerate(stored) if (ns := stored_ns(match)) is not None]
    if timed:
        return stored[min(timed)[1]]
    unasked = [family for family in able if family.may_answer]
    if not unasked:
        return None
    likeliest = min(unasked, key=lambda family: _unlikely_stages(family, problem, device))
    return find(problem, device, stores, likeliest.name), likeliest


def _unlikely_stages(family: Pipeline, problem: Conv2d, device: Device) -> int:
    """How many stages are by another family than the one that would answer for them by itself."""
    stages = family.stages(problem)
    return sum(stage.family.name != answering(stage.problem, device)[0].name for stage in stages)
