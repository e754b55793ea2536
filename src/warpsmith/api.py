"""The functions of the public API. Each imports what it needs when it is called: `import warpsmith` is quick."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.errors import BadArgument, NothingStored
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.problem import AUTO, Problem, check_method, checked_problem, member

if TYPE_CHECKING:
    from warpsmith.plans.bundle import Bundle
    from warpsmith.plans.match import Match
    from warpsmith.plans.plan import Plan
    from warpsmith.plans.training.step import TrainingStep
    from warpsmith.store.record import Record
    from warpsmith.tuner.export import ExportReport
    from warpsmith.tuner.options import TuneOptions
    from warpsmith.tuner.report import TuneReport


def tune(
    problem: Problem,
    device: str = "auto",
    *,
    trials: int = 100,
    time_limit: float | None = None,
    seed: int = 0,
    sampler: str = "additive",
    method: str = AUTO,
    store: str | None = None,
) -> TuneReport:
    """Searches for the fastest correct kernel for `problem`, and stores the winner and every trial.

    Each candidate is compiled, verified element by element against float64, and timed. The winner is verified again on
    fresh data and timed in turns with the other finalists, with what `plan` answered before, than which it is never
    slower, with a plain copy and with the other libraries that are installed. The store keeps the fastest of each
    family beside it, timed in the same turns unless a time limit or Ctrl-C ended the search.

    Args:
        problem: what is to be computed.
        device: `auto` (the first GPU, or the host where there is none), `cuda:I`, `host`, or `all` GPUs here.
        trials: number of trials in the store at the end of the run; those of earlier runs count.
        time_limit: seconds of searching, counted from when the device and the float64 reference are ready. Whatever the
            limit, the best two of what is known are timed first; verifying and timing the finalists comes after it.
        seed: seed of the search and of the test data.
        sampler: `additive`, or one of Optuna's: `tpe`, `gp`, `cmaes`, `random`.
        method: `auto` for all families, or the name of the only one that is searched. Its best then becomes the winner
            only where it is faster than what `plan` answered before, which is timed in the same turns.
        store: file or database URL to write to; None for WARPSMITH_STORE, or the user's own file.

    Returns:
        The stored winner, or with `method` that family's best; trials, failures, and the time of each stage.

    Raises:
        BadArgument: an unknown device, sampler or method, a problem that it cannot solve, or an option out of range.
        CompileError: the compiler is missing.
        DeviceError: the device is not available, or failed.
        MissingExtra: warpsmith was installed without its extra `tune`.
        StoreError: the store cannot be opened or written.
        TuningFailed: no candidate was correct, with the reasons by family; other parts that fail are in the report.
    """
    from warpsmith.extras import Extra, require

    require(Extra.TUNE, "tuning")
    from warpsmith.tuner.options import TuneOptions
    from warpsmith.tuner.search.sampler_choice import SamplerChoice

    chosen = member(SamplerChoice, sampler, "sampler")
    options = TuneOptions(trials=trials, time_limit_s=time_limit, seed=seed, sampler=chosen, method=method)
    return _tuned(problem, device, options, store)


def _tuned(problem: Problem, device: str, options: TuneOptions, store: str | None) -> TuneReport:
    from warpsmith.devices.select import DeviceRef
    from warpsmith.store.location import write_location
    from warpsmith.tuner.progress import SilentProgress
    from warpsmith.tuner.run.session import tune_into

    devices = DeviceRef.parse_all(device)
    return tune_into(write_location(store), checked_problem(problem), devices, options, SilentProgress())


def plan(
    problem: Problem, device: str = "auto", *, method: str = AUTO, store: str | None = None, verify: str | None = None
) -> Plan:
    """Looks up the best stored kernel for `problem`, compiles and loads it. Never searches.

    Where nothing fits in the store, the plan runs the default configuration of a kernel family that can solve the
    problem; `plan.match.kind` says how the answer was found. Where this problem was not tuned, but others with several
    families were, their times choose the family, if that has proved better for those problems; `plan.match.reasons`
    says so.

    A second call for an equal problem, device, method and store gives the same plan, in 2 us, until a store's file
    changes: what this process writes is seen at once, what another one writes within 5 ms. Of a store on a server
    nothing is remembered.

    Args:
        problem: what is to be computed.
        device: `auto` (the first GPU, or the host where there is none), `cuda:I` or `host`.
        method: `auto`, or the name of a kernel family: the best that is known of it, else its default.
        store: file or database URL to search first; then the user's own file and the shipped store are searched. None
            for WARPSMITH_STORE.
        verify: which answers are checked on this device before they are relied on: `first`, those that were not tuned
            for this problem here, once for each program; `always`, stored winners too; `never`. None for
            WARPSMITH_VERIFY, or `first`. About a thousand results are compared with float64 sums, on random data when
            the plan is made, or on those of its first call where that would take long, or much of the free memory.

    Returns:
        A callable: `y = plan(x, w)`. `plan.verified` says what was checked.

    Raises:
        BadArgument: an unknown device or method, or a problem that no kernel family can solve, or not the one that
            `method` names.
        CompileError: the compiler is missing, or refused the kernel.
        DeviceError: the device is not available, or failed.
        StoreError: a store cannot be read.
        WrongResult: every program that could answer gave wrong results.

    Warns:
        WrongProgram: a program gave wrong results; the next answer took its place, and none answers with it again.
        StaleTiming: the stored time was taken with another driver, toolkit or library; the result is not affected.
    """
    return _planner()(problem, device, store, method, verify)


@cache
def _planner() -> Callable[[Problem, str, str | None, str, str | None], Plan]:
    """What makes plans, imported once: Python takes 0.6 us to find that an import is done already."""
    from warpsmith.plans.make import plan as make

    return make


def training_step(
    layer: Conv2d,
    device: str = "auto",
    *,
    reuse: bool | None = None,
    store: str | None = None,
    verify: str | None = None,
) -> TrainingStep:
    """The forward pass of a layer and both gradients, which may share what they have in common.

    In the frequency domain each pass transforms two of x, w and dy. A step that keeps their spectra transforms each
    once: three forward transforms in place of six. All passes are then of one basis size, that with the least sum of
    stored times; each by the fastest that is stored of the families on it, else by their default. Never searches:
    `tune` the three passes first. A new step with memory of its own is made at each call: make one for each layer.

    Args:
        layer: the forward pass; its `workspace` is the most that the kept spectra and a call's scratch memory may take.
        device: as for `plan`.
        reuse: whether spectra are kept. None: where that is expected to be faster than the three plans, which
            `step.choice` tells with its grounds: stored times where all are known, else a model of a large GPU.
        store: as for `plan`.
        verify: as for `plan`. A step that keeps spectra is checked when it is made, all of its programs on random data.

    Returns:
        A step: `y = step.fprop(x, w)`, `dx = step.dgrad(dy)`, `dw = step.wgrad()`.

    Raises:
        BadArgument: `layer` is a gradient or has a ReLU; or, with `reuse=True`, it is not solved in the frequency
            domain, or the spectra do not fit its workspace; or as for `plan`.
        CompileError: as for `plan`.
        DeviceError: as for `plan`.
        StoreError: as for `plan`.
        WrongResult: with `reuse=True`, the programs gave wrong results; or as for `plan`.

    Warns:
        WrongProgram: the programs that keep spectra gave wrong results; three plans take their place. Or as for `plan`.
    """
    from warpsmith.plans.training.make import training_step as make

    return make(layer, device, store, reuse, verify)


def query(problem: Problem, device: str = "auto", *, method: str = AUTO, store: str | None = None) -> Match:
    """Finds the answer that `plan` would run, without compiling it.

    Args:
        problem: what is to be computed.
        device: as for `plan`.
        method: as for `plan`.
        store: as for `plan`.

    Returns:
        The kind of match, the program with its CUDA text, and the stored record with its times, where there is one.

    Raises:
        BadArgument: as for `plan`.
        DeviceError: the device is not available.
        StoreError: a store cannot be read.
    """
    from warpsmith.devices.select import DeviceRef
    from warpsmith.plans.lookup import look_up

    check_method(method)
    return look_up(checked_problem(problem), DeviceRef.parse(device).device(), store, method)


def export(
    problems: Iterable[Problem] | None,
    folder: str | Path,
    *,
    archs: tuple[str, ...] = (),
    store: str | None = None,
) -> ExportReport:
    """Writes stored winners as a bundle: CUDA text, machine code, and a manifest with checksums.

    Args:
        problems: problems whose winners are exported, for every device that has one; None for all stored winners.
        folder: an empty or missing folder, or an earlier bundle, which is replaced.
        archs: architectures to compile for, such as `sm_90`; if empty, those of the GPUs that were tuned on.
        store: as for `plan`.

    Returns:
        The number of kernels and cubins that were written, and a line for each that was left out.

    Raises:
        BadArgument: an unknown architecture.
        BundleError: the folder cannot be written, or holds other files.
        NothingStored: a problem has no stored winner, or nothing is stored at all.
        StoreError: a store cannot be read.
    """
    from warpsmith.plans.bundle_files import folder_of
    from warpsmith.store.location import open_for_reading
    from warpsmith.tuner.export import export as write

    target, wanted = folder_of(folder), None if problems is None else _problems(problems)
    if isinstance(archs, str) or not all(isinstance(each, str) for each in archs):
        raise BadArgument(f"archs must be names of architectures, such as ('sm_90',); got {archs!r}")
    with open_for_reading(store) as stores:
        records = stores.answers()
    return write(_winners(wanted, records), target, tuple(archs))


def _problems(given: Iterable[Problem]) -> tuple[Problem, ...]:
    """Raises BadArgument where they are no problems; one problem alone is not several."""
    if isinstance(given, Problem) or not isinstance(given, Iterable) or isinstance(given, str):
        raise BadArgument(f"export takes problems as a list, such as [Filter2d(...)], or None for all; got {given!r}")
    return tuple(map(checked_problem, given))


def _winners(problems: tuple[Problem, ...] | None, records: tuple[Record, ...]) -> tuple[Record, ...]:
    if problems is None:
        if not records:
            raise NothingStored("nothing is stored yet; run `warpsmith tune` first")
        return records
    chosen: list[Record] = []
    for problem in problems:
        found = [record for record in records if record.problem == problem]
        if not found:
            raise NothingStored(f"nothing is stored for {problem.key()}; run `warpsmith tune` first")
        chosen += found
    return tuple(chosen)


def load_bundle(folder: str | Path) -> Bundle:
    """Opens an exported bundle and checks its files against their checksums.

    Needs neither a store nor the packages of the tuner (optuna, sqlalchemy, jinja2).

    Args:
        folder: what `export` wrote.

    Returns:
        The bundle; `bundle.plan(problem)` makes one of its kernels callable.

    Raises:
        BundleError: the folder is not a bundle, is incomplete, or was altered.
    """
    from warpsmith.plans.bundle import load_bundle as load

    return load(folder)
