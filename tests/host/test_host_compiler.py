"""The host compiler: its errors, and what its identity covers."""

from __future__ import annotations

import dataclasses
import pickle
import shlex
import time
from pathlib import Path

import pytest

from warpsmith.devices.compiler import BinaryKind
from warpsmith.devices.host import compiler
from warpsmith.devices.host.compiler import HostCompiler, find_compiler
from warpsmith.errors import CompileError

GOOD = 'extern "C" __global__ void kernel(float* x) { x[threadIdx.x] = 1; }'


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_compiles_to_a_library_of_the_host(make_program):
    binary = HostCompiler().compile(make_program(GOOD, "p").compilation())
    assert binary.kind is BinaryKind.LIBRARY
    assert binary.arch == "host"
    assert binary.image.startswith(b"\x7fELF")
    assert binary.compiler == HostCompiler().name


def test_reads_no_header_of_the_working_folder(make_program, monkeypatch, tmp_path):
    """Anybody may own the working folder, and its header would become a part of every kernel."""
    for name in ("cuda_on_host.h", "cuda_fp16.h"):
        (tmp_path / name).write_text("#error planted\n")
    monkeypatch.chdir(tmp_path)
    assert HostCompiler().compile(make_program(f"#include <cuda_fp16.h>\n{GOOD}", "p").compilation()).image


def test_refused_program_is_one_line_with_its_place(make_program):
    source = "\n\n" + GOOD.replace("= 1", "= nonsense")
    with pytest.raises(CompileError) as caught:
        HostCompiler().compile(make_program(source, "p").compilation())
    message = str(caught.value)
    assert "program.cu:3:" in message
    assert "nonsense" in message
    assert "\n" not in message


@pytest.mark.parametrize("source", ["__global__ void other() {}", GOOD + "\n#error stop", "this is not CUDA"])
def test_other_refusals(make_program, source):
    with pytest.raises(CompileError, match="refused the program"):
        HostCompiler().compile(make_program(source, "p").compilation())


def test_no_compiler_says_what_to_install(make_program, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    for use in (
        find_compiler,
        lambda: HostCompiler().identity,
        lambda: HostCompiler().compile(make_program(GOOD).compilation()),
    ):
        with pytest.raises(CompileError, match=r"apt-get install g\+\+.*dnf install gcc-c\+\+.*xcode-select") as caught:
            use()
        assert "\n" not in str(caught.value)


def test_cxx_that_names_nothing(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompileError, match="CXX names 'no-such-compiler'"):
        find_compiler()


@pytest.mark.parametrize("told", ["no-such-ccache g++", "'g++", " "])
def test_a_command_line_that_names_nothing(monkeypatch, told):
    monkeypatch.setenv("CXX", told)
    with pytest.raises(CompileError, match=r"CXX names .* which is not a program; unset CXX or name") as raised:
        find_compiler()
    assert "\n" not in str(raised.value)


def test_cxx_may_be_a_command_line(make_program, monkeypatch, tmp_path):
    """CXX may be a command with arguments, in a folder with a blank, as with ccache."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    launcher = script(folder / "launcher", 'test "$1" = run || exit 3; shift; exec "$@"')
    for command in (shlex.join([launcher, "run", "g++", "-DGIVEN"]), script(folder / "c++", 'exec g++ -DGIVEN "$@"')):
        monkeypatch.setenv("CXX", command)
        binary = HostCompiler().compile(make_program(f"#ifndef GIVEN\n#error not given\n#endif\n{GOOD}").compilation())
        assert binary.compiler.startswith("g++ ")
        assert HostCompiler(command).identity == HostCompiler().identity


def test_output_that_is_no_text(make_program, monkeypatch, tmp_path):
    """Compilers print source lines and file names byte by byte, so their output may be no valid text."""
    noise = r"printf '\377\376 noise\n' >&2; printf '\377\n'"
    monkeypatch.setenv("CXX", script(tmp_path / "noisy", f'{noise}; exec g++ "$@"'))
    assert HostCompiler().compile(make_program(GOOD, "p").compilation()).image
    monkeypatch.setenv("CXX", script(tmp_path / "refusing", "printf '\\377: error: \\376\n' >&2; exit 1"))
    with pytest.raises(CompileError, match="is no working") as raised:
        HostCompiler().compile(make_program(GOOD, "p").compilation())
    assert "\N{REPLACEMENT CHARACTER}: error:" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_cxx_is_preferred(monkeypatch, tmp_path):
    wrapper = script(tmp_path / "my-c++", f'exec {find_compiler()} "$@"')
    monkeypatch.setenv("CXX", wrapper)
    assert find_compiler() == wrapper


def test_something_that_is_no_compiler(make_program, tmp_path):
    with pytest.raises(CompileError, match="no working C"):
        HostCompiler(script(tmp_path / "c++", "echo confused >&2; exit 1")).compile(make_program(GOOD).compilation())
    with pytest.raises(CompileError, match="cannot start"):
        HostCompiler(str(tmp_path / "absent")).compile(make_program(GOOD).compilation())


def test_hanging_compiler_is_killed_with_its_children(make_program, tmp_path):
    # It answers the probe, then starts a child that outlives it, as g++ starts cc1plus.
    real = find_compiler()
    text = f'case "$*" in *-dM*) exec {real} "$@";; esac\nsleep 60 & echo $! > {tmp_path}/child\nwait'
    compiler = HostCompiler(script(tmp_path / "c++", text), timeout_s=2.0)
    start = time.monotonic()
    with pytest.raises(CompileError, match=r"did not end within 2 s"):
        compiler.compile(make_program(GOOD, "p").compilation())
    assert time.monotonic() - start < 20
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(child)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # a zombie has ended, and waits for its adoptive parent


def test_identity_covers_what_decides_the_binary(tmp_path):
    plain = HostCompiler()
    assert plain.identity == HostCompiler().identity
    assert plain.identity != HostCompiler(sanitize=True).identity
    # Another CPU with the same home folder: the same options, other macros.
    other = script(tmp_path / "c++", f'{find_compiler()} -U__SSE2__ -D__OTHER_CPU__=1 "$@"')
    assert HostCompiler(other).identity != plain.identity
    # The same compiler under another path.
    same = script(tmp_path / "same-c++", f'{find_compiler()} "$@"')
    assert HostCompiler(same).identity == plain.identity


def test_compiler_travels_between_processes():
    compiler = HostCompiler(sanitize=True, timeout_s=3.0)
    assert pickle.loads(pickle.dumps(compiler)) == compiler
    assert dataclasses.replace(compiler, sanitize=False).sanitize is False


def test_sanitizer_environment_names_libraries_that_are_there():
    environment = HostCompiler().sanitizer_environment()
    assert all(Path(path).is_file() for path in environment["LD_PRELOAD"].split(":"))
    assert set(environment) == {"LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS"}


def test_missing_sanitizer_libraries_are_named(tmp_path):
    text = f'case "$*" in -print-file-name=*) echo libasan.so;; *) exec {find_compiler()} "$@";; esac'
    with pytest.raises(CompileError, match="install its sanitizer libraries"):
        HostCompiler(script(tmp_path / "c++", text)).sanitizer_environment()


@pytest.mark.parametrize("sanitize", [False, True])
def test_header_compiles_without_warnings(make_program, tmp_path, sanitize):
    source = """
        #include <cuda_runtime.h>
        #include <cuda_pipeline.h>
        #include <cuda_fp16.h>
        extern "C" __global__ void __launch_bounds__(64, 2) kernel(const float* x, float* y) {
            extern __shared__ float part[];
            __shared__ float first;
            part[threadIdx.x] = x[threadIdx.x];
            if (threadIdx.x == 0) first = x[0];
            __syncthreads();
            y[threadIdx.x] = __shfl_xor_sync(__activemask(), part[63 - threadIdx.x], 1) + first;
        }
    """
    # A wrapper that turns every warning into an error.
    strict = script(tmp_path / "c++", f'exec {find_compiler()} -Wall -Wextra -Werror "$@"')
    HostCompiler(strict, sanitize=sanitize).compile(make_program(source, "pp", shared_bytes=256).compilation())


def test_words_in_comments_do_not_count():
    text = compiler.without_comments("// __syncthreads\n/* extern __shared__\n float a[]; */ int x;")
    assert text.count("\n") == 2
    assert not compiler.cooperates(text)
    assert compiler.dynamic_shared(text) == {}


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("__global__ void kernel();", 1),
        ("__global__ void __cluster_dims__(8, 1, 1) kernel();", 8),
        ("void __cluster_dims__( 2,1,1) one(); void __cluster_dims__(3, 1, 1) two();", 6),
    ],
)
def test_blocks_of_clusters(text, blocks):
    assert compiler.cluster_blocks(text) == blocks


@pytest.mark.parametrize(
    "word", ["__syncthreads()", "__syncwarp()", "__syncthreads_or(1)", "__shfl_up_sync(m, v, 1)", "__ballot_sync(m, 1)"]
)
def test_words_of_cooperation(word):
    assert compiler.cooperates(f"void f() {{ {word}; }}")


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("extern __shared__ float tile[];", {"tile": "float"}),
        ("extern __shared__ __align__(16) unsigned char raw[ ];", {"raw": "unsigned char"}),
        ("extern __align__(16) __shared__ float4 v[];", {"v": "float4"}),
        ("extern volatile __shared__ int i[];", {"i": "volatile int"}),
        ("extern __shared__ alignas(sizeof(int)) int\n i[];", {"i": "int"}),
        ('extern "C" __global__ void k() { __shared__ float a[3]; }', {}),
    ],
)
def test_dynamic_shared_declarations(declaration, expected):
    assert compiler.dynamic_shared(declaration) == expected
