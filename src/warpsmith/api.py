"""Functions of the public API. Each imports what it needs when it is called, so that `import warpsmith` is fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.errors import BadArgument, NothingStored
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.pins import PinnedValues
from warpsmith.generator.problem import AUTO, Problem, checked_problem, member
from warpsmith.generator.selection import Selection

if TYPE_CHECKING:
    from warpsmith.plans.bundle import Bundle
    from warpsmith.plans.conv2d.training import TrainingStep
    from warpsmith.plans.match import Match
    from warpsmith.plans.plan import Plan
    from warpsmith.store.record import Record
    from warpsmith.store.store_chain import StoreChain
    from warpsmith.store.store_reader import Winners
    from warpsmith.tuner.export import ExportReport
    from warpsmith.tuner.options import TuneOptions
    from warpsmith.tuner.report import TuneReport
    from warpsmith.tuner.search.sampler_choice import SamplerChoice


def tune(
    problem: Problem,
    device: str = "auto",
    *,
    trials: int = 100,
    time_limit: float | None = None,
    seed: int = 0,
    sampler: str = "additive",
    method: str = AUTO,
    parameters: PinnedValues | None = None,
    store: str | None = None,
) -> TuneReport:
    """Searches for the fastest correct kernel for `problem`, and stores the winner and every trial.

    Each candidate is compiled, verified element by element against float64, and timed. The winner is verified again on
    fresh data and timed in turns with other finalists, a copy, installed libraries, and the kernel that `plan` returned
    before, which it never is slower than. The store keeps the fastest of each family beside it.

    Args:
        problem: problem to tune.
        device: `auto` (the first GPU, else the host), `cuda:I`, `host` or `all` GPUs. A new GPU is measured first.
        trials: number of trials in the store at the end of the run; those of earlier runs count.
        time_limit: seconds of search, counted from when the device and the float64 reference are ready. Whatever the
            limit, the two likeliest known candidates are timed first; verifying and timing the finalists comes on top.
        seed: seed of the search and of the test data.
        sampler: `additive`, or one of Optuna's: `tpe`, `gp`, `cmaes`, `random`.
        method: `auto`, or the only family to search. Its best becomes the winner only if it beats what `plan` returned.
        parameters: values of kernel parameters to keep to, such as `{"path": "texture", "rows": (2, 4)}`, of those that
            `warpsmith space` lists. The best is stored for them, and becomes the winner only as with `method`.
        store: file or database URL to write to; None for WARPSMITH_STORE, or the user's own file.

    Returns:
        The stored winner, or the best of `method` and `parameters`; trials, failures, costs.

    Raises:
        BadArgument: an unknown device or an invalid option, or no kernel of `method` with `parameters` solves it.
        CompileError: the compiler is missing.
        DeviceError: the device is not available, or failed.
        MissingExtra: warpsmith was installed without its extra `tune`.
        StoreError: the store cannot be opened or written.
        TuningFailed: no candidate was correct; the message has the reasons by family.
    """
    from warpsmith.extras import Extra, require

    require(Extra.TUNE, "tuning")
    from warpsmith.tuner.options import TuneOptions

    chosen, selection = _sampler(sampler), Selection.of(method, parameters)
    options = TuneOptions(trials=trials, time_limit_s=time_limit, seed=seed, sampler=chosen, selection=selection)
    return _tuned(problem, device, options, store)


def _sampler(name: str) -> SamplerChoice:
    from warpsmith.tuner.search.sampler_choice import SamplerChoice

    return member(SamplerChoice, name, "sampler")


def _tuned(problem: Problem, device: str, options: TuneOptions, store: str | None) -> TuneReport:
    from warpsmith.devices.select import DeviceRef
    from warpsmith.store.location import write_location
    from warpsmith.tuner.progress import SilentProgress
    from warpsmith.tuner.run.session import tune_into

    devices = DeviceRef.parse_all(device)
    return tune_into(write_location(store), checked_problem(problem), devices, options, SilentProgress())


def plan(
    problem: Problem,
    device: str = "auto",
    *,
    method: str = AUTO,
    store: str | None = None,
    verify: str | None = None,
    parameters: PinnedValues | None = None,
) -> Plan:
    """Looks up the best stored kernel for `problem`, compiles and loads it. Never searches.

    If no stored kernel fits, the plan runs the default configuration of a kernel family that can solve the problem;
    `plan.match.kind` says how the kernel was found. If this problem was not tuned, but several families were timed on
    other problems, these times choose the family, provided that this proved better for those problems;
    `plan.match.reasons` says so.

    A second call with an equal problem, device, method and store returns the same plan, in 2 us, until a store's file
    changes. Changes by this process are seen at once, changes by another one within 5 ms. Plans from a store on a
    server are not cached.

    Args:
        problem: problem to compute.
        device: `auto` (the first GPU, or the host if there is none), `cuda:I` or `host`.
        method: `auto`, or the name of a kernel family: its fastest known kernel, else its default.
        store: file or database URL to search first; then the user's own file and the shipped store are searched. None
            for WARPSMITH_STORE.
        verify: kernels to check on this device before they are relied on: `first`, those that were not tuned for this
            problem here, once per program; `always`, stored winners too; `never`. None for WARPSMITH_VERIFY, or
            `first`. About a thousand results are compared with float64 sums. The data are random ones when the plan is
            made, or those of the plan's first call if random data would take long, or much of the free memory.
        parameters: values of kernel parameters, as for `tune`: the fastest known kernel that has them, else a default
            with them.

    Returns:
        A callable: `y = plan(x, w)`. `plan.verified` says what was checked.

    Raises:
        BadArgument: the device, method or a parameter is unknown; no kernel family, or not the one that `method` names,
            can solve the problem; or no config has the values of `parameters`.
        CompileError: the compiler is missing, or refused the kernel.
        DeviceError: the device is not available, or failed.
        StoreError: a store cannot be read.
        WrongResult: every program that could solve the problem gave wrong results.

    Warns:
        WrongProgram: a program gave wrong results; the next best one took its place, and it is not used again.
        StaleTiming: the stored time was taken with another driver, toolkit or library; the result is not affected.
    """
    return _planner()(problem, device, store, method, verify, parameters)


@cache
def _planner() -> Callable[[Problem, str, str | None, str, str | None, PinnedValues | None], Plan]:
    """The function that makes plans, imported once: Python takes 0.6 us to find that an import was already done."""
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
    """Makes the forward pass of a layer and both gradients, which may share spectra.

    In the frequency domain each pass transforms two of x, w and dy. A step that keeps their spectra transforms each of
    them once: three forward transforms in place of six. All passes then have one basis size, the one with the least sum
    of stored times. Each pass runs the fastest stored kernel of a family with this size, or that family's default.
    Never searches: `tune` the three passes first. Each call makes a new step with its own memory: make one per layer.

    Args:
        layer: the forward pass; its `workspace` limits the kept spectra and a call's scratch memory.
        device: as for `plan`.
        reuse: keep the spectra. None keeps them if that is expected to be faster than three plans; `step.choice` gives
            the grounds: stored times if all are known, else a model of a large GPU.
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
    from warpsmith.plans.conv2d.training import training_step as make

    return make(layer, device, store, reuse, verify)


def query(
    problem: Problem,
    device: str = "auto",
    *,
    method: str = AUTO,
    store: str | None = None,
    parameters: PinnedValues | None = None,
) -> Match:
    """Finds the kernel that `plan` would run, without compiling it.

    Args:
        problem: problem to compute.
        device: as for `plan`.
        method: as for `plan`.
        store: as for `plan`.
        parameters: as for `plan`.

    Returns:
        The kind of match, the program with its CUDA source, and the stored record with its times, if there is one.

    Raises:
        BadArgument: as for `plan`.
        DeviceError: the device is not available.
        StoreError: a store cannot be read.
    """
    from warpsmith.devices.select import DeviceRef
    from warpsmith.plans.lookup import look_up

    selection = Selection.of(method, parameters)
    return look_up(checked_problem(problem), DeviceRef.parse(device).device(), store, selection)


def export(
    problems: Iterable[Problem] | None,
    folder: str | Path,
    *,
    archs: tuple[str, ...] = (),
    store: str | None = None,
) -> ExportReport:
    """Writes stored winners as a bundle: CUDA sources, machine code, and a manifest with checksums.

    Args:
        problems: problems whose winners are exported, for every device that has one; None for all stored winners.
        folder: an empty or missing folder, or an earlier bundle, which is replaced.
        archs: architectures to compile for, such as `sm_90`; if empty, those of the GPUs that were tuned on.
        store: as for `plan`.

    Returns:
        The number of kernels and cubins that were written, and a line for each that was left out.

    Raises:
        BadArgument: an architecture is unknown, or an argument is of the wrong type.
        BundleError: the folder cannot be written, or holds other files.
        NothingStored: a problem has no stored winner, or nothing is stored at all.
        StoreError: a store cannot be read.
    """
    from warpsmith.plans.bundle_files import folder_of
    from warpsmith.store.store_chain import open_for_reading
    from warpsmith.tuner.export import export as write

    target, wanted = folder_of(folder), None if problems is None else _problems(problems)
    if isinstance(archs, str) or not all(isinstance(each, str) for each in archs):
        raise BadArgument(f"archs must be names of architectures, such as ('sm_90',); got {archs!r}")
    with open_for_reading(store) as stores:
        records = _winners(wanted, stores)
    return write(records, target, tuple(archs))


def _problems(given: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems as a tuple. Raises BadArgument for anything but a collection of problems, also for a single
    problem.
    """
    if isinstance(given, Problem) or not isinstance(given, Iterable) or isinstance(given, str):
        raise BadArgument(f"export takes problems as a list, such as [Filter2d(...)], or None for all; got {given!r}")
    return tuple(map(checked_problem, given))


def _winners(problems: tuple[Problem, ...] | None, stores: StoreChain[Winners]) -> tuple[Record, ...]:
    """The winners of some problems, or all winners. Only the records of these problems are read."""
    if problems is None:
        if not (everything := stores.answers()):
            raise NothingStored("nothing is stored yet; run `warpsmith tune` first")
        return everything
    chosen: list[Record] = []
    for problem in problems:
        if not (found := stores.answers_for(problem)):
            raise NothingStored(f"nothing is stored for {problem.key()}; run `warpsmith tune` first")
        chosen += found
    return tuple(chosen)


def load_bundle(folder: str | Path) -> Bundle:
    """Opens an exported bundle and checks its files against their checksums.

    Needs neither a store nor the packages of the tuner (optuna, sqlalchemy, jinja2).

    Args:
        folder: folder that `export` wrote.

    Returns:
        The bundle; `bundle.plan(problem)` makes one of its kernels callable.

    Raises:
        BundleError: the folder is not a bundle, is incomplete, or was altered.
    """
    from warpsmith.plans.bundle import load_bundle as load

    return load(folder)
