"""Entry point of a worker process: reads jobs on standard input, writes answers on standard output.

Started as `python -m warpsmith.workers.main PARENT BYTES NICENESS`: the parent's process id, the memory limit of
the process (0 for none) and its niceness. It is never started by multiprocessing, which would run the user's script
again.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import signal
import sys
from typing import BinaryIO

from warpsmith.errors import OutOfMemory, WarpsmithError
from warpsmith.workers.job import Raised, WorkerState, read_message, write_message

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _die_with_parent(parent: int) -> None:
    """Makes the process end with its parent: one killed by SIGKILL cannot stop its workers, which may be in an endless
    kernel.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent died before the call above. A comparison with 1 would be wrong: in a container the parent may be
        # process 1.
        if os.getppid() != parent:
            os._exit(1)


def _bound_memory(nbytes: int) -> None:
    """Limits only memory that the process may write: a GPU driver reserves far more addresses than any machine has
    memory.
    """
    if nbytes:
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes, nbytes))


def _private_stdout() -> BinaryIO:
    """The pipe to the parent, moved away from standard output, where libraries print."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def main() -> int:
    """Serves jobs until standard input ends. An expected error is sent as an answer; any other exception ends the
    process.
    """
    parent, memory_bytes, niceness = (int(argument) for argument in sys.argv[1:])
    _die_with_parent(parent)
    _bound_memory(memory_bytes)
    os.nice(niceness)
    answers = _private_stdout()
    state = WorkerState()
    while (message := read_message(sys.stdin.buffer)) is not None:
        job = pickle.loads(message)
        try:
            answer = job.run(state)
        except WarpsmithError as error:
            answer = Raised(error)
        except MemoryError:
            answer = Raised(OutOfMemory(f"the worker process may take {memory_bytes >> 20:,} MiB, and wanted more"))
        write_message(answers, pickle.dumps(answer))
    state.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
