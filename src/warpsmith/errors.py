"""Errors for users. The message is one line that names the remedy; each class has an exit code."""

from __future__ import annotations

from typing import ClassVar


def one_line(text: object) -> str:
    """Text of another library's error or warning in one line, with single blanks in place of line breaks."""
    return " ".join(str(text).split())


class WarpsmithError(Exception):
    """Base of every expected error. The command line prints the message and exits with `exit_code`, by default 1."""

    exit_code: ClassVar[int] = 1


class BadArgument(WarpsmithError, ValueError):
    """A shape, type or option that cannot be used. Exit code 2.

    Args:
        message: the value and what is wrong with it. Several lines, as NumPy prints an array, are joined to one.
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(filter(None, map(str.strip, message.splitlines()))))


class AmbiguousBorder(UserWarning):
    """Warning that the text `reflect` names a border, which libraries define in two ways. It says which one is taken,
    and is given once per process and meaning. `symmetric` and `mirror` have one meaning each and give no warning.
    """


class NothingStored(WarpsmithError, LookupError):
    """Nothing is stored for this problem on this device. Exit code 3."""

    exit_code = 3


class StoreError(WarpsmithError):
    """A store that is missing, damaged, of another program, of a newer version, or not writable."""


class CompileError(WarpsmithError):
    """A compiler that is missing, or that rejected a program."""


class DeviceError(WarpsmithError):
    """A device that does not exist, or that failed."""


class WrongResult(WarpsmithError):
    """Every program that could answer gave wrong results when it was first used on this device."""


class LaunchError(DeviceError):
    """A kernel that the device refused to launch, such as one whose thread block is too large."""


class OutOfMemory(DeviceError):
    """Too little free device memory for the buffers of a problem, or a worker process that used too much memory."""


class MissingExtra(WarpsmithError):
    """A missing package that an extra would install; the message names the extra."""


class BundleError(WarpsmithError):
    """A bundle that is incomplete, was altered after its export, or has another format version."""
