"""Untuned plans on a device, which `plan` returns if nothing is stored, verified element by element against float64.

The device is the first GPU, or the host if there is no GPU. Buffers are guarded, results are poisoned first, and stress
data follow random data, as in a search.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator

from policies import ONE_RUN
from problems import Question, Scale, random_problem
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument, OutOfMemory
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import OPERATIONS
from warpsmith.plans.lookup import find
from warpsmith.plans.plan import open_runtime
from warpsmith.store.record import Failure
from warpsmith.store.store_chain import StoreChain
from warpsmith.tuner.evaluate.testbed import Testbed

ON_A_GPU = Scale(side=4096, batch=4096, channels=512, flops=2e9, bytes=2**26)
ON_THE_HOST = Scale(side=64, batch=8, channels=16, flops=4e6, bytes=2**22)
"""Sizes of problems whose reference takes NumPy at most a second."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A problem on the device that the loop opens."""

    problem: Problem
    seed: int

    def __str__(self) -> str:
        return f"{self.seed} {Question(self.problem, device().device())}"


def device() -> DeviceRef:
    """The first GPU, or the host."""
    return DeviceRef.parse("auto")


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Does nothing: the process has one runtime of a device, which stays open."""
    open_runtime(device())
    yield


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` problems of all operations and types."""
    rng = random.Random(seed)
    scale = ON_A_GPU if device().kind is DeviceKind.CUDA else ON_THE_HOST
    for _ in range(count):
        yield Case(random_problem(rng, scale), rng.randrange(2**31))


def parse(text: str) -> Case:
    """The case that `str` wrote, on the device of this process."""
    seed, _, question = text.partition(" ")
    return Case(Question.parse(question).problem, int(seed))


def check(case: Case) -> str | None:
    """The config of a wrong answer and its error, in one line; None if the answer is right."""
    ref = device()
    try:
        match = find(case.problem, ref.device(), StoreChain(()))
    except BadArgument as refused:
        is_solved = OPERATIONS[case.problem.operation].simplest.why_not(case.problem, ref.device()) is None
        return f"nothing answers: {refused}" if is_solved else None
    compiler: Compiler = ref.compiler(CompilerChoice.AUTO)
    binaries = compiler.compile_program(match.program)
    bed = Testbed(open_runtime(ref), case.problem, case.seed, ONE_RUN, guarded=True, finals=True)
    try:
        outcome = bed.evaluate(match.program, binaries, ONE_RUN).outcome
    except OutOfMemory:
        return None
    finally:
        bed.close()
    if isinstance(outcome, Failure):
        return f"{match.program.family} is {outcome.kind}: {outcome.message}: {match.program.config}"
    return None
