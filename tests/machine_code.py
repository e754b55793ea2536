"""Compiles generated texts for Hopper with NVRTC and reads the machine code. NVRTC comes with the test extra and needs
neither a GPU nor a toolkit. In this process it takes a third of the time that nvcc takes.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from typing import NamedTuple

from cuda.bindings import nvrtc

from warpsmith.devices.cuda.compiler import NO_CACHE

_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


_OPCODES = {
    0x981: "LDG",
    0x986: "STG",
    0x984: "LDS",
    0xB82: "LDC",
    0xAB9: "ULDC",
    0xF60: "TEX",
    0xF66: "TLD",
    0x223: "FFMA",
    0xE23: "FFMA",
}
"""Instructions by the lowest twelve bits of Hopper's machine code (nvdisasm)."""
_BITS = (8, 8, 16, 16, 32, 64, 128, 128)
"""Bits of a load or a store by the three bits of its size."""
_BRANCH, _BYTES_OF_INSTRUCTION = 0x947, 16


class Frame(NamedTuple):
    """Bytes of local memory of a function. Spills are stored in the stack frame."""

    stack: int
    spill_stores: int
    spill_loads: int


NOTHING = Frame(0, 0, 0)
_HGMMA = (0x9F0, 0xDF0)
"""Lowest twelve bits of HGMMA with its first matrix in shared memory and in registers (nvdisasm)."""


def frames_of(source: str) -> list[Frame]:
    """Frame of each function in machine code. Fails on a compiler error or warning."""
    log, _ = _compiled(source, "sm_90a", "--ptxas-options=-v")
    return [Frame(*map(int, each)) for each in _FRAME.findall(log)]


def ptx_of(source: str) -> str:
    """PTX of the text. Fails on a compiler error or warning."""
    _, handle = _compiled(source, "compute_90a")
    return _bytes("PTX", handle)


class Products(NamedTuple):
    """Numbers of wgmma instructions in PTX and in machine code."""

    ptx: int
    machine_code: int


def products_of(source: str) -> Products:
    """Counts the wgmma instructions in the PTX of a text and in its machine code."""
    _, handle = _compiled(source, "sm_90a")
    words = [
        word for section in _text_sections(_content("CUBIN", handle)) for word, _ in struct.iter_unpack("<QQ", section)
    ]
    return Products(ptx_of(source).count("wgmma.mma_async"), sum(word & 0xFFF in _HGMMA for word in words))


def code_of(source: str) -> list[bytes]:
    """Machine code of each kernel, in the order of the text. Fails on a compiler error or warning."""
    _, handle = _compiled(source, "sm_90a")
    return _text_sections(_content("CUBIN", handle))


def loops_of(source: str) -> dict[str, list[Counter[str]]]:
    """Instructions of each kernel's loops, from a branch's target to the branch that goes back to it.

    Loads and stores are counted by their bits, such as `LDG.128`, and texture fetches by the channels that they write,
    such as `TEX.4`; the others are `FFMA`. Instructions without a name here are left out.
    """
    _, handle = _compiled(source, "sm_90a")
    sections = _sections(_content("CUBIN", handle))
    return {name: _loops(list(struct.iter_unpack("<QQ", code))) for name, code in sections.items()}


def _loops(words: list[tuple[int, int]]) -> list[Counter[str]]:
    loops = []
    for place, (low, high) in enumerate(words):
        if low & 0xFFF == _BRANCH:
            above = (high & 0x3FFFF) << 32 | low >> 32
            signed = above - (1 << 50) if above >> 49 else above
            back = (signed >> 2 << 8 | low >> 16 & 0xFF) * 4 // _BYTES_OF_INSTRUCTION + 1
            if back < 0:  # the branch behind the code goes to itself
                names = (_name_of(*each) for each in words[place + back : place])
                loops.append(Counter(name for name in names if name))
    return loops


def _name_of(low: int, high: int) -> str | None:
    match _OPCODES.get(low & 0xFFF):
        case "FFMA":
            return "FFMA"
        case "TEX" | "TLD" as name:
            return f"{name}.{(high >> 8 & 0xF).bit_count()}"
        case None:
            return None
        case name:
            return f"{name}.{_BITS[high >> 9 & 7]}"


def _text_sections(cubin: bytes) -> list[bytes]:
    """Machine code of each kernel of a 64-bit ELF file."""
    return list(_sections(cubin).values())


def _sections(cubin: bytes) -> dict[str, bytes]:
    """Machine code of each kernel of a 64-bit ELF file, by the kernel's name."""
    (first,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<3H", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, first + i * size) for i in range(count)]
    strings = headers[names][4]
    prefix = b".text."
    return {
        cubin[strings + name + len(prefix) : cubin.index(0, strings + name)].decode(): cubin[offset : offset + nbytes]
        for name, _, _, _, offset, nbytes in headers
        if cubin.startswith(prefix, strings + name)
    }


def _compiled(source: str, target: str, *options: str) -> tuple[str, object]:
    _, handle = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    given = [each.encode() for each in (f"--gpu-architecture={target}", "-std=c++17", NO_CACHE, *options)]
    (status,) = nvrtc.nvrtcCompileProgram(handle, len(given), given)
    log = _bytes("ProgramLog", handle)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    assert "warning" not in log, log
    return log, handle


def _bytes(what: str, handle: object) -> str:
    return _content(what, handle).decode().rstrip("\0")


def _content(what: str, handle: object) -> bytes:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(handle)
    content = bytes(size)  # NVRTC writes into a buffer, the only type that cuda-bindings accept
    getattr(nvrtc, f"nvrtcGet{what}")(handle, content)
    return content
