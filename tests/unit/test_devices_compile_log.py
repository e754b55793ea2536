"""Reading compiler logs, as NVRTC 13.5 and nvcc 13.0 printed them."""

from __future__ import annotations

import pytest

from warpsmith.devices.compiler import Usage
from warpsmith.devices.cuda.compiler import first_error, usages_of

NVCC_LOG = """\
ptxas info    : Overriding maximum register limit 256 for 'spilling' with  32 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spilling' for 'sm_90'
ptxas info    : Function properties for spilling
    520 bytes stack frame, 804 bytes spill stores, 832 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 520 bytes cumulative stack size, 400 bytes smem
ptxas info    : Compile time = 28.228 ms
ptxas info    : Compiling entry function 'plain' for 'sm_90'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 1.291 ms
"""

NVRTC_LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spill' for 'sm_90'
ptxas info    : Function properties for spill
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers
ptxas info    : Compile time = 34.923 ms
\0"""

NVRTC_ERRORS = """\
warpsmith.cu(1): warning #177-D: variable "unused" was declared but never referenced
  __global__ void k(){ int unused; f(); }
                           ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

warpsmith.cu(1): error: identifier "f" is undefined
  __global__ void k(){ int unused; f(); }
                                   ^

1 error detected in the compilation of "warpsmith.cu".
\0"""

NVRTC_MISSING_HEADER = """\
warpsmith.cu(1): catastrophic error: could not open source file "nothere.h" (no directories in search list)
  #include <nothere.h>
                      ^

1 catastrophic error detected in the compilation of "warpsmith.cu".
Compilation terminated.
"""

NVCC_MISSING_HEADER = """\
b2.cu:1:10: fatal error: nothere.h: No such file or directory
    1 | #include <nothere.h>
      |          ^~~~~~~~~~~
compilation terminated.
"""

PTXAS_ERROR = NVRTC_LOG.strip("\0") + (
    " ptxas error   : Entry function 'k' uses too much shared data (0x3e800 bytes, 0xc000 max)\n"
)


def test_each_kernel_has_its_own() -> None:
    assert usages_of(NVCC_LOG) == {
        "spilling": Usage(registers=32, spill_bytes=520, shared_bytes=400),
        "plain": Usage(registers=10, spill_bytes=0, shared_bytes=0),
    }


def test_the_frame_of_a_function_that_was_not_inlined_is_its_kernels() -> None:
    callee = "ptxas info    : Function properties for helper\n    64 bytes stack frame, 0 bytes spill stores\n"
    log = NVRTC_LOG.replace("ptxas info    : Used 48", callee + "ptxas info    : Used 48")
    assert usages_of(log)["spill"].spill_bytes == 64


def test_a_kernel_without_shared_memory_uses_none_of_it() -> None:
    assert usages_of(NVRTC_LOG) == {"spill": Usage(registers=48, spill_bytes=0, shared_bytes=0)}


def test_a_silent_compiler_tells_nothing() -> None:
    assert usages_of("\0") == {}


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (NVRTC_ERRORS, 'warpsmith.cu(1): error: identifier "f" is undefined'),
        (
            NVRTC_MISSING_HEADER,
            'warpsmith.cu(1): catastrophic error: could not open source file "nothere.h" '
            "(no directories in search list)",
        ),
        (NVCC_MISSING_HEADER, "b2.cu:1:10: fatal error: nothere.h: No such file or directory"),
        (PTXAS_ERROR, "ptxas error   : Entry function 'k' uses too much shared data (0x3e800 bytes, 0xc000 max)"),
        ("nvcc fatal   : Unsupported gpu architecture 'sm_9'\n", "nvcc fatal   : Unsupported gpu architecture 'sm_9'"),
        (
            "nvrtc: error: invalid value for --gpu-architecture (-arch)\n\0",
            "nvrtc: error: invalid value for --gpu-architecture (-arch)",
        ),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", "the compiler gave no reason"),
    ],
)
def test_the_first_error_is_told(log: str, line: str) -> None:
    assert first_error(log) == line
