"""What a plan calls: a program's steps on the arguments that each call brings."""

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
    """What a call of a program brings, and what lies ready for all of its calls."""

    buffers: tuple[str, ...]
    """Names of the operands whose addresses a call brings, in order."""
    operands: tuple[str, ...]
    """Names of the operands whose bytes a call brings, in order."""
    kept: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Addresses of the KEPT workspaces that all calls share, since none writes to them."""


class Launches(Protocol):
    """All launches of one program, in order, on what each call brings."""

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,
    ) -> None:
        """Queues them and does not wait. Threads may call it at the same time.

        Args:
            addresses: of the operands, in the order that was agreed on when this was made.
            values: bytes of the operands that are taken by value, likewise.
            stream: handle; None for the default stream.
            workspace: the caller's own scratch memory for this call; None for what was made for its stream.

        Raises:
            BadArgument: the workspace is too small, or not aligned.
            LaunchError: as `Module.bind`, where these arguments or this geometry do not fit.
            DeviceError: the device failed.
        """

    def native(self, values: tuple[bytes, ...], compiled: ModuleType) -> KernelLauncher | None:
        """The same as `launch`, for compiled calls. To be asked for after a launch.

        Args:
            values: what was launched on.
            compiled: the module `native_calls`.

        Returns: None where there is no such thing.
        """
