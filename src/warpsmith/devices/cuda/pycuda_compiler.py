"""nvcc run by PyCUDA's compiler (`pycuda.compiler.compile`, PyCUDA 2026.1), of the extra `pycuda`.

It loads `pycuda.driver`, which links the NVIDIA driver, so unlike NVRTC and nvcc it needs a machine with a driver. It
has no time limit; the tuner's worker processes, in which it compiles, have one. PyCUDA passes on the log of ptxas, with
its register counts, as a warning.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

from warpsmith.devices.compiler import Binary, BinaryKind, Compiler
from warpsmith.devices.cuda.compiler import find_nvcc, first_error, nvcc_name, target_of, usages_of
from warpsmith.errors import CompileError
from warpsmith.extras import Extra, install
from warpsmith.generator.steps import Compilation

_VERSION_TIMEOUT_S = 120.0
_SERIAL = threading.Lock()
"""Lock that lets threads compile one after the other, because catching warnings changes state of the whole process."""


@dataclasses.dataclass(frozen=True)
class PyCudaCompiler(Compiler):
    """PyCUDA's compiler. It takes about a second a kernel, as nvcc does, and needs a host compiler too.

    Args:
        arch: the architecture, such as `sm_90`.
        executable: path of nvcc; None to call `find_nvcc()` at each use.
    """

    arch: str
    executable: str | None = None

    @property
    def name(self) -> str:
        """Name and versions, such as `pycuda 2026.1 (nvcc 13.0.88)`. Raises CompileError if either is missing."""
        package, _, _ = _pycuda()
        return f"pycuda {package.VERSION_TEXT} ({nvcc_name(self._nvcc(), _VERSION_TIMEOUT_S)})"

    @property
    def identity(self) -> str:
        return f"{self.name} -arch {target_of(self.arch)} {' '.join(self._options)}"

    @property
    def _options(self) -> tuple[str, ...]:
        return ("-std=c++17", "-Xptxas", "-v")

    def _nvcc(self) -> str:
        return self.executable or find_nvcc()

    def compile(self, unit: Compilation) -> Binary:
        name = self.name
        _, compiler, driver = _pycuda()
        try:
            image, log = self._compiled(compiler, unit.source)
        except driver.CompileError as error:
            _remove_left_folder(error.msg)
            # ptxas reports on standard error, the front end on either.
            reason = first_error((error.stderr or "") + (error.stdout or ""))
            raise CompileError(f"{name} for {self.arch}: {reason}") from None
        except OSError as error:
            raise CompileError(f"{name} for {self.arch} does not run: {error}") from None
        return Binary(BinaryKind.CUBIN, image, self.arch, name, usages_of(log))

    def _compiled(self, compiler: Any, source: str) -> tuple[bytes, str]:
        """The machine code and the log, which PyCUDA issues as warnings."""
        with _SERIAL, warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            image: bytes = compiler.compile(
                source,
                nvcc=self._nvcc(),
                options=list(self._options),
                arch=target_of(self.arch),
                no_extern_c=True,
                cache_dir=False,  # binaries are cached by `binary_cache`
                target="cubin",
            )
        return image, "\n".join(str(each.message) for each in issued)


def _pycuda() -> tuple[Any, Any, Any]:
    """PyCUDA, its compiler and its driver module. Raises CompileError if they do not load."""
    try:
        import pycuda
        import pycuda.compiler
        import pycuda.driver
    except ModuleNotFoundError:
        raise CompileError(f"PyCUDA is missing: {install(Extra.PYCUDA)}") from None
    except ImportError as error:
        if "libcuda" not in str(error):
            raise CompileError(f"PyCUDA does not load ({error}): reinstall it") from None
        reason = f"PyCUDA compiles only where there is an NVIDIA driver ({error})"
        raise CompileError(f"{reason}: install one, or choose nvrtc or nvcc, which need none") from None
    return pycuda, pycuda.compiler, pycuda.driver


def _remove_left_folder(message: str) -> None:
    """Removes the temporary folder that PyCUDA leaves behind if nvcc fails. Only the error message names it."""
    if match := re.search(r"compilation of (.+) failed", message):
        folder = Path(match[1]).parent
        if folder.parent == Path(tempfile.gettempdir()):
            shutil.rmtree(folder, ignore_errors=True)
