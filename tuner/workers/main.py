"""The fixed entry point of a worker process: reads jobs on standard input, writes answers on standard output.

Started as `python -m warpsmith.tuner.workers.main PARENT BYTES NICENESS`, with the parent's process id, the memory that
the process may take, 0 for any, and its niceness; never by multiprocessing, which would run the user's script again.
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
from warpsmith.tuner.workers.job import WorkerState
from warpsmith.tuner.workers.wire import Raised, read_message, write_message

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _die_with_parent(parent: int) -> None:
    """A parent killed by SIGKILL cannot stop its workers, and one of them may be in an endless kernel."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # It died before the call above. Not a comparison with 1: in a container the parent itself may be process 1.
        if os.getppid() != parent:
            os._exit(1)


def _bound_memory(nbytes: int) -> None:
    """Of what it writes to alone: a GPU's driver reserves far more addresses than any machine has memory."""
    if nbytes:
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes, nbytes))


def _private_stdout() -> BinaryIO:
    """The pipe to the parent, moved away from standard output, where libraries print."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def main() -> int:
    """Serves jobs until standard input ends. An expected error is an answer; a device that faulted ends the process."""
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
