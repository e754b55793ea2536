"""Interface of a program's launches, and the description of the arguments that each call brings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from warpsmith.devices.base import Allocation

if TYPE_CHECKING:
    from warpsmith.devices.native_calls import KernelLauncher


@dataclasses.dataclass(frozen=True, slots=True)
class Brought:
    """Arguments of a program's call, and buffers whose addresses are the same for all calls."""

    buffers: tuple[str, ...]
    """Names of the operands whose addresses a call brings, in order."""
    operands: tuple[str, ...]
    """Names of the operands whose bytes a call brings, in order."""
    kept: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Addresses of the KEPT workspaces that all calls share, because none writes to them."""


class Launches(Protocol):
    """All launches of one program, in order, with the arguments of each call."""

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,
    ) -> None:
        """Queues the launches and does not wait. Threads may call it at the same time.

        Args:
            addresses: addresses of the operands, in the order of `Brought.buffers`.
            values: bytes of the operands that are taken by value, in the order of `Brought.operands`.
            stream: handle; None for the default stream.
            workspace: the caller's own workspace for this call; None for the one that is cached for its stream.

        Raises:
            BadArgument: the workspace is too small, or not aligned.
            LaunchError: as `Module.bind`, if the arguments or the geometry do not fit.
            DeviceError: the device failed.
        """

    def native(self, values: tuple[bytes, ...], compiled: ModuleType) -> KernelLauncher | None:
        """A compiled version of `launch`. Request it only after a launch has succeeded.

        Args:
            values: the values of that launch.
            compiled: the module `native_calls`.

        Returns: None if these launches have no compiled version.
        """
