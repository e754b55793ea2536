"""One tuning run: the search, with all tuners that take part in it, and the choice of the winner."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.machine import cores
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, StoreError
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import able_families, may_win, selected_families
from warpsmith.generator.selection import EVERYTHING, Selection
from warpsmith.plans.lookup import find, program_of, regenerate
from warpsmith.store.conditions import conditions_key
from warpsmith.store.record import Record
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain, open_beside
from warpsmith.store.store_reader import Winners
from warpsmith.tuner.costs import Costs, CostStage
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator, Workshop, common_device
from warpsmith.tuner.evaluate.probe import probe_before_search
from warpsmith.tuner.faults import NEVER_CONTAINED, Faults, Part
from warpsmith.tuner.finals.choose import TuningFailed, WinnerChoice, choose
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import Progress, SilentProgress
from warpsmith.tuner.report import TuneReport
from warpsmith.tuner.run.interrupt import ending_in_order, ending_later
from warpsmith.tuner.run.parts import budget_of_parts
from warpsmith.tuner.run.search_loop import SearchLoop
from warpsmith.tuner.run.sharing import HelperTuners, Sharing, new_tuner
from warpsmith.tuner.search.known import Key, known_first, present_answer, samples_of
from warpsmith.workers.job import Job, WorkerState


def tune_into(
    location: str, problem: Problem, devices: tuple[DeviceRef, ...], options: TuneOptions, progress: Progress
) -> TuneReport:
    """Runs `tune` with the store at `location`, which is created only after the problem, device and compiler were
    checked.
    """
    _able(Gate(problem, common_device(devices), options.selection.pins), options, None)
    _ = devices[0].compiler(options.compiler, options.sanitize).identity
    with Store.open(location, write=True) as store:
        probe_before_search(devices[0], store)
        return tune(problem, devices, store, options, progress)


def tune(
    problem: Problem,
    devices: tuple[DeviceRef, ...],
    store: Store,
    options: TuneOptions,
    progress: Progress,
    families: tuple[Family, ...] | None = None,
    workshop: Workshop | None = None,
) -> TuneReport:
    """Searches for the fastest right program for `problem` on `devices` and stores it, with every trial.

    Other tuners of the same problem at a store on a server take part: no program is tried twice. Ctrl-C, SIGTERM and
    SIGHUP end the search and keep what was found, including the winner. The stages of pipelines are tuned first, as
    separate problems, with a share of the budget; they are stored like any other problem. A failed stage, family,
    reference, library or process does not end the run: the report names it with the reason.

    Args:
        problem: problem to tune.
        devices: one, or several of one model that search together, through a store in a file or on a server.
        store: store open for writing.
        options: options of the search.
        progress: display of the progress.
        families: families that compete; None for the operation's.
        workshop: processes to use on the first device; None to start new ones.

    Raises:
        BadArgument: no family solves the problem, or there are several devices and the store is in memory.
        DeviceError: a device is not there, the devices differ, or a device failed.
        CompileError: there is no compiler.
        StoreError: the store failed.
        TuningFailed: no candidate was right; the message has the reasons by family.
        KeyboardInterrupt: one of these signals came before the problem's own search.
    """
    faults = Faults()
    with open_beside(store) as stores:
        device = stores.measured(common_device(devices))
    gate = Gate(problem, device, options.selection.pins)
    able = _able(gate, options, families)
    for name, error in gate.failures.items():
        faults.add(Part.FAMILY, name, error)
    parts, left = _parts(problem, device, able, store, options, faults)
    with contextlib.ExitStack() as opened:
        opened.enter_context(ending_in_order())
        if parts and workshop is None:
            compiler = devices[0].compiler(options.compiler)
            processes = _processes(devices)
            workshop = opened.enter_context(Workshop.open(compiler, options.deadlines, processes))
        for part, share in parts:
            _tune_part(part, devices, store, share, progress, workshop, faults)
        return _search(problem, device, devices, store, left, progress, able, workshop, faults)


def _tune_part(
    part: Problem,
    devices: tuple[DeviceRef, ...],
    store: Store,
    share: TuneOptions,
    progress: Progress,
    workshop: Workshop | None,
    faults: Faults,
) -> None:
    """Tunes a stage. Its errors become faults, except those that end the run, such as KeyboardInterrupt."""
    try:
        is_interrupted = tune(part, devices, store, share, progress, workshop=workshop).interrupted
    except NEVER_CONTAINED:
        raise
    except Exception as error:
        faults.add(Part.STAGE, part.key(), error)
        return
    if is_interrupted:
        raise KeyboardInterrupt


def _parts(
    problem: Problem,
    device: Device,
    able: tuple[Family, ...],
    store: Store,
    options: TuneOptions,
    faults: Faults,
) -> tuple[tuple[tuple[Problem, TuneOptions], ...], TuneOptions]:
    """The stages to tune first, and the options left. There are no stages if a pipeline cannot name its own."""
    try:
        return budget_of_parts(problem, device, able, store, options)
    except NEVER_CONTAINED:
        raise
    except Exception as error:
        faults.add(Part.STAGE, f"of {problem.key()}", error)
        return (), options


def _processes(devices: tuple[DeviceRef, ...]) -> int:
    """Number of processes that compile for the first of the devices."""
    return max(1, cores() // len(devices))


def _able(gate: Gate, options: TuneOptions, families: tuple[Family, ...] | None) -> tuple[Family, ...]:
    """The families to search. Raises BadArgument if none solves the problem, or the named one does not."""
    if families is None or options.selection.method != AUTO:
        return selected_families(options.selection, gate)
    return able_families(gate, families)


def _search(
    problem: Problem,
    device: Device,
    devices: tuple[DeviceRef, ...],
    store: Store,
    options: TuneOptions,
    progress: Progress,
    families: tuple[Family, ...],
    workshop: Workshop | None,
    faults: Faults,
) -> TuneReport:
    """Runs the search and the finals of the problem itself, after its stages."""
    start = time.monotonic()
    first, *others = devices
    final_worker = workshop.finals if workshop else None
    policy = options.timing_policy(first.kind)
    with (
        _evaluator(problem, device, first, families, options, _processes(devices), workshop) as evaluator,
        evaluator.final_bench(first, options.seed + 1, policy, options.deadlines, final_worker) as final_bench,
        ending_later() as ending,  # a signal ends the search at once, but not the finals, which choose its winner
    ):
        evaluator.bench.open_ahead()
        before, known = _known(evaluator, store, options.selection, faults)
        seen, stored = store.trials_since(problem, device, 0)
        is_shared = bool(others) or store.database.server_url is not None
        joining = Sharing(store, problem, device, new_tuner(store), seen) if is_shared else contextlib.nullcontext()
        job = functools.partial(_helper_job, evaluator, store, options)
        with HelperTuners(tuple(others), store, job) as helpers, joining as sharing:
            loop = SearchLoop(evaluator, store, stored, options, progress, start, sharing, helpers, known, faults)
            interrupted = not loop.run()
        with loop.ledger.during(CostStage.CHOOSE):
            is_cut_short = interrupted or ending.pressed or loop.is_out_of_time
            choice = (
                None if options.sanitize else _choose(evaluator, final_bench, loop, store, before, not is_cut_short)
            )
        faults.extend(evaluator.bench.faults)
        publish(loop, store)
        interrupted |= ending.pressed
        report = _report(evaluator, loop, choice, interrupted=interrupted, devices=len(devices), start=start)
        store.runs.add(problem, device, {"seed": options.seed, **report.spec(), **report.finalists_spec()})
    return report


def _helper_job(
    evaluator: Evaluator, store: Store, options: TuneOptions, device: DeviceRef, tuner: str
) -> TuneAsHelper:
    """Job of a tuner on a further device, with an evaluator like the leader's."""
    return TuneAsHelper(
        store.database.address or "",
        tuner,
        evaluator.problem,
        device,
        evaluator.device,
        evaluator.compiler,
        options,
        tuple(evaluator.families.values()),
        evaluator.pool.processes,
    )


@contextlib.contextmanager
def _evaluator(
    problem: Problem,
    model: Device,
    device: DeviceRef,
    families: tuple[Family, ...],
    options: TuneOptions,
    processes: int,
    workshop: Workshop | None,
) -> Iterator[Evaluator]:
    """An evaluator on `device`, whose `model` has its ceilings."""
    with Evaluator.open(
        problem,
        device,
        families,
        options.compiler,
        options.seed,
        options.deadlines,
        sanitize=options.sanitize,
        policy=options.timing_policy(device.kind),
        processes=processes,
        workshop=workshop,
    ) as evaluator:
        yield dataclasses.replace(evaluator, device=model, pins=options.selection.pins)


def _known(
    evaluator: Evaluator, store: Store, selection: Selection, faults: Faults
) -> tuple[Program | None, Iterable[Key]]:
    """The program that a look-up returns now, if there is one, and the candidates to try first."""
    problem, gate, families = evaluator.problem, evaluator.gate, evaluator.families
    with open_beside(store) as stores:
        answer = None
        try:
            answer = present_answer(problem, evaluator.device, stores, families, selection)
            samples = samples_of(store, stores, problem.operation)
            return answer, _contained(known_first(answer, gate, stores, families, samples, selection), faults)
        except NEVER_CONTAINED:
            raise
        except Exception as error:
            faults.add(Part.FAMILY, _DEFAULT_ANSWER, error)
            return answer, () if answer is None else ((answer.family, answer.config),)


def _contained(known: Iterator[Key], faults: Faults) -> Iterator[Key]:
    """Yields `known` up to the first error, which becomes a fault."""
    try:
        yield from known
    except NEVER_CONTAINED:
        raise
    except Exception as error:
        faults.add(Part.FAMILY, _DEFAULT_ANSWER, error)


def _choose(
    evaluator: Evaluator,
    final_bench: Callable[[], Bench],
    loop: SearchLoop,
    store: Store,
    before: Program | None,
    each_family: bool,
) -> WinnerChoice:
    """Runs the finals and stores their result: the winner of all, and the fastest of the other families."""
    problem, device, families, selection = evaluator.problem, evaluator.device, evaluator.families, loop.selection
    with open_beside(store) as stores:  # by now other tuners on the store may have found more
        now = None
        with contextlib.suppress(BadArgument):
            now = present_answer(problem, device, stores, families, selection)
        holders = [] if selection == EVERYTHING else [*_answer_of_all(problem, device, stores)]
    replaced = _replaced(evaluator, store)
    answers = [each for each in (before, now, *replaced) if each is not None and _is_searched(evaluator, each)]
    others = [] if selection == EVERYTHING else [*holders, *replaced]
    rivals = [each for each in others if not _is_searched(evaluator, each)]
    trials = list(loop.trials.values())
    bench = final_bench()
    given = (evaluator, bench, trials, loop.replace, answers, rivals)
    try:
        choice = choose(*given, each_family=each_family, faults=loop.faults)
    except TuningFailed as error:
        raise TuningFailed(" | ".join([str(error), *(each.message for each in loop.faults.all)])) from None
    loop.faults.extend(bench.faults)
    _store(choice, loop, store)
    return choice


def _is_searched(evaluator: Evaluator, program: Program) -> bool:
    """True if a program is one of those that the search may find."""
    return program.family in evaluator.families and evaluator.pins.allow(program.config)


def _store(choice: WinnerChoice, loop: SearchLoop, store: Store) -> None:
    """Stores the winner and, unless the search was pinned to a part of the kernels, the fastest of the other families.

    The winner of a pinned search answers only the same pins, unless it is the fastest of all.
    """
    winner, beside = choice.overall or choice.record, choice.runners_up
    if may_win(winner.trial.family):
        store.put_winner(winner)
    else:
        beside = (winner, *beside)
    if loop.selection.pins:
        store.put_pinned_winner(choice.record, loop.selection.pins)
    else:
        store.put_runners_up(_that_replace(beside, loop, store))


def _answer_of_all(problem: Problem, device: Device, stores: StoreChain[Winners]) -> Iterator[Program]:
    """The program that a look-up returns, whatever the method of the search."""
    with contextlib.suppress(BadArgument):  # only a search may choose a family for the method
        yield find(problem, device, stores).program


def _replaced(evaluator: Evaluator, store: Store) -> tuple[Program, ...]:
    """The stored winner that the new one would replace, if it can still be generated. Under unusual timing conditions
    it differs from what a look-up returns.
    """
    conditions = conditions_key(evaluator.bench.opened.conditions)
    record = store.winner(evaluator.problem.key(), evaluator.device.key(), conditions)
    program = None if record is None else program_of(record, evaluator.problem, evaluator.device)
    return () if program is None else (program,)


def _that_replace(found: Iterable[Record], loop: SearchLoop, store: Store) -> Iterator[Record]:
    """The records that replace the stored ones of their families. A stored record stays if it was not tried now, is
    still valid and is faster.
    """
    for record in found:
        kept = store.runners_up(record.problem.key(), record.device.key())
        alike = (
            each for each in kept if (each.trial.family, each.conditions) == (record.trial.family, record.conditions)
        )
        old = next(alike, None)
        stays = (
            old is not None
            and (old.trial.family, old.trial.config) not in loop.trials
            and old.timing.median_ns < record.timing.median_ns
            and regenerate(old) is not None
        )
        if not stays:
            yield record


def _report(
    evaluator: Evaluator,
    loop: SearchLoop,
    choice: WinnerChoice | None,
    *,
    interrupted: bool,
    devices: int,
    start: float,
) -> TuneReport:
    ledger = loop.ledger
    return TuneReport(
        record=None if choice is None else choice.record,
        finalists=() if choice is None else choice.finalists,
        before=None if choice is None else choice.before,
        overall=None if choice is None else choice.overall,
        runners_up=() if choice is None else choice.runners_up,
        tried=len(loop.trials) - loop.reused,
        others=loop.others,
        reused=loop.reused,
        failures=dict(loop.failures),
        space_size=loop.search.size,
        elapsed_s=time.monotonic() - start,
        interrupted=interrupted,
        costs=Costs(dict(ledger.seconds), evaluator.pool.processes, devices, ledger.twins),
        standings=loop.search.standings,
        part_failures=loop.faults.all,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class TuneAsHelper(Job[None]):
    """Tunes on one device until there are enough trials; usually the leader ends it sooner."""

    store: str
    """Path or URL of the store."""
    tuner: str
    """Id of this tuner in the store."""
    problem: Problem
    device: DeviceRef
    model: Device
    """Model of `device`, whose compiler is `compiler`. Finding them out would start the driver of every GPU again."""
    compiler: Compiler
    options: TuneOptions
    families: tuple[Family, ...]
    processes: int
    """Number of compiler processes."""

    def run(self, state: WorkerState) -> None:  # noqa: ARG002 - it opens a worker of its own
        options, deadlines = self.options, self.options.deadlines
        policy = options.timing_policy(self.device.kind)
        with Store.open(self.store, write=True) as store:
            bench = Bench(
                self.device, self.compiler, self.problem, options.seed, policy, deadlines, sanitize=options.sanitize
            )
            with Evaluator.furnished(
                self.problem, self.model, self.families, self.compiler, deadlines, bench, self.processes
            ) as furnished:
                evaluator = dataclasses.replace(furnished, pins=options.selection.pins)
                seen, stored = store.trials_since(self.problem, self.model, 0)
                with Sharing(store, self.problem, self.model, self.tuner, seen) as sharing:
                    start = time.monotonic()
                    loop = SearchLoop(evaluator, store, stored, options, SilentProgress(), start, sharing)
                    loop.run()
                    publish(loop, store)


_DEFAULT_ANSWER = "that answers before the search"
"""Name of the family in a fault of the candidates to try first."""


def publish(loop: SearchLoop, store: Store) -> None:
    """Adds the trials of this process to Optuna's studies beside the store."""
    if store.database.address is None or not loop.finished:
        return
    from warpsmith.tuner.search.studies.study_store import StudyStore  # Optuna takes 0.3 s to import

    try:
        studies = StudyStore(store.database.address)
        for name, family in loop.search.families.items():
            if mine := [each for each in loop.finished if each.trial.family == name]:
                studies.add(family.made.study_name, family.made.space, mine)
    except StoreError as error:
        warnings.warn(str(error), stacklevel=2)  # nothing is lost: the trials are in the store
