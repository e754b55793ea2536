"""Selects the kernels of a training step with shared spectra, and decides whether spectra are shared at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

from warpsmith.errors import WrongResult
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import (
    Kernel,
    SharedPrograms,
    Spectra,
    expected_ns,
    limited,
    spared,
    spectra_of,
    stage_ns,
    takes,
)
from warpsmith.generator.conv2d.sums.direct_model import direct_ns
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.gate import Gate
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.ranking import likeliest_pipeline
from warpsmith.generator.registry import OPERATIONS, family_named
from warpsmith.generator.selection import Selection
from warpsmith.generator.space import Config
from warpsmith.plans.conv2d.training_step import Choice, ChosenBy, too_little
from warpsmith.plans.lookup import exact, find
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.poisoned import WRONG_HERE
from warpsmith.store.record import Record
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.store_reader import Winners
from warpsmith.units import format_time


@dataclasses.dataclass(frozen=True, slots=True)
class SharedKernels:
    """Kernels of a training step whose passes share spectra."""

    spectra: Spectra
    matches: Mapping[Pass, Match]
    families: Mapping[Pass, Pipeline]

    @property
    def stored_ns(self) -> float | None:
        """Sum of the stored times of the kernels as separate plans; None if one is not known."""
        return total_ns(self.matches.values())

    def programs(self, problems: Mapping[Pass, Conv2d], device: Device) -> SharedPrograms:
        """Programs of these kernels, with the scratch memory that the spectra leave."""
        kernels = {
            pass_: Kernel(problems[pass_], self.families[pass_], match.program.config)
            for pass_, match in self.matches.items()
        }
        return SharedPrograms.of({pass_: each.fitting(self.spectra, device) for pass_, each in kernels.items()}, device)


def shared_kernels(problems: Mapping[Pass, Conv2d], device: Device, stores: StoreChain[Winners]) -> SharedKernels | str:
    """The kernels on the basis whose stored times have the least sum; on the likeliest basis if no sum is known.

    Returns: the kernels, or one line that says why there are none.
    """
    found: list[SharedKernels] = []
    reasons: list[str] = []
    pipelines = _pipelines(problems, device, stores)
    bases, unable = _bases(problems[Pass.FPROP], pipelines, device)
    for spectra in bases:
        kernels = _of_basis(problems, pipelines, spectra, device, stores)
        if isinstance(kernels, str):
            reasons.append(kernels)
        else:
            found.append(kernels)
    timed = [(ns, number) for number, each in enumerate(found) if (ns := each.stored_ns) is not None]
    if found:
        return found[min(timed)[1] if timed else 0]
    return (*reasons, *unable)[0]


def choose(
    problems: Mapping[Pass, Conv2d], kernels: SharedKernels, device: Device, stores: StoreChain[Winners]
) -> Choice:
    """Decides by the sum of the three passes' times: stored times if all are known, else expected ones.

    Shared spectra save three transforms. The time of a transform is stored under its own problem, or else is expected
    from its bytes. A device without a model is decided by the kernels: if the three plans run the same kernels as the
    step with shared spectra, that step only leaves work out.

    Args:
        problems: the three passes.
        kernels: the kernels that would share spectra.
        device: device that the step runs on.
        stores: stores for the answers of the three plans.
    """
    separate = {pass_: find(problem, device, stores) for pass_, problem in problems.items()}
    left_out = spared(kernels.families, problems)
    together, apart = kernels.stored_ns, total_ns(separate.values())
    if together is not None and apart is not None:
        saved = sum(_transform_ns(stage, device, stores) for stage in left_out)
        return _compared(ChosenBy.STORED, "stored times", together - saved, apart)
    if device.kind is DeviceKind.CUDA:
        expected = sum(expected_ns(kernels.families[pass_], problem, device) for pass_, problem in problems.items())
        apart = sum(_expected_of(separate[pass_], problem, device) for pass_, problem in problems.items())
        expected -= sum(stage_ns(stage, device) for stage in left_out)
        return _compared(ChosenBy.MODEL, "expected times", expected, apart)
    if _kernels(separate) == _kernels(kernels.matches):
        return Choice(True, ChosenBy.KERNELS, "the plans are the same kernels, with three transforms more")
    families = ", ".join(match.program.family for match in separate.values())
    return Choice(False, ChosenBy.KERNELS, f"no times are known here, and plans would be {families}")


def _compared(by: ChosenBy, what: str, together_ns: float, apart_ns: float) -> Choice:
    """The way with the smaller time. A tie goes to shared spectra, because they do less work."""
    reason = (
        f"{what} of the three passes: {format_time(together_ns)} with shared spectra, {format_time(apart_ns)} without"
    )
    return Choice(together_ns <= apart_ns, by, reason)


def _transform_ns(stage: Stage, device: Device, stores: StoreChain[Winners]) -> float:
    """Time of a transform by itself: stored, or expected; 0 for a device without a model."""
    match = exact(stage.problem, device, stores)
    known = None if match is None else stored_ns(match)
    if known is not None:
        return known
    return stage_ns(stage, device) if device.kind is DeviceKind.CUDA else 0.0


def _expected_of(match: Match, problem: Conv2d, device: Device) -> float:
    """Expected time of a plan: that of its stages, or else of sums over taps."""
    family = family_named(match.program.family)
    return expected_ns(family, problem, device) if isinstance(family, Pipeline) else direct_ns(problem, device)


def _kernels(matches: Mapping[Pass, Match]) -> dict[Pass, str]:
    return {pass_: match.program.fingerprint for pass_, match in matches.items()}


def stored_ns(match: Match) -> float | None:
    """Time of an answer in ns if it was measured for this problem on this device, else None."""
    return match.record.timing.median_ns if match.kind is MatchKind.EXACT and match.record is not None else None


def total_ns(matches: Iterable[Match]) -> float | None:
    """Sum of the times of several answers; None if one is not stored."""
    times = [stored_ns(match) for match in matches]
    known = [ns for ns in times if ns is not None]
    return sum(known) if len(known) == len(times) else None


def _pipelines(problems: Mapping[Pass, Conv2d], device: Device, stores: StoreChain[Winners]) -> list[Pipeline]:
    """The families with stages, each on every likely basis, and on those of its stored kernels of a pass."""
    layer = problems[Pass.FPROP]
    found: dict[Pipeline, None] = {}
    stored = [(problem, record.trial) for problem in problems.values() for record in _stored(problem, device, stores)]
    for family in OPERATIONS[layer.operation].families:
        if isinstance(family, Pipeline):
            found |= dict.fromkeys(family.alternatives(layer))
            own = ((problem, trial.config) for problem, trial in stored if trial.family == family.name)
            found |= {family.of(config): None for problem, config in own if _is_legal(family, config, problem, device)}
    return list(found)


def _stored(problem: Conv2d, device: Device, stores: StoreChain[Winners]) -> Iterator[Record]:
    subject = problem.key(), device.key()
    yield from stores.winners(*subject)
    yield from stores.runners_up(*subject)


def _bases(layer: Conv2d, pipelines: Iterable[Pipeline], device: Device) -> tuple[list[Spectra], list[str]]:
    """The spectra that all passes of a family share, the likeliest basis first, and why other families share none."""
    bases: list[Spectra] = []
    reasons: list[str] = []
    for family in pipelines:
        spectra = spectra_of(family, layer, device)
        if isinstance(spectra, str):
            reasons.append(spectra)
        elif spectra not in bases:
            bases.append(spectra)
    return bases, reasons


def _of_basis(
    problems: Mapping[Pass, Conv2d],
    pipelines: Collection[Pipeline],
    spectra: Spectra,
    device: Device,
    stores: StoreChain[Winners],
) -> SharedKernels | str:
    """The best family of each pass that takes these spectra. Passes may have different families."""
    if spectra.least_bytes > (allowed := problems[Pass.FPROP].workspace_limit):
        return too_little(spectra.least_bytes, allowed)
    matches: dict[Pass, Match] = {}
    chosen: dict[Pass, Pipeline] = {}
    for pass_, problem in problems.items():
        left = limited(problem, spectra)
        takers = (family for family in pipelines if takes(family, problem, spectra, device))
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
    """The fastest stored answer of some families; else the answer of the family that is likeliest to win.

    An answer on another basis does not count: then the default on this one answers, if it is not known to be wrong.
    """
    stored = [
        (match, family)
        for family in able
        if (match := exact(problem, device, stores, family)) is not None and _is_of(family, match, problem, device)
    ]
    timed = [(ns, number) for number, (match, _) in enumerate(stored) if (ns := stored_ns(match)) is not None]
    if timed:
        return stored[min(timed)[1]]
    eligible = [family for family in able if family.may_answer]
    if not eligible:
        return None
    likeliest = likeliest_pipeline(eligible, problem, device)
    match = find(problem, device, stores, Selection(likeliest.name))
    if _is_of(likeliest, match, problem, device):
        return match, likeliest
    gate = Gate(problem, device)
    program = gate.program(likeliest, gate.default(likeliest))
    if program.fingerprint in stores.poisoned(device) or program.fingerprint in WRONG_HERE.of(device):
        return None
    return Match(MatchKind.DEFAULT, program, None, match.reasons), likeliest


def _is_of(pipeline: Pipeline, match: Match, problem: Conv2d, device: Device) -> bool:
    """Whether a pipeline makes the program of an answer of its family."""
    return _is_legal(pipeline, match.program.config, problem, device)


def _is_legal(pipeline: Pipeline, config: Config, problem: Conv2d, device: Device) -> bool:
    gate = Gate(problem, device)
    return gate.why_not(pipeline, config) is None
