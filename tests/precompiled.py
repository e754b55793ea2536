"""g++ with precompiled headers, for what every kernel on the host begins with, and with the quicker of its linkers.

To read `cuda_on_host.h` takes g++ up to 90 ms and to link 30 ms, more than half of what a small kernel takes, and the
tests compile two thousand. Precompiled is the text of that header itself but for its end, which depends on the program:
a header missing there is missing here too. Other compilers are left as they are.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import warpsmith.devices.host.compiler
from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.compiler import Binary
from warpsmith.devices.host.compiler import HostCompiler, find_compiler
from warpsmith.generator.steps import Compilation

NAME = "c++-of-tests"
GIVEN = os.environ.get("CXX", "")
"""Value of CXX when the tests start, before a test sets another."""
HEADER = Path(warpsmith.devices.host.compiler.__file__).parent / "cuda_on_host.h"
OF_A_PROGRAM = '#include "cuda_on_host/launch.h"\n'
"""Include of the only header that depends on more than WARPSMITH_HOST_COOPERATES. It is not precompiled."""
FIRST = "#define WARPSMITH_HOST_COOPERATES"
"""Beginning of a kernel's text. 0 or 1 follows."""
# What the compiler is (`HostCompiler.identity`) must not depend on the headers. `read` takes no more than the first
# line, which the precompiled header has as well.
SCRIPT = """\
#!/bin/sh
case " $* " in
*" -dM "*) exec "{compiler}" "$@" ;;
*" - "*) IFS= read -r first ;;
*) exec "{compiler}" "$@" {options} ;;
esac
case "$first" in
"{first} "[01]) exec "{compiler}" -include "{folder}/${{first##* }}.h" "$@" {options} ;;
*) {{ printf '%s\\n' "$first"; cat; }} | "{compiler}" "$@" {options} ;;
esac
"""
PLAIN = """\
#!/bin/sh
case " $* " in
*" -dM "*) exec "{compiler}" "$@" ;;
*) exec "{compiler}" "$@" {level} ;;
esac
"""


@dataclasses.dataclass(frozen=True)
class RememberingCompiler(HostCompiler):
    """Caches binaries for all processes of a test run, because many tests compile the same stages of layers."""

    folder: Path = dataclasses.field(kw_only=True)

    def compile(self, unit: Compilation) -> Binary:
        return CachedCompiler(HostCompiler(self.executable), self.folder).compile(unit)


def script(folder: Path, level: str = "", *, sanitize: bool = False) -> str:
    """Path of a script that runs the machine's compiler with the requested options, or at another optimisation `level`.

    `sanitize` precompiles the headers with the options of a sanitizer build. Processes may share `folder`.
    """
    if Path(GIVEN).name == NAME:
        return GIVEN  # that of the tests that run these
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / (level or "as-asked") / NAME
        compiler = _compiler()
        options = _options(compiler, sanitize, level)
        if options:
            _precompile(folder, compiler, options)
        if not made.exists():
            made.parent.mkdir()
            made.write_text(_text(compiler, folder, level) if options else PLAIN.format(compiler=compiler, level=level))
            made.chmod(0o755)
    return str(made)


def _compiler() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CXX", raising=False)
        if GIVEN:
            patch.setenv("CXX", GIVEN)
        return find_compiler()


def _options(compiler: str, sanitize: bool, level: str) -> tuple[str, ...]:
    """Compiler options of kernels; empty if the compiler is not g++."""
    plain = HostCompiler(compiler, sanitize=sanitize)
    if not plain.name.startswith("g++"):
        return ()
    asked = plain.identity.removeprefix(plain.name).partition(" target=")[0].split()
    return (*asked, level) if level else tuple(asked)


def _text(compiler: str, folder: Path, level: str) -> str:
    """Script for g++. It uses the faster gold linker if that is installed, and no link-time optimisation plugin."""
    options = ("-fno-use-linker-plugin", "-fuse-ld=gold" if shutil.which("ld.gold") else "", level)
    return SCRIPT.format(compiler=compiler, first=FIRST, folder=folder, options=" ".join(filter(None, options)))


def _precompile(folder: Path, compiler: str, options: tuple[str, ...]) -> None:
    """Writes one header to `folder` for kernels whose threads cooperate and one for the others. A folder beside each
    header has a precompiled file for each set of options.
    """
    for cooperates in "01":
        text = folder / f"{cooperates}.h"
        precompiled = text.with_suffix(".h.gch")
        if not text.exists():
            header = HEADER.read_text().replace("#pragma once", "")
            assert OF_A_PROGRAM in header
            text.write_text(f"{FIRST} {cooperates}\n{header.replace(OF_A_PROGRAM, '')}")
            precompiled.mkdir()
        made = precompiled / "".join(options).replace("/", "_")
        if not made.exists():
            command = [compiler, *options, "-I", str(HEADER.parent), "-x", "c++-header", str(text), "-o", str(made)]
            subprocess.run(command, check=True)
