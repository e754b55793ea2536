"""One tuning run: the search, with whoever takes part in it; then the winner is chosen."""

from __future__ import annotations

import contextlib
import time
import warnings

from warpsmith.devices.host.machine import cores
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import StoreError
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES, families_for
from warpsmith.plans.lookup import program_of
from warpsmith.store.conditions import conditions_key
from warpsmith.store.location import open_beside
from warpsmith.store.record import trial_spec
from warpsmith.store.store import Store
from warpsmith.tuner.choose import Choice, choose
from warpsmith.tuner.companions import Accompany, Companions
from warpsmith.tuner.crew import Crew, new_tuner
from warpsmith.tuner.evaluate import Bench
from warpsmith.tuner.finals import Finals
from warpsmith.tuner.known import Key, known_first, present_answer, samples_of
from warpsmith.tuner.options import TuneOptions, TuneReport
from warpsmith.tuner.progress import Progress, SilentProgress
from warpsmith.tuner.searching import Searching
from warpsmith.tuner.stages import Costs, Stage
from warpsmith.tuner.timing_policy import TimingPolicy
from warpsmith.tuner.workshop import Workshop, common_device


def tune_into(
    location: str, problem: Problem, devices: tuple[DeviceRef, ...], options: TuneOptions, progress: Progress
) -> TuneReport:
    """`tune` with the store at `location`, which is made only once nothing stands in the way of the search."""
    families_for(problem, common_device(devices))
    _ = devices[0].compiler(options.compiler, options.sanitize).identity
    with Store.open(location, write=True) as store:
        return tune(problem, devices, store, options, progress)


def tune(
    problem: Problem,
    devices: tuple[DeviceRef, ...],
    store: Store,
    options: TuneOptions,
    progress: Progress,
    families: tuple[Family, ...] = FAMILIES,
) -> TuneReport:
    """Searches for the fastest right program for `problem` on `devices` and stores it, with every trial.

    Whoever else tunes the problem at a store on a server takes part: what one tries no other does. Ctrl-C ends the
    search and keeps what was found, the winner included.

    Args:
        problem: what is tuned.
        devices: one, or several of one model that search together, through a store in a file or on a server.
        store: open for writing.
        options: how to search.
        progress: told how it goes.
        families: those that compete.

    Raises:
        BadArgument: no family solves the problem, or several devices have a store in memory.
        DeviceError, CompileError, StoreError: as their names say.
        TuningFailed: no candidate was right.
    """
    start = time.monotonic()
    first, *others = devices
    device = common_device(devices)
    processes = max(1, cores() // len(devices))
    with (
        _workshop(problem, first, families, options, processes) as workshop,
        Finals.beside(workshop, first, options.seed + 1, _policy(first, options), options.deadlines) as finals,
    ):
        workshop.bench.open_ahead()
        before, known = _known(workshop, store)
        seen, stored = store.trials_since(problem, device, 0)
        is_shared = bool(others) or store.server_url is not None
        sharing = Crew(store, problem, device, new_tuner(store), seen) if is_shared else contextlib.nullcontext()
        with Companions(tuple(others), store, workshop, options) as companions, sharing as crew:
            searching = Searching(workshop, store, stored, options, progress, start, crew, companions, known)
            interrupted = not searching.run()
        with searching.ledger.during(Stage.CHOOSE):
            choice = None if options.sanitize else _choose(workshop, finals, searching, store, before)
        _publish(searching, store)
        report = _report(workshop, searching, choice, interrupted=interrupted, devices=len(devices), start=start)
        finalists = [trial_spec(trial) for trial in report.finalists]
        store.add_run(problem, device, {"seed": options.seed, **report.spec(), "finalists": finalists})
    return report


def accompany(job: Accompany, store: Store) -> None:
    """Searches beside a leader, which counts the trials, chooses the winner, and ends this process."""
    options, deadlines, policy = job.options, job.options.deadlines, _policy(job.device, job.options)
    bench = Bench(job.device, job.compiler, job.problem, options.seed, policy, deadlines, sanitize=options.sanitize)
    with Workshop.furnished(
        job.problem, job.model, job.families, job.compiler, deadlines, bench, job.processes
    ) as workshop:
        seen, stored = store.trials_since(job.problem, job.model, 0)
        nobody = Companions((), store, workshop, options)
        with Crew(store, job.problem, job.model, job.tuner, seen) as crew:
            searching = Searching(workshop, store, stored, options, SilentProgress(), time.monotonic(), crew, nobody)
            searching.run()
            _publish(searching, store)


def _workshop(
    problem: Problem,
    device: DeviceRef,
    families: tuple[Family, ...],
    options: TuneOptions,
    processes: int,
) -> contextlib.AbstractContextManager[Workshop]:
    return Workshop.open(
        problem,
        device,
        families,
        options.compiler,
        options.seed,
        options.deadlines,
        sanitize=options.sanitize,
        policy=_policy(device, options),
        processes=processes,
    )


def _policy(device: DeviceRef, options: TuneOptions) -> TimingPolicy:
    return TimingPolicy.for_kind(device.kind, cold=options.cold, launching=options.launching)


def _known(workshop: Workshop, store: Store) -> tuple[Program, tuple[Key, ...]]:
    """What a look-up answers now, and what is to be tried first."""
    problem, device, families = workshop.problem, workshop.device, workshop.families
    with open_beside(store) as stores:
        read = stores.read(problem.operation)
    answer = present_answer(problem, device, read, families)
    samples = samples_of(store, read, problem.operation)
    return answer, known_first(answer, problem, device, read, families, samples)


def _choose(workshop: Workshop, finals: Finals, searching: Searching, store: Store, before: Program) -> Choice:
    with open_beside(store) as stores:  # by now others that share the store may have found more
        now = present_answer(workshop.problem, workshop.device, stores, workshop.families)
    answers = (before, now, *_replaced(workshop, store))
    choice = choose(workshop, finals.bench(), list(searching.trials.values()), searching.replace, answers)
    store.put_winner(choice.record)
    return choice


def _publish(searching: Searching, store: Store) -> None:
    """Adds what this process tried to Optuna's studies beside the store."""
    if store.address is None or not searching.finished:
        return
    from warpsmith.tuner.studies.study_store import StudyStore

    try:
        studies = StudyStore(store.address)
        for name, family in searching.search.families.items():
            mine = [each for each in searching.finished if each.trial.family == name]
            studies.add(family.study_name, family.space, mine)
    except StoreError as error:
        warnings.warn(str(error), stacklevel=2)  # nothing is lost: the trials are in the store


def _replaced(workshop: Workshop, store: Store) -> tuple[Program, ...]:
    """The stored winner whose place the new one takes, where it can be generated still: under other conditions than
    the usual ones it is not what a look-up answers.
    """
    conditions = conditions_key(workshop.bench.opened.conditions)
    record = store.winner(workshop.problem.key(), workshop.device.key(), conditions)
    if record is None or record.trial.family not in workshop.families:
        return ()
    program = program_of(record, workshop.problem, workshop.device)
    return () if program is None else (program,)


def _report(
    workshop: Workshop, searching: Searching, choice: Choice | None, *, interrupted: bool, devices: int, start: float
) -> TuneReport:
    ledger = searching.ledger
    return TuneReport(
        record=None if choice is None else choice.record,
        finalists=() if choice is None else choice.finalists,
        before=None if choice is None else choice.before,
        tried=len(searching.trials) - searching.reused,
        others=searching.others,
        reused=searching.reused,
        failures=dict(searching.failures),
        space_size=searching.search.size,
        elapsed_s=time.monotonic() - start,
        interrupted=interrupted,
        costs=Costs(dict(ledger.seconds), workshop.pool.processes, devices, ledger.twins),
        standings=searching.search.standings,
    )
