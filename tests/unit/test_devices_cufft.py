"""cuFFT through ctypes: arguments noted by a stand-in library, on machines without a GPU."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.devices.cuda import cufft, status
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.library_calls import CufftTransform, Direction, Strided, TransformKind
from warpsmith.generator.program import LibraryCall, Pointer

# The functions as cufft.h of CUDA 13 declares them. Each writes one line; `status` is what plans answer.
LIBRARY = r"""
#include <stdio.h>
#include <stddef.h>
static FILE* file(void) { return fopen("NOTES", "a"); }
#define NOTE(...) do { FILE* f = file(); fprintf(f, __VA_ARGS__); fclose(f); } while (0)
int status = 0;
static int made = 0;
int cufftGetVersion(int* version) { *version = 12345; return 0; }
int cufftCreate(int* plan) { *plan = ++made; NOTE("create %d\n", made); return 0; }
int cufftDestroy(int plan) { NOTE("destroy %d\n", plan); return 0; }
int cufftSetAutoAllocation(int plan, int automatic) { NOTE("automatic %d %d\n", plan, automatic); return 0; }
int cufftMakePlanMany(int plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride,
                      int odist, int type, int batch, size_t* size) {
    NOTE("make %d: %dx%d from %dx%d %d %d to %dx%d %d %d type %#x batch %d\n", plan, n[0], n[rank - 1], inembed[0],
         inembed[rank - 1], istride, idist, onembed[0], onembed[rank - 1], ostride, odist, type, batch);
    *size = 4096;
    return status;
}
int cufftSetWorkArea(int plan, void* area) { NOTE("area %d %p\n", plan, area); return 0; }
int cufftSetStream(int plan, void* stream) { NOTE("stream %d %p\n", plan, stream); return 0; }
int cufftExecC2C(int plan, void* in, void* out, int sign) { NOTE("c2c %d %p %p %d\n", plan, in, out, sign); return 0; }
int cufftExecR2C(int plan, void* in, void* out) { NOTE("r2c %d %p %p\n", plan, in, out); return 0; }
int cufftExecC2R(int plan, void* in, void* out) { NOTE("c2r %d %p %p\n", plan, in, out); return 0; }
"""

REAL = CufftTransform(
    TransformKind.R2C, (12, 20), 7, Direction.FORWARD, Strided((12, 20), 1, 240), Strided((12, 11), 7, 1)
)


def call(transform: CufftTransform = REAL) -> LibraryCall:
    return LibraryCall(transform, (Pointer("signal", 0x10), Pointer("spectrum")))


class Context:
    """A primary context that counts how often it is made current."""

    def __init__(self) -> None:
        self.entered = 0
        self.is_closed = False

    @contextlib.contextmanager
    def active(self, doing: str) -> Iterator[None]:
        if self.is_closed:
            raise DeviceError(f"cannot {doing}: the device is closed")
        self.entered += 1
        yield


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cufft")
    (folder / "cufft.c").write_text(LIBRARY.replace("NOTES", str(folder / "notes")))
    subprocess.run(["gcc", "-shared", "-fPIC", "cufft.c", "-o", "libcufft.so"], cwd=folder, check=True)
    return folder / "libcufft.so"


@pytest.fixture
def notes(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Gives the lines that the library has written since the last call."""
    finder = SimpleNamespace(load_nvidia_dynamic_lib=lambda _: SimpleNamespace(abs_path=str(compiled)))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)
    monkeypatch.setattr(status, "outside_of_captures", lambda _: contextlib.nullcontext())
    cufft._library.cache_clear()
    file = compiled.with_name("notes")

    def read() -> list[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    read()
    yield read
    cufft._library.cache_clear()


def loaded(context: Any, transform: CufftTransform = REAL) -> Any:
    return cufft.Cufft(context).load(call(transform))


@pytest.mark.usefixtures("notes")
def test_its_version_is_told_as_its_makers_count_it() -> None:
    assert cufft.version() == "cufft 12.3.45"


def test_a_plan_is_made_once_and_allocates_nothing_itself(notes: Callable[[], list[str]]) -> None:
    made = loaded(Context())
    create, automatic, make = notes()
    plan = create.split()[1]
    assert automatic == f"automatic {plan} 0"
    assert make == f"make {plan}: 12x20 from 12x20 1 240 to 12x11 7 1 type 0x2a batch 7"
    assert made.workspace_bytes == 4096
    for _ in range(2):
        made.bind({"signal": 0x1000, "spectrum": 0x2000}, 0x3000)(0x77)
    expected = [f"stream {plan} 0x77", f"area {plan} 0x3000", f"r2c {plan} 0x1010 0x2000"]
    assert notes() == expected * 2
    made.close()
    made.close()
    assert notes() == [f"destroy {plan}"]


@pytest.mark.parametrize(
    ("kind", "direction", "code", "told"),
    [
        (TransformKind.C2C, Direction.FORWARD, "0x29", "c2c {} 0x1010 0x2000 -1"),
        (TransformKind.C2C, Direction.INVERSE, "0x29", "c2c {} 0x1010 0x2000 1"),
        (TransformKind.C2R, Direction.INVERSE, "0x2c", "c2r {} 0x1010 0x2000"),
    ],
)
def test_each_kind_has_its_function(
    notes: Callable[[], list[str]], kind: TransformKind, direction: Direction, code: str, told: str
) -> None:
    side = Strided((16,), 1, 16)
    made = loaded(Context(), CufftTransform(kind, (16,), 3, direction, side, side))
    create, _, make = notes()
    assert f"type {code} batch 3" in make
    made.bind({"signal": 0x1000, "spectrum": 0x2000}, 0x3000)(None)
    assert notes()[-1] == told.format(create.split()[1])


def test_the_context_is_current_whenever_it_is_called(notes: Callable[[], list[str]]) -> None:
    context = Context()
    made = loaded(context)
    assert context.entered == 1
    bound = made.bind({"signal": 0x1000, "spectrum": 0x2000}, 0x3000)
    bound(None)
    assert context.entered == 2
    context.is_closed = True
    made.close()  # the device's plans go with it
    assert not any("destroy" in line for line in notes())


def test_the_last_who_holds_a_plan_destroys_it(notes: Callable[[], list[str]]) -> None:
    bound = loaded(Context()).bind({"signal": 0x1000, "spectrum": 0x2000}, 0x3000)
    assert not any("destroy" in line for line in notes())  # who holds a bound call holds its plan
    del bound
    assert any("destroy" in line for line in notes())


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (8, LaunchError, "invalid size"),
        (2, OutOfMemory, "alloc failed"),
        (5, DeviceError, "internal error"),
        (99, DeviceError, "status 99"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_no_plan(
    notes: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, answer: int, error: type[Exception], told: str
) -> None:
    import ctypes

    word = ctypes.c_int.in_dll(cufft._library(), "status")
    monkeypatch.setattr(word, "value", answer)
    with pytest.raises(error) as caught:
        loaded(Context())
    assert str(caught.value) == f"cuFFT cannot transform (r2c forward, 12x20 points, 7 at once): {told}"
    assert type(caught.value) is error
    assert notes()[-1].startswith("destroy")


def test_what_is_bound_needs_its_memory_and_an_open_plan(notes: Callable[[], list[str]]) -> None:
    made = loaded(Context())
    with pytest.raises(LaunchError, match="a call of cufft needs 'spectrum', which was not given"):
        made.bind({"signal": 0x1000}, 0)
    made.close()
    with pytest.raises(LaunchError, match="its program was closed"):
        made.bind({"signal": 0x1000, "spectrum": 0x2000}, 0)
    assert notes()


def test_where_it_is_missing_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cufft._library.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(LaunchError, match=r"^cuFFT is missing: pip install nvidia-cufft, or install the CUDA 13 tool"):
        cufft.Cufft(Context())  # type: ignore[arg-type]
    assert cufft.version() == "cufft missing"
