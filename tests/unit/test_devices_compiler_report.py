"""Compilers in the report of doctor: a program of the right name that cannot compile counts as none."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.cli.app import run
from warpsmith.devices.compiler_report import (
    CompilerReport,
    Condition,
    report_on_host_compiler,
    report_on_nvcc,
    report_on_nvrtc,
    report_on_pycuda,
)
from warpsmith.devices.cuda import compiler
from warpsmith.extras import Extra, missing

SPEAKS = "case \"$1\" in --version) echo 'release 42.0, V42.0.1'; exit 0;; esac\n"
TARGET = 'while [ "$1" != -o ]; do shift; done\n'

REAL_NVCC = shutil.which("nvcc")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """An nvcc that does what a script says, in a toolkit that CUDA_HOME names."""

    def make(text: str) -> Path:
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
        return script(tmp_path / "toolkit" / "bin" / "nvcc", text)

    return make


class TestNvcc:
    def test_that_compiles(self, toolkit: Callable[[str], Path]) -> None:
        path = toolkit(f'{SPEAKS}{TARGET}printf "\\177ELF code" > "$2"')
        report = report_on_nvcc("sm_90")
        assert report.condition is Condition.OK
        assert report.message.startswith(f"nvcc 42.0.1 at {path} (of CUDA_HOME")
        assert "compiles for sm_90 in " in report.message

    @pytest.mark.skipif(REAL_NVCC is None, reason="no nvcc on the path")
    def test_that_is_real_does_without_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CUDA_HOME", raising=False)
        report = report_on_nvcc("sm_90")
        assert report.condition is Condition.OK
        assert f" at {REAL_NVCC} (on the path)" in report.message

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (f"{SPEAKS}echo 'nvcc fatal: no host compiler' >&2; echo more >&2; exit 1", "nvcc fatal: no host compiler"),
            (f"{SPEAKS}exit 0", "No such file or directory"),  # knows its version and writes nothing
            (f'{SPEAKS}{TARGET}echo no code > "$2"', "makes no machine code for sm_90"),
            ("echo 'error while loading shared libraries: x.so' >&2; exit 127", "error while loading shared libraries"),
            (f"{SPEAKS}kill -SEGV $$", "for sm_90"),
            (f"{SPEAKS}sleep 60", r"did not end within 0\.5 s"),
            ("sleep 60", r"did not end within 0\.5 s"),
        ],
    )
    def test_that_does_not(self, toolkit: Callable[[str], Path], text: str, why: str) -> None:
        path = toolkit(text)
        report = report_on_nvcc("sm_90", timeout_s=0.5 if "sleep" in text else 60.0)
        assert report.condition is Condition.BROKEN
        assert re.search(why, report.message)
        assert str(path) in report.message
        assert "\n" not in report.message

    def test_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("CUDA_HOME", str(tmp_path))
        report = report_on_nvcc("sm_90")
        assert report == CompilerReport(Condition.MISSING, f"{compiler._NVCC_MISSING} (now {tmp_path})")

    def test_on_the_path_that_cuda_home_hides(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        path = script(tmp_path / "bin" / "nvcc", SPEAKS)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "none"))
        report = report_on_nvcc("sm_90")
        assert report.condition is Condition.MISSING
        assert f"which has no bin/nvcc, but {path} is on the path: unset CUDA_HOME" in report.message

    def test_of_cuda_home_beside_another_on_the_path(
        self, toolkit: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        used = toolkit(f'{SPEAKS}{TARGET}printf "\\177ELF code" > "$2"')
        other = script(tmp_path / "other" / "nvcc", "exit 1")
        monkeypatch.setenv("PATH", f"{other.parent}{os.pathsep}{os.environ['PATH']}")
        assert f"at {used} (of CUDA_HOME; not {other}, which is on the path)" in report_on_nvcc("sm_90").message


class TestNvrtc:
    @pytest.fixture
    def bindings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        """cuda-bindings whose NVRTC module has the given text."""

        def make(text: str) -> None:
            package = tmp_path / "packages" / "cuda" / "bindings"
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
            (package / "nvrtc.py").write_text(text)
            monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))

        return make

    GOOD = (
        "def nvrtcVersion(): return 0, 42, 1\n"
        "def nvrtcCreateProgram(*_): return 0, 1\n"
        "def nvrtcCompileProgram(*_): return (STATUS,)\n"
        "def nvrtcGetProgramLogSize(_): return 0, 0\n"
        "def nvrtcGetProgramLog(*_): return (0,)\n"
        "def nvrtcGetCUBINSize(_): return 0, 8\n"
        "def nvrtcGetCUBIN(_, buffer):\n"
        "    import ctypes\n"
        "    ctypes.memmove(buffer, b'\\x7fELFcode', 8)\n"
        "    return (0,)\n"
        "def nvrtcDestroyProgram(_): return (0,)\n"
    )

    @pytest.mark.parametrize(
        ("text", "condition", "told"),
        [
            (GOOD.replace("STATUS", "0"), "ok", r"^nvrtc 42\.1 \(cuda-bindings.*\), compiles for sm_90$"),
            (GOOD.replace("STATUS", "6"), "broken", r"^nvrtc 42\.1 .*compiles no kernel for sm_90"),
            ("raise ImportError('libfoo.so.1: not found')", "missing", r"libfoo.*: pip install \"warpsmith\[cuda\]\"$"),
            (
                "def nvrtcVersion(): raise RuntimeError('no libnvrtc.so.13\\nand more')",
                "missing",
                r"finds no NVRTC library that loads \(no libnvrtc\.so\.13\): pip install",
            ),
            ("import os\nos.abort()", "broken", r"ended with signal 6"),
            ("import time\ntime.sleep(60)", "broken", r"did not compile a kernel for sm_90 within 3 s"),
        ],
    )
    def test_is_what_it_does(self, bindings: Callable[[str], None], text: str, condition: str, told: str) -> None:
        bindings(text)
        report = report_on_nvrtc("sm_90", timeout_s=3.0 if "sleep" in text else 60.0)
        assert report.condition == condition
        assert re.search(told, report.message)
        assert "\n" not in report.message

    def test_reads_no_module_of_the_working_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "json.py").write_text("open('planted', 'w')\n")
        monkeypatch.chdir(tmp_path)
        report_on_nvrtc("sm_90")
        assert not (tmp_path / "planted").exists()


class TestPyCuda:
    @pytest.mark.usefixtures("fake_pycuda")
    @pytest.mark.parametrize(
        ("text", "condition", "told"),
        [
            (
                f'{SPEAKS}printf "\\177ELF code" > kernel.cubin',
                "ok",
                r"^pycuda 2026\.1 \(nvcc 42\.0\.1\), compiles for sm_90$",
            ),
            (f"{SPEAKS}echo 'nvcc fatal: no host compiler' >&2; exit 1", "broken", r"for sm_90: nvcc fatal: no host"),
            (f"{SPEAKS}echo no code > kernel.cubin", "broken", r"makes no machine code for sm_90$"),
            (f"{SPEAKS}sleep 60", "broken", r"^PyCUDA did not compile a kernel for sm_90 within 3 s$"),
        ],
    )
    def test_is_what_it_does(self, toolkit: Callable[[str], Path], text: str, condition: str, told: str) -> None:
        toolkit(text)
        report = report_on_pycuda("sm_90", timeout_s=3.0 if "sleep" in text else 60.0)
        assert report is not None
        assert report.condition == condition
        assert re.search(told, report.message)

    @pytest.mark.usefixtures("fake_pycuda")
    def test_without_nvcc(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("CUDA_HOME", str(tmp_path))
        report = report_on_pycuda("sm_90")
        assert report == CompilerReport(Condition.MISSING, compiler._NVCC_MISSING)

    def test_without_a_driver(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "pycuda").mkdir()
        (tmp_path / "pycuda" / "__init__.py").touch()
        (tmp_path / "pycuda" / "compiler.py").touch()
        text = "raise ImportError('libcuda.so.1: cannot open shared object file')"
        (tmp_path / "pycuda" / "driver.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        report = report_on_pycuda("sm_90")
        assert report is not None
        assert report.condition is Condition.MISSING
        assert "PyCUDA compiles only where there is an NVIDIA driver" in report.message

    @pytest.mark.usefixtures("compile_unoptimised")
    def test_is_told_by_doctor_where_it_is_installed(
        self, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def names() -> set[str]:
            assert run(["doctor", "--json"]) == 0
            return {each["name"] for each in json.loads(capsys.readouterr().out)["findings"]}

        if missing(Extra.PYCUDA) is not None:
            assert "pycuda" not in names()
        request.getfixturevalue("fake_pycuda")
        assert "pycuda" in names()


class TestHostCompiler:
    def test_that_compiles(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CXX", raising=False)
        report = report_on_host_compiler()
        assert report.condition is Condition.OK
        assert re.match(r"(g\+\+|clang\+\+) [\d.]+ at /.*, compiles in ", report.message)

    def test_that_knows_its_version_and_compiles_nothing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A compiler front end that is installed without its linker behaves so."""
        text = "case \"$*\" in *-dM*) echo '#define __GNUC__ 12';; *) echo 'ld: error: not here' >&2; exit 1;; esac"
        monkeypatch.setenv("CXX", str(script(tmp_path / "cxx", text)))
        report = report_on_host_compiler()
        assert report.condition is Condition.BROKEN
        assert "ld: error: not here" in report.message
        assert str(tmp_path / "cxx") in report.message

    def test_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "no-such-compiler")
        report = report_on_host_compiler()
        assert report.condition is Condition.MISSING
        assert "CXX names 'no-such-compiler'" in report.message


@pytest.mark.usefixtures("compile_unoptimised")
def test_doctor_tells_it_in_both_forms(
    toolkit: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toolkit(f"{SPEAKS}echo 'nvcc fatal: no host compiler' >&2; exit 1")
    assert run(["doctor", "--json"]) == 0  # the host alone can be used
    findings = {each["name"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert (findings["nvcc"]["good"], findings["nvcc"]["status"]) == (False, "broken")
    assert "no host compiler" in findings["nvcc"]["told"]
    assert findings["host compiler"]["status"] == "ok"
    assert run(["doctor"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^-- nvcc +broken: .*no host compiler", text, re.M)
    assert re.search(r"^ok host compiler ", text, re.M)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert run(["doctor"]) == 1
    assert re.search(r"^-- host compiler +missing: CXX names", capsys.readouterr().out, re.M)
