"""g++ with a precompiled file of the headers that every kernel on the host begins with.

To read them takes g++ 50 ms, a quarter of what a small kernel takes, and the tests compile two thousand. What is
read is the beginning of `cuda_on_host.h` itself, so that a header missing there is missing here too. Other compilers
are left as they are.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

import warpsmith.devices.host.compiler
from warpsmith.devices.host.compiler import HostCompiler, find_compiler

NAME = "c++-of-tests"
GIVEN = os.environ.get("CXX", "")
"""What the tests were started with, before one of them names another."""
HEADER = Path(warpsmith.devices.host.compiler.__file__).parent / "cuda_on_host.h"
# What the compiler is (`HostCompiler.identity`) must not depend on the headers.
SCRIPT = """\
#!/bin/sh
case " $* " in
*" -dM "*) exec "{compiler}" "$@" ;;
*) exec "{compiler}" {include} "$@" {level} ;;
esac
"""


def script(folder: Path, level: str = "", *, sanitize: bool = False) -> str:
    """The path of a script that runs the machine's compiler, by default as it is asked to, or at another `level` of
    optimisation; `sanitize` prepares it for the options that a build for the sanitizers has. Processes may share
    `folder`.
    """
    if Path(GIVEN).name == NAME:
        return GIVEN  # that of the tests that run these
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / (level or "as-asked") / NAME
        compiler = _compiler()
        options = _options(compiler, sanitize) + ((level,) if level else ())
        include = f'-include "{_headers(folder, compiler, options)}"' if options else ""
        if not made.exists():
            made.parent.mkdir()
            made.write_text(SCRIPT.format(compiler=compiler, include=include, level=level))
            made.chmod(0o755)
    return str(made)


def _compiler() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CXX", raising=False)
        if GIVEN:
            patch.setenv("CXX", GIVEN)
        return find_compiler()


def _options(compiler: str, sanitize: bool) -> tuple[str, ...]:
    """What kernels are compiled with; none where it is no g++."""
    plain = HostCompiler(compiler, sanitize=sanitize)
    if not plain.name.startswith("g++"):
        return ()
    return tuple(plain.identity.removeprefix(plain.name).partition(" target=")[0].split())


def _headers(folder: Path, compiler: str, options: tuple[str, ...]) -> Path:
    """The text to include; beside it lies a folder with a precompiled file for each set of options."""
    text = folder / "headers.h"
    if not text.exists():
        text.write_text(HEADER.read_text().partition('#include "')[0].replace("#pragma once", ""))
        text.with_suffix(".h.gch").mkdir()
    made = text.with_suffix(".h.gch") / "".join(options).replace("/", "_")
    if not made.exists():
        subprocess.run([compiler, *options, "-x", "c++-header", str(text), "-o", str(made)], check=True)
    return text
