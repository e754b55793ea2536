"""What a worker process is asked to do, and what it keeps meanwhile. It imports little: compilers start with it too."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from warpsmith.devices.base import Runtime

Answer = TypeVar("Answer", covariant=True)


class Closing(Protocol):
    """Something that takes memory of a device until it is closed."""

    def close(self) -> None:
        """Gives it back."""


class WorkerState:
    """What a worker process keeps between jobs: an open device, and what a job has laid out on it for the next ones."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self.laid_out: Closing | None = None

    def clear(self) -> None:
        """Gives back what was laid out on the device."""
        if self.laid_out is not None:
            self.laid_out.close()
            self.laid_out = None

    def close(self) -> None:
        """Gives the device back."""
        if self.runtime is not None:
            self.runtime.close()


class Job(abc.ABC, Generic[Answer]):
    """One request to a worker process. Jobs and answers are frozen values that pickle."""

    @abc.abstractmethod
    def run(self, state: WorkerState) -> Answer:
        """Does the work, in the worker process."""
