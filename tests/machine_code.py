"""What NVRTC makes of generated texts for Hopper. It comes with the test extra and needs neither a GPU nor a toolkit;
in this process a text takes it a third of the time that nvcc takes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cuda.bindings import nvrtc

from warpsmith.devices.cuda.compiler import NO_CACHE

_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


class Frame(NamedTuple):
    """What a function has in local memory, in bytes; spills are stored into the stack's frame."""

    stack: int
    spill_stores: int
    spill_loads: int


NOTHING = Frame(0, 0, 0)


def frames_of(source: str) -> list[Frame]:
    """The frame of each function in machine code. Fails where there is an error or a warning."""
    log, _ = _compiled(source, "sm_90a", "--ptxas-options=-v")
    return [Frame(*map(int, each)) for each in _FRAME.findall(log)]


def ptx_of(source: str) -> str:
    """The text in PTX. Fails where there is an error or a warning."""
    _, handle = _compiled(source, "compute_90a")
    return _bytes("PTX", handle)


def _compiled(source: str, target: str, *options: str) -> tuple[str, object]:
    _, handle = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    given = [each.encode() for each in (f"--gpu-architecture={target}", "-std=c++17", NO_CACHE, *options)]
    (status,) = nvrtc.nvrtcCompileProgram(handle, len(given), given)
    log = _bytes("ProgramLog", handle)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    assert "warning" not in log, log
    return log, handle


def _bytes(what: str, handle: object) -> str:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(handle)
    content = bytes(size)  # NVRTC writes into it: cuda-bindings take nothing else
    getattr(nvrtc, f"nvrtcGet{what}")(handle, content)
    return content.decode().rstrip("\0")
