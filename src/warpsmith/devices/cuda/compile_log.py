"""Parses the logs of NVRTC, nvcc and ptxas."""

from __future__ import annotations

import re

from warpsmith.devices.binary import Usage

_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'")
_REGISTERS = re.compile(r"Used (\d+) registers")
_STACK = re.compile(r"(\d+) bytes stack frame")
_SHARED = re.compile(r"(\d+) bytes smem")

# `1 error detected in the compilation of ...` is the final count of a log, not an error.
_ERROR = re.compile(r"\b(?:error|fatal)\s*(?:#\S+)?\s*:")


def usages_of(log: str) -> dict[str, Usage]:
    """Resources of each kernel, by entry name, from the log of `ptxas -v`, which has one paragraph per kernel."""
    _, *parts = _ENTRY.split(log)  # the text before the first entry, then entry names and paragraphs alternating
    return {entry: _usage(paragraph) for entry, paragraph in zip(parts[::2], parts[1::2], strict=True)}


def _usage(paragraph: str) -> Usage:
    registers, shared = _REGISTERS.search(paragraph), _SHARED.search(paragraph)
    stack = [int(n) for n in _STACK.findall(paragraph)]  # functions that are not inlined have stack frames of their own
    return Usage(
        registers=int(registers[1]) if registers else None,
        spill_bytes=max(stack, default=None),
        # ptxas omits this number if a kernel uses no shared memory.
        shared_bytes=(int(shared[1]) if shared else 0) if registers else None,
    )


def first_error(log: str) -> str:
    """The line that says what is wrong: the first error, or the first line if no line is marked as an error."""
    lines = [line.strip() for line in log.replace("\0", "").splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or ["the compiler gave no reason"])[0]
