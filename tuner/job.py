"""What a worker process is asked to do, and what it keeps meanwhile. It imports little: compilers start with it too."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from warpsmith.devices.base import Runtime
    from warpsmith.tuner.testbed import Testbed

Answer = TypeVar("Answer", covariant=True)


class WorkerState:
    """What a worker process keeps between jobs: an open device with a problem laid out on it."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self._testbed: Testbed | None = None

    @property
    def testbed(self) -> Testbed:
        """The problem that was laid out last."""
        if self._testbed is None:
            raise RuntimeError("the worker was asked to evaluate before it was given a problem")
        return self._testbed

    def lay_out(self, testbed: Testbed) -> None:
        """Keeps a problem that was laid out."""
        self._testbed = testbed

    def clear(self) -> None:
        """Gives back what the last problem took of the device."""
        if self._testbed is not None:
            self._testbed.close()
            self._testbed = None

    def close(self) -> None:
        """Gives the device back."""
        if self.runtime is not None:
            self.runtime.close()


class Job(abc.ABC, Generic[Answer]):
    """One request to a worker process. Jobs and answers are frozen values that pickle."""

    @abc.abstractmethod
    def run(self, state: WorkerState) -> Answer:
        """Does the work, in the worker process."""
