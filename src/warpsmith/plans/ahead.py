"""Answers of many problems, looked up and compiled side by side before the plans that need them are made.

A network has some 60 layers of three passes, and a compiler takes about 0.7 s for each: one after another, they keep
its first step waiting for a minute. NVRTC compiles one program at a time in a process, so that other processes are
needed. Each looks up and compiles whole answers and leaves them in the caches of answers and of machine code, in which
`plan` finds them. What fails there fails again in `plan`, which says why.

The processes are no multiprocessing: that would run the user's script again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import BinaryIO

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.machine import cores
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.plans.make import Before, answered, is_answered
from warpsmith.plans.match import STORED
from warpsmith.store.location import named_location

FEW = 4
"""Questions below which other processes do not pay: each takes 0.5 s to begin."""
NICENESS = 5
"""Niceness of the processes, so that the caller gets the time that it needs."""
_DONE = b"."


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A problem whose answer is to be made for a GPU.

    Args:
        problem: the problem.
        device: the GPU, which need not be on this machine.
        compiler: its compiler, whose binaries are cached.
        store: store as the user named it, by argument or environment.
        is_stored: whether nothing is made unless a winner is stored for the problem, or for a near size.
    """

    problem: Problem
    device: Device
    compiler: Compiler
    store: str | None
    is_stored: bool = False

    def answer(self) -> None:
        """Looks up the answer, compiles it and caches both. Raises the errors of `warpsmith.plan`."""
        if self.is_stored:
            from warpsmith.plans.lookup import look_up  # loads all families

            if look_up(self.problem, self.device, self.store).kind not in STORED:
                return
        answered(self.problem, self.device, lambda: self.compiler, self.store, AUTO, Before.of(self.store))


def make_ahead(problems: Iterable[Problem], device: str, store: str | None, is_stored: bool) -> None:
    """Makes the answers of problems that no earlier process has answered, in processes of their own.

    On the host device, whose answers are not cached, it does nothing.

    Args:
        problems: the problems; each counts once.
        device: as for `warpsmith.plan`.
        store: as for `warpsmith.plan`.
        is_stored: whether only problems with a stored winner are to be answered.

    Raises BadArgument and DeviceError as `warpsmith.plan` does for its device.
    """
    ref = DeviceRef.parse(device)
    if ref.kind is not DeviceKind.CUDA:
        return
    target, named = ref.device(), named_location(store)
    before = Before.of(named)
    wanted = [each for each in dict.fromkeys(problems) if not is_answered(each, target, named, before)]
    if len(wanted) >= FEW:
        compiler = ref.compiler()
        answer_all([Question(each, target, compiler, named, is_stored) for each in wanted])


def answer_all(questions: list[Question], processes: int | None = None) -> None:
    """Answers questions in some processes, one for each core by default; fewer than FEW are left to the caller."""
    if len(questions) < FEW:
        return
    left: queue.SimpleQueue[Question] = queue.SimpleQueue()
    for question in questions:
        left.put(question)
    count = min(processes or cores(), len(questions) // 2)
    threads = [threading.Thread(target=_serve, args=(left,), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(left: queue.SimpleQueue[Question]) -> None:
    """Passes questions to a process of its own until none is left, or the process ends."""
    command = [sys.executable, "-P", "-m", "warpsmith.plans.ahead"]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return  # no process can be started: the caller makes its plans one after another
    assert process.stdin is not None
    assert process.stdout is not None
    with process, contextlib.suppress(queue.Empty, OSError):
        while True:
            pickle.dump(left.get_nowait(), process.stdin)
            process.stdin.flush()
            if process.stdout.read(1) != _DONE:
                return


def _private_stdout() -> BinaryIO:
    """The pipe to the parent, moved away from standard output, where libraries print."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def main() -> int:
    """Answers questions from standard input until it ends, as it does when the parent dies."""
    os.nice(NICENESS)
    done = _private_stdout()
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return 0
        with contextlib.suppress(WarpsmithError):
            question.answer()
        done.write(_DONE)
        done.flush()


if __name__ == "__main__":
    sys.exit(main())
