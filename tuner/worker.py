"""The fixed entry point of a worker process: reads jobs on standard input, writes answers on standard output.

Started as `python -m warpsmith.tuner.worker PARENT`, with the parent's process id; never by multiprocessing, which
would run the user's script again.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from typing import BinaryIO

from warpsmith.errors import WarpsmithError
from warpsmith.tuner.jobs import WorkerState
from warpsmith.tuner.wire import Raised, read_message, write_message

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _die_with_parent(parent: int) -> None:
    """A parent killed by SIGKILL cannot stop its workers, and one of them may be in an endless kernel."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # It died before the call above. Not a comparison with 1: in a container the parent itself may be process 1.
        if os.getppid() != parent:
            os._exit(1)


def _private_stdout() -> BinaryIO:
    """The pipe to the parent, moved away from standard output, where libraries print."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def main() -> int:
    """Serves jobs until standard input ends. An expected error is an answer; a device that faulted ends the process."""
    _die_with_parent(int(sys.argv[1]))
    answers = _private_stdout()
    state = WorkerState()
    while (message := read_message(sys.stdin.buffer)) is not None:
        job = pickle.loads(message)
        try:
            answer = job.run(state)
        except WarpsmithError as error:
            answer = Raised(error)
        write_message(answers, pickle.dumps(answer))
    state.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
