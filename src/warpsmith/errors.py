"""Errors that a user meets. Each is one line that names the remedy, and knows its exit code."""

from __future__ import annotations

from typing import ClassVar


class WarpsmithError(Exception):
    """Base of every expected error; the command line prints it as one line and exits with `exit_code`."""

    exit_code: ClassVar[int] = 1


class BadArgument(WarpsmithError, ValueError):
    """A shape, type or option that cannot be used. Exit code 2."""

    exit_code = 2


class NothingStored(WarpsmithError, LookupError):
    """No stored answer for this problem on this device. Exit code 3."""

    exit_code = 3


class StoreError(WarpsmithError):
    """A store that is missing, damaged, foreign, too new, or not writable."""


class CompileError(WarpsmithError):
    """A compiler that is missing, or that refused a program."""


class DeviceError(WarpsmithError):
    """No such device, or a device that failed."""


class LaunchError(DeviceError):
    """A kernel that the device refused to launch, such as a block that is too large."""


class OutOfMemory(DeviceError):
    """The device has too little free memory for the buffers of a problem, or a worker process took too much."""


class MissingExtra(WarpsmithError):
    """Something that an extra of the package brings and that is not installed; the message names the extra."""


class BundleError(WarpsmithError):
    """A bundle that is incomplete, altered since its export, or of another format version."""
