"""Reading what NVRTC, nvcc and ptxas print."""

from __future__ import annotations

import dataclasses
import re

_REGISTERS = re.compile(r"Used (\d+) registers")
_STACK = re.compile(r"(\d+) bytes stack frame")
_SHARED = re.compile(r"(\d+) bytes smem")

# `1 error detected in the compilation of ...` is the count that closes a log, not an error.
_ERROR = re.compile(r"\b(?:error|fatal)\s*(?:#\S+)?\s*:")


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What the hungriest kernel of a program takes, in registers and bytes; None where the log does not tell."""

    registers: int | None
    spill_bytes: int | None
    """Stack frame a thread: spilled registers and local arrays, both of which live in local memory."""
    shared_bytes: int | None


def usage_of(log: str) -> Usage:
    """Reads the log of `ptxas -v`, which has one paragraph a kernel."""
    registers = [int(n) for n in _REGISTERS.findall(log)]
    stack = [int(n) for n in _STACK.findall(log)]
    shared = [int(n) for n in _SHARED.findall(log)]
    return Usage(
        registers=max(registers, default=None),
        spill_bytes=max(stack, default=None),
        # ptxas leaves the words out where a kernel uses none.
        shared_bytes=max(shared, default=0) if registers else None,
    )


def first_error(log: str) -> str:
    """The line that says what is wrong: the first error, or the first line where none is marked."""
    lines = [line.strip() for line in log.replace("\0", "").splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or ["the compiler gave no reason"])[0]
