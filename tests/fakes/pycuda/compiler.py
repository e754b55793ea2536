"""Fake `pycuda.compiler`: runs nvcc as PyCUDA does, in a temporary folder that stays if nvcc fails."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path


def compile(  # noqa: A001 - PyCUDA's name
    source: str,
    nvcc: str = "nvcc",
    options: list[str] | None = None,
    keep: bool = False,  # noqa: ARG001
    no_extern_c: bool = False,
    arch: str | None = None,
    code: str | None = None,
    cache_dir: str | bool | None = None,
    include_dirs: Sequence[str] | None = None,
    target: str = "cubin",
) -> bytes:
    """`pycuda.compiler.compile` without its cache."""
    import pycuda.driver

    assert cache_dir is False
    if not no_extern_c:
        source = f'extern "C" {{\n{source}\n}}\n'
    given = list(options or [])
    if arch is not None:
        given += ["-arch", arch]
    if code is not None:
        given += ["-code", code]
    given += [f"-I{folder}" for folder in (*(include_dirs or ()), Path(__file__).parent / "cuda")]
    folder = Path(tempfile.mkdtemp())
    (folder / "kernel.cu").write_text(source)
    command = [nvcc, f"--{target}", *given, "kernel.cu"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise pycuda.driver.CompileError(
            f"nvcc compilation of {folder / 'kernel.cu'} failed", command, stdout=ran.stdout, stderr=ran.stderr
        )
    if ran.stdout or ran.stderr:
        warnings.warn(f"The CUDA compiler succeeded, but said the following:\n{ran.stdout}{ran.stderr}", stacklevel=4)
    image = (folder / f"kernel.{target}").read_bytes()
    shutil.rmtree(folder)
    return image
