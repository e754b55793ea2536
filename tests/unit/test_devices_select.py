"""Devices and compilers by name, on a machine that may have no GPU."""

from __future__ import annotations

import importlib.abc
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import warpsmith.devices.cuda
from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.cuda import available
from warpsmith.devices.cuda.compiler import NvccCompiler, NvrtcCompiler
from warpsmith.devices.cuda.pycuda_compiler import PyCudaCompiler
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import CompilerChoice, DeviceRef, cuda_compiler
from warpsmith.errors import BadArgument, CompileError, DeviceError
from warpsmith.generator.device import DeviceKind


def count_of(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretends that the driver offers `number` GPUs."""

    def count() -> int:
        if number == 0:
            raise DeviceError("no NVIDIA driver here")
        return number

    monkeypatch.setattr(available, "gpu_count", count)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("host", DeviceRef(DeviceKind.HOST)),
        ("cuda", DeviceRef(DeviceKind.CUDA, 0)),
        ("cuda:0", DeviceRef(DeviceKind.CUDA, 0)),
        ("cuda:12", DeviceRef(DeviceKind.CUDA, 12)),
    ],
)
def test_names(text: str, ref: DeviceRef) -> None:
    assert DeviceRef.parse(text) == ref
    assert DeviceRef.parse(str(ref)) == ref


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA:0", "cuda:0 ", "host:0", "auto:1"])
def test_anything_else_is_a_bad_argument(text: str) -> None:
    with pytest.raises(BadArgument, match="choose auto, host, cuda or cuda:I"):
        DeviceRef.parse(text)


def test_auto_is_the_first_gpu_or_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    count_of(2, monkeypatch)
    assert DeviceRef.parse("auto") == DeviceRef(DeviceKind.CUDA, 0)
    count_of(0, monkeypatch)
    assert DeviceRef.parse("auto") == DeviceRef(DeviceKind.HOST)


@pytest.mark.parametrize(("count", "told"), [(1, "1 GPU, cuda:0 alone"), (4, "4 GPUs, cuda:0 to cuda:3")])
def test_a_gpu_too_many_is_told_how_many_there_are(count: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count_of(count, monkeypatch)
    ref = DeviceRef.parse("cuda:7")
    for use in (ref.device, ref.open, ref.compiler):
        with pytest.raises(DeviceError, match=f"no cuda:7 here: the driver offers {told}"):
            use()


class Missing(importlib.abc.MetaPathFinder):
    """An import hook that fails the import of cuda-bindings."""

    def __init__(self, error: ImportError) -> None:
        self._error = error

    def find_spec(self, name: str, *_: object) -> None:
        if name in ("cuda", "cuda.bindings"):
            raise self._error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ModuleNotFoundError("No module named 'cuda.bindings'", name="cuda.bindings"),
            'no cuda.bindings here: pip install "warpsmith[cuda]", or use the device host',
        ),
        (ImportError("Python is too old"), "cuda-bindings do not load (Python is too old): reinstall them"),
    ],
)
def test_what_is_missing_is_named(error: ImportError, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [Missing(error), *sys.meta_path])
    monkeypatch.delattr(warpsmith.devices.cuda, "driver", raising=False)
    for name in [name for name in sys.modules if name.startswith(("cuda.bindings", "warpsmith.devices.cuda.driver"))]:
        monkeypatch.delitem(sys.modules, name)
    assert available.cuda_device_count() == 0
    with pytest.raises(DeviceError, match=re.escape(message)):
        DeviceRef.parse("cuda:0").open()


def test_the_host_opens() -> None:
    ref = DeviceRef.parse("host")
    runtime = ref.open()
    try:
        assert runtime.device == ref.device()
        assert runtime.device.kind is DeviceKind.HOST
    finally:
        runtime.close()


def test_compilers_of_the_host() -> None:
    host = DeviceRef.parse("host")
    assert host.compiler() == CachedCompiler(HostCompiler())
    assert host.compiler(CompilerChoice.HOST, sanitize=True) == CachedCompiler(HostCompiler(sanitize=True))
    for choice in (CompilerChoice.NVRTC, CompilerChoice.NVCC, CompilerChoice.PYCUDA):
        with pytest.raises(BadArgument, match=f"{choice} does not compile for the host"):
            host.compiler(choice)


def test_compilers_of_an_architecture_that_is_not_here() -> None:
    assert cuda_compiler("sm_90", CompilerChoice.NVRTC) == CachedCompiler(NvrtcCompiler("sm_90"))
    assert cuda_compiler("sm_100a", CompilerChoice.NVCC) == CachedCompiler(NvccCompiler("sm_100a"))
    assert cuda_compiler("sm_90", CompilerChoice.PYCUDA) == CachedCompiler(PyCudaCompiler("sm_90"))
    with pytest.raises(BadArgument, match="choose nvrtc, nvcc or pycuda"):
        cuda_compiler("sm_90", CompilerChoice.HOST)
    for arch in ("90", "sm_9", "compute_90", "sm_90;rm"):
        with pytest.raises(BadArgument, match="unknown architecture"):
            cuda_compiler(arch)


@pytest.mark.usefixtures("fake_pycuda")
def test_the_first_of_nvrtc_and_nvcc_compiles_where_none_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho V42.0.1\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr("warpsmith.devices.cuda.compiler.nvrtc_name", lambda: "nvrtc 13.0")
    assert cuda_compiler("sm_90") == CachedCompiler(NvrtcCompiler("sm_90"))

    def missing() -> str:
        raise CompileError("NVRTC is missing")

    monkeypatch.setattr("warpsmith.devices.cuda.compiler.nvrtc_name", missing)
    assert cuda_compiler("sm_90") == CachedCompiler(NvccCompiler("sm_90"))
    nvcc.unlink()
    assert cuda_compiler("sm_90") == CachedCompiler(NvrtcCompiler("sm_90"))


def test_no_sanitizers_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    count_of(1, monkeypatch)
    with pytest.raises(BadArgument, match="sanitizers run on the host only"):
        DeviceRef.parse("cuda").compiler(sanitize=True)


def test_references_and_compilers_cross_process_borders() -> None:
    for value in (DeviceRef.parse("cuda:3"), DeviceRef.parse("host").compiler(), cuda_compiler("sm_90")):
        assert pickle.loads(pickle.dumps(value)) == value


def test_the_host_needs_no_gpu_library() -> None:
    code = (
        "import sys; from warpsmith.devices.select import DeviceRef; import warpsmith.devices.arrays\n"
        "DeviceRef.parse('host').compiler(); DeviceRef.parse('host').open().close(); DeviceRef.parse('cuda:0')\n"
        "print([name for name in ('pycuda', 'cuda', 'cupy', 'torch') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
