"""Check of a training step that keeps spectra, before its first call, because its exact programs were never tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.runtime import ALIGNMENT, Work
from warpsmith.generator.conv2d import Pass
from warpsmith.generator.conv2d.fourier.sharing import DY, W, X
from warpsmith.plans.conv2d.shared_step import Call, SharedStep
from warpsmith.plans.first_use.finding import Finding
from warpsmith.plans.first_use.verdicts import VERDICTS, verdict_name
from warpsmith.plans.first_use.verify import seed_of
from warpsmith.plans.loaded import LoadedProgram
from warpsmith.plans.match import MatchKind
from warpsmith.plans.verified import EXEMPT, UNASKED, Verification, Verified, Verify

MOST_TIMES = 10
"""Multiple of `check.MOST_FLOPS` up to which a step is checked: 50 ms per program on a large GPU. A step is made once
for a layer, and no later call can be checked instead, because the gradients' calls do not pass x and w.
"""
CALLS: tuple[Call, ...] = (
    (Pass.FPROP, False),
    (Pass.DGRAD, True),
    (Pass.WGRAD, False),
    (Pass.WGRAD, True),
    (Pass.DGRAD, False),
)
"""All programs of a step, in an order in which the spectra that each one reads are there."""


def verify_step(step: SharedStep, which: Verify, compiler: Callable[[], Compiler]) -> Finding | None:
    """Checks a new step and records the outcome in it. A check that cannot be carried out does nothing else.

    Args:
        step: the step before its first call.
        which: which programs are checked.
        compiler: makes the compiler for the step's device.

    Returns: the finding if results are wrong; None if no fault is known.
    """
    if which is Verify.NEVER:
        step.verification = UNASKED
        return None
    if which is Verify.FIRST and _is_tuned(step):
        step.verification = EXEMPT
        return None
    name = _verdict_name(step)
    finding = VERDICTS.get(name)
    if finding is None:
        try:
            finding = _check(step, compiler())
        except Exception as error:
            step.verification = Verification(Verified.NOT, reason=str(error))
            return None
        VERDICTS.put(name, finding)
    step.verification = Verification(Verified.CHECKED, finding.samples, finding.largest_error)
    return None if finding.is_right else finding


def _is_tuned(step: SharedStep) -> bool:
    """True if all passes are stored winners with unchanged configs. Memory for spectra may have changed a config."""
    programs = {Pass.FPROP: step.programs.fprop, **step.programs.given_dy}
    return all(
        match.kind is MatchKind.EXACT and programs[pass_].config == match.program.config
        for pass_, match in step.matches.items()
    )


def _verdict_name(step: SharedStep) -> str:
    fingerprints = " ".join(program.fingerprint for program in step.programs.programs)
    binaries = {f"{pass_} {name}": each for pass_, own in step.binaries.items() for name, each in own.items()}
    return verdict_name(step.problems[Pass.FPROP], step.runtime.device, fingerprints, binaries)


class NotChecked(Exception):
    """The step is not checked; the message says why in one line."""


def _check(step: SharedStep, compiler: Compiler) -> Finding:
    """Runs all programs of a step on random data in separate memory. Raises NotChecked or WarpsmithError."""
    # This imports NumPy's random numbers, and Jinja2 with its templates.
    from warpsmith.plans.first_use.check import MOST_FLOPS, SHARE_OF_FREE_MEMORY
    from warpsmith.plans.first_use.data import memory_needed

    runtime = step.runtime
    if max(problem.flops for problem in step.problems.values()) > MOST_TIMES * MOST_FLOPS[runtime.device.kind]:
        raise NotChecked("the layer takes too long to be run on random data")
    if runtime.is_being_captured():
        raise NotChecked("the step was made while a graph was captured")
    needed, free = sum(map(memory_needed, step.problems.values())) + ALIGNMENT, runtime.free_bytes()
    if free is not None and needed + step.workspace_bytes > free // SHARE_OF_FREE_MEMORY:
        raise NotChecked("random data do not fit into free memory")
    memory = step.new_memory()
    try:
        with runtime.independent_work() as work:
            return _found(step.loaded_on(memory), compiler, work, seed_of(step.programs.fprop))
    finally:
        memory.close()


def _found(parts: Mapping[Call, LoadedProgram], compiler: Compiler, work: Work, seed: int) -> Finding:
    """Finding of all programs together, with the message of the first wrong one."""
    from warpsmith.plans.first_use.check import compared, kernels_of
    from warpsmith.plans.first_use.data import random_data, values_of

    there: dict[str, int] = {}
    found = Finding(0, 0, 0.0, "")
    for number, call in enumerate(CALLS):
        part = parts[call]
        kernels = kernels_of(part, compiler)
        signature = part.signature
        data = random_data(part.problem, signature, kernels, work, seed + number, there)
        there |= {name: data.inputs[name] for name in (X, W, DY) if name in data.inputs}
        addresses = {**data.inputs, part.problem.output.name: data.result}
        launched = tuple(addresses[name] for name in signature.arguments.buffers)
        part.launches.launch(launched, values_of(signature, data.known), work.stream)
        one = compared(part, kernels, work, data, seed, is_random=True)
        if one is None:
            raise NotChecked(f"the results of {call[0]} on random data are not all finite")
        message = found.message or (one.message and f"{call[0]}: {one.message}")
        largest = max(found.largest_error, one.largest_error)
        found = Finding(found.samples + one.samples, found.wrong + one.wrong, largest, message)
    return found
