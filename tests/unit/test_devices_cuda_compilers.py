"""NVRTC and nvcc, neither of which needs a GPU, and PyCUDA's compiler over a stand-in for its driver."""

from __future__ import annotations

import dataclasses
import os
import pickle
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

import exhaustive
from builders import program as of_one
from warpsmith.devices.compiler import BinaryKind, Compiler
from warpsmith.devices.cuda.compiler import NO_CACHE, NvccCompiler, NvrtcCompiler, find_nvcc, nvrtc_name
from warpsmith.devices.cuda.pycuda_compiler import PyCudaCompiler
from warpsmith.errors import CompileError
from warpsmith.generator.steps import Compilation
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.workers.compile_pool import Compiled, CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines

SOURCE = """
struct Weights { float w[9]; };
extern "C" __global__ void kernel_a(const float* x, float* y, Weights weights) {
    __shared__ float tile[64];
    tile[threadIdx.x & 63] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[(threadIdx.x + 1) & 63] * weights.w[threadIdx.x % 9];
}
extern "C" __global__ void kernel_b(float* y) { y[threadIdx.x] = 0.0f; }
"""


def program(source: str) -> Compilation:
    return Compilation(source)


def _nvrtc() -> Compiler:
    try:
        nvrtc_name()
    except CompileError as error:
        # The test extra brings its wheel, so that this is for an odd environment alone.
        (pytest.fail if "CI" in os.environ else pytest.skip)(str(error))
    return NvrtcCompiler("sm_90")


def _nvcc() -> Compiler:
    try:
        return NvccCompiler("sm_90", executable=find_nvcc())
    except CompileError as error:
        pytest.skip(str(error))


def _pycuda() -> Compiler:
    try:
        return PyCudaCompiler("sm_90", executable=find_nvcc())
    except CompileError as error:
        pytest.skip(str(error))


@pytest.fixture(params=[_nvrtc, _nvcc, _pycuda], ids=["nvrtc", "nvcc", "pycuda"])
def compiler(request: pytest.FixtureRequest) -> Compiler:
    if request.param is _pycuda:
        request.getfixturevalue("fake_pycuda")
    made: Compiler = request.param()
    return made


def other_arch(compiler: Compiler, arch: str) -> Compiler:
    """The same compiler for another architecture."""
    assert isinstance(compiler, NvrtcCompiler | NvccCompiler | PyCudaCompiler)
    return dataclasses.replace(compiler, arch=arch)


def test_a_program_becomes_a_cubin(compiler: Compiler) -> None:
    binary = compiler.compile(program(SOURCE))
    assert binary.kind is BinaryKind.CUBIN
    assert binary.arch == "sm_90"
    assert binary.image.startswith(b"\x7fELF")
    assert b"kernel_a" in binary.image
    assert b"kernel_b" in binary.image
    assert binary.most.registers is not None
    assert 8 <= binary.most.registers <= 255
    assert binary.most.spill_bytes == 0
    assert binary.most.shared_bytes == 64 * 4
    assert compiler.identity.startswith(binary.compiler)


def test_a_bad_program_is_refused_with_its_first_error(compiler: Compiler) -> None:
    with pytest.raises(CompileError) as caught:
        compiler.compile(program(SOURCE.replace("x[threadIdx.x];", "missing[threadIdx.x];")))
    message = str(caught.value)
    assert re.search(r'\b(program|kernel)\.cu\(5\): error: identifier "missing" is undefined', message)
    assert "sm_90" in message
    assert "\n" not in message


def test_an_unknown_architecture_is_named(compiler: Compiler) -> None:
    with pytest.raises(CompileError, match=r"for sm_9: .*arch"):
        other_arch(compiler, "sm_9").compile(program(SOURCE))


def test_too_much_shared_memory_is_an_error_of_ptxas(compiler: Compiler) -> None:
    with pytest.raises(CompileError, match="uses too much shared data"):
        compiler.compile(program(SOURCE.replace("tile[64]", "tile[64000]")))


def test_it_crosses_process_borders(compiler: Compiler) -> None:
    again = pickle.loads(pickle.dumps(compiler))
    assert again == compiler
    assert again.identity == compiler.identity


def test_the_architecture_decides_the_identity(compiler: Compiler) -> None:
    assert other_arch(compiler, "sm_80").identity != compiler.identity


@exhaustive.meeting()
@pytest.mark.parametrize(
    ("arch", "target"),
    [
        ("sm_75", "sm_75"),
        ("sm_80", "sm_80"),
        ("sm_89", "sm_89"),
        ("sm_90", "sm_90a"),
        ("sm_100", "sm_100a"),
        ("sm_120", "sm_120a"),
    ],
)
def test_what_an_architecture_alone_has_is_compiled_for(compiler: Compiler, arch: str, target: str) -> None:
    made = other_arch(compiler, arch)
    options = set(re.findall(r"-arch(?:itecture)?[= ](\S+)", made.identity))
    assert options == {target}
    binary = made.compile(program(SOURCE))
    assert binary.arch == arch  # devices report it so


def test_instructions_of_warpgroups_are_known_on_hopper_and_not_before(compiler: Compiler) -> None:
    fence = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'
    source = f'extern "C" __global__ void kernel() {{ {fence} }}'
    assert compiler.compile(program(source)).arch == "sm_90"
    with pytest.raises(CompileError, match=r"for sm_80: .*wgmma"):
        other_arch(compiler, "sm_80").compile(program(source))


def test_without_nvcc_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(CompileError, match="nvcc is missing: install the CUDA 13 toolkit"):
        NvccCompiler("sm_90").compile(program(SOURCE))


def test_cuda_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 42.0, V42.0.1'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_nvcc() == str(nvcc)
    assert NvccCompiler("sm_90").identity.startswith("nvcc 42.0.1 -arch=sm_90a ")


def test_a_program_that_is_no_nvcc_is_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "nvcc"
    script.write_text("#!/bin/sh\necho 'not what you wanted' >&2; exit 3\n")
    script.chmod(0o755)
    with pytest.raises(CompileError, match=r"is no working nvcc \(not what you wanted\)"):
        NvccCompiler("sm_90", executable=str(script)).compile(program(SOURCE))


def test_an_nvcc_that_hangs_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "nvcc"
    script.write_text('#!/bin/sh\n[ "$1" = --version ] && echo V1.0 || sleep 60\n')
    script.chmod(0o755)
    with pytest.raises(CompileError, match=r"did not end within 0\.5 s"):
        NvccCompiler("sm_90", executable=str(script), timeout_s=0.5).compile(program(SOURCE))


class TestPyCuda:
    @pytest.fixture(autouse=True)
    def _there(self, fake_pycuda: Path) -> None:
        """Runs each test with the fixture's PyCUDA."""

    def test_versions_of_both_are_its_identity(self) -> None:
        identity = _pycuda().identity
        assert re.fullmatch(r"pycuda 2026\.1 \(nvcc \d+\.[\d.]+\) -arch sm_90a -std=c\+\+17 -Xptxas -v", identity)

    def test_nothing_is_left_in_the_folder_for_temporary_files(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        compiler = _pycuda()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        compiler.compile(program(SOURCE))
        with pytest.raises(CompileError):
            compiler.compile(program("this is no CUDA"))
        assert list(tmp_path.iterdir()) == []

    def test_its_log_is_no_warning_to_the_user(self) -> None:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            _pycuda().compile(program(SOURCE))
        assert not told

    def test_spills_are_read(self) -> None:
        local = 'extern "C" __global__ void kernel(float* y, int i) { float a[64]; for (int n = 0; n < 64; ++n) '
        binary = _pycuda().compile(program(local + "a[n * i & 63] = y[n]; y[0] = a[i & 63]; }"))
        assert binary.most.spill_bytes == 256

    def test_without_nvcc_the_toolkit_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("CUDA_HOME", str(tmp_path))
        with pytest.raises(CompileError, match="nvcc is missing: install the CUDA 13 toolkit"):
            PyCudaCompiler("sm_90").compile(program(SOURCE))

    def test_an_nvcc_that_cannot_be_started(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.devices.cuda.pycuda_compiler.nvcc_name", lambda *_: "nvcc 13.0")
        with pytest.raises(CompileError, match=r"pycuda 2026\.1 \(nvcc 13\.0\) for sm_90 does not run: .*No such file"):
            PyCudaCompiler("sm_90", executable=str(tmp_path / "nvcc")).compile(program(SOURCE))

    def test_it_compiles_in_a_worker_and_one_that_hangs_is_ended(self, tmp_path: Path) -> None:
        nvcc = tmp_path / "nvcc"
        nvcc.write_text(f'#!/bin/sh\n[ -e {tmp_path}/hang ] && exec sleep 600 || exec {find_nvcc()} "$@"\n')
        nvcc.chmod(0o755)
        deadlines = Deadlines(compile_s=120.0, least_compile_s=1.0, compile_factor=10.0)
        pool = CompilePool(PyCudaCompiler("sm_90", executable=str(nvcc)), deadlines, processes=1)
        try:
            made = pool.submit(of_one(SOURCE)).result()
            assert isinstance(made, Compiled), made
            assert made.binaries[""].most.registers is not None
            (tmp_path / "hang").touch()
            pool.expect(100.0)
            failed = pool.submit(of_one(SOURCE + "// another")).result()
            assert failed == Failure(FailureKind.COMPILE, "the compiler gave no answer within 2 s")
        finally:
            pool.close()


def test_without_pycuda_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(CompileError, match=r'PyCUDA is missing: pip install "warpsmith\[pycuda\]"'):
        PyCudaCompiler("sm_90").compile(program(SOURCE))


@pytest.mark.usefixtures("fake_pycuda")
@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("libcuda.so.1: cannot open shared object file", "only where there is an NVIDIA driver .*choose nvrtc or nvcc"),
        ("numpy is too old", r"PyCUDA does not load \(numpy is too old\): reinstall it"),
    ],
)
def test_a_pycuda_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: str, told: str) -> None:
    package = tmp_path / "pycuda"
    package.mkdir()
    (package / "__init__.py").write_text("VERSION_TEXT = '2026.1'")
    (package / "compiler.py").touch()
    (package / "driver.py").write_text(f"raise ImportError({error!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CompileError, match=told):
        _ = PyCudaCompiler("sm_90").identity


@pytest.mark.parametrize(("option", "opened"), [(NO_CACHE, False), ("--std=c++17", True)])
def test_nvrtc_opens_no_gpu(tmp_path: Path, option: str, opened: bool) -> None:
    """NVRTC opens the GPU under the second option, which shows that it finds the driver planted here."""
    _nvrtc()
    (tmp_path / "driver.c").write_text('#include <stdio.h>\nint cuInit(unsigned f) { puts("opened"); return 100; }\n')
    command = ["gcc", "-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / "compile.py").write_text(
        "from warpsmith.devices.cuda import compiler\n"
        "from warpsmith.generator.steps import Compilation\n"
        f"compiler.NO_CACHE = {option!r}\n"
        "source = 'extern \"C\" __global__ void kernel(float* y) { *y = 0.0f; }'\n"
        "assert compiler.NvrtcCompiler('sm_90').compile(Compilation(source)).image\n"
    )
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "CUDA_CACHE_PATH": str(tmp_path / "cache")}
    told = subprocess.run(
        [sys.executable, "compile.py"], cwd=tmp_path, env=environment, check=True, text=True, stdout=subprocess.PIPE
    ).stdout
    assert ("opened" in told) == opened


def test_without_nvrtc_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CompileError, match=r'pip install "warpsmith\[cuda\]"'):
        NvrtcCompiler("sm_90").compile(program(SOURCE))
