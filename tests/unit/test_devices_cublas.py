"""cuBLAS through ctypes: arguments noted by a stand-in library, on machines without a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_driver import StreamDriver
from warpsmith.devices.cuda import cublas, status, streams
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.library_calls import MOST_STREAMS, CublasProduct, ProductFunction, Transpose
from warpsmith.generator.program import LibraryCall, Pointer

# The functions as cublas_v2.h of CUDA 13 declares them. Each writes one line; `status` is what products answer.
LIBRARY = r"""
#include <stdio.h>
#include <stddef.h>
typedef struct { float x, y; } Complex;
static FILE* file(void) { return fopen("NOTES", "a"); }
#define NOTE(...) do { FILE* f = file(); fprintf(f, __VA_ARGS__); fclose(f); } while (0)
int status = 0, created = 0;
static size_t made = 0;
int cublasGetProperty(int type, int* value) { *value = 13 + 4 * type; return 0; }
int cublasCreate_v2(void** handle) {
    if (created) return created;
    *handle = (void*)++made;
    NOTE("create %zu\n", made);
    return 0;
}
int cublasDestroy_v2(void* h) { NOTE("destroy %zu\n", (size_t)h); return 0; }
int cublasSetStream_v2(void* h, void* stream) { NOTE("stream %zu %zx\n", (size_t)h, (size_t)stream); return 0; }
int cublasSetWorkspace_v2(void* h, void* area, size_t size) {
    NOTE("workspace %zu %p %zu\n", (size_t)h, area, size);
    return 0;
}
#define STRIDED(name)                                                                                                \
    int name(void* h, int first, int second, int m, int n, int k, const Complex* alpha, const Complex* a, int lda,   \
             long long sa, const Complex* b, int ldb, long long sb, const Complex* beta, Complex* c, int ldc,        \
             long long sc, int batch) {                                                                              \
        NOTE(#name " %d%d %d %d %d alpha %g%+gi a %p %d %lld b %p %d %lld beta %g%+gi c %p %d %lld batch %d\n",      \
             first, second, m, n, k, alpha->x, alpha->y, (void*)a, lda, sa, (void*)b, ldb, sb, beta->x, beta->y,     \
             (void*)c, ldc, sc, batch);                                                                              \
        return status;                                                                                               \
    }
#define SINGLE(name)                                                                                                 \
    int name(void* h, int first, int second, int m, int n, int k, const Complex* alpha, const Complex* a, int lda,   \
             const Complex* b, int ldb, const Complex* beta, Complex* c, int ldc) {                                  \
        NOTE(#name " %d%d %d %d %d a %p %d b %p %d c %p %d\n", first, second, m, n, k, (void*)a, lda, (void*)b, ldb, \
             (void*)c, ldc);                                                                                         \
        return status;                                                                                               \
    }
STRIDED(cublasCgemmStridedBatched)
STRIDED(cublasCgemm3mStridedBatched)
SINGLE(cublasCgemm_v2)
SINGLE(cublasCgemm3m)
"""

PRODUCT = CublasProduct(ProductFunction.CGEMM, 5, 7, 11, 3, Transpose.C, Transpose.N)
SPREAD = CublasProduct(ProductFunction.CGEMM, 5, 7, 11, 5, is_looped=True, workspace_bytes=20_000, streams=3)
ADDRESSES = {"a": 0x1000, "b": 0x2000, "c": 0x3000}


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
    folder = tmp_path_factory.mktemp("cublas")
    (folder / "cublas.c").write_text(LIBRARY.replace("NOTES", str(folder / "notes")))
    subprocess.run(["gcc", "-shared", "-fPIC", "cublas.c", "-o", "libcublas.so"], cwd=folder, check=True)
    return folder / "libcublas.so"


@pytest.fixture
def notes(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Gives the lines that the library has written since the last call."""
    finder = SimpleNamespace(load_nvidia_dynamic_lib=lambda _: SimpleNamespace(abs_path=str(compiled)))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)
    monkeypatch.setattr(status, "outside_of_captures", lambda _: contextlib.nullcontext())
    cublas._library.cache_clear()
    file = compiled.with_name("notes")

    def read() -> list[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    gc.collect()  # destroys handles that errors of other tests kept alive
    read()
    yield read
    cublas._library.cache_clear()


@pytest.fixture
def driver(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> StreamDriver:
    """A driver that writes to the same notes as the library."""

    def note(line: str) -> None:
        with compiled.with_name("notes").open("a") as file:
            file.write(f"{line}\n")

    made = StreamDriver(note)
    for module in (streams, status):
        monkeypatch.setattr(module, "cu", made)
    return made


def loaded(context: Any, product: CublasProduct = PRODUCT) -> Any:
    call = LibraryCall(product, (Pointer("a", 0x10), Pointer("b"), Pointer("c")))
    return cublas.Cublas(context).load(call)


@pytest.mark.usefixtures("notes")
def test_its_version_is_told_as_its_makers_count_it() -> None:
    assert cublas.version() == "cublas 13.17.21"


def test_products_are_one_call_on_the_stream_and_in_the_memory_that_are_given(
    notes: Callable[[], list[str]],
) -> None:
    """The stream is set first, because setting it takes the workspace away."""
    made = loaded(Context())
    (create,) = notes()
    handle = create.split()[1]
    assert made.workspace_bytes == 32 << 20
    bound = made.bind(ADDRESSES, 0x4000)
    for stream in (0x77, 0x78):
        bound(stream)
        assert notes() == [
            f"stream {handle} {stream:x}",
            f"workspace {handle} 0x4000 {32 << 20}",
            "cublasCgemmStridedBatched 20 5 7 11 alpha 1+0i a 0x1010 11 55 b 0x2000 11 77 beta 0+0i c 0x3000 5 35 "
            "batch 3",
        ]
    made.close()
    made.close()
    assert notes() == [f"destroy {handle}"]


def test_a_call_that_is_to_take_less_memory_tells_cublas(notes: Callable[[], list[str]]) -> None:
    made = loaded(Context(), dataclasses.replace(PRODUCT, workspace_bytes=123_456))
    assert made.workspace_bytes == 123_456
    made.bind(ADDRESSES, 0x4000)(0x77)
    assert [line.split()[2:] for line in notes() if line.startswith("workspace")] == [["0x4000", "123456"]]


@pytest.mark.parametrize(
    ("function", "is_looped", "told"),
    [
        (ProductFunction.CGEMM, False, "cublasCgemmStridedBatched"),
        (ProductFunction.CGEMM3M, False, "cublasCgemm3mStridedBatched"),
        (ProductFunction.CGEMM, True, "cublasCgemm_v2"),
        (ProductFunction.CGEMM3M, True, "cublasCgemm3m"),
    ],
)
def test_each_way_has_its_function(
    notes: Callable[[], list[str]], function: ProductFunction, is_looped: bool, told: str
) -> None:
    product = CublasProduct(function, 5, 7, 11, 3, Transpose.N, Transpose.T, is_looped)
    loaded(Context(), product).bind(ADDRESSES, 0x4000)(None)
    calls = [line for line in notes() if line.startswith("cublas")]
    assert {line.split()[0] for line in calls} == {told}
    assert len(calls) == (3 if is_looped else 1)
    assert all(line.split()[1:5] == ["01", "5", "7", "11"] for line in calls)
    if is_looped:
        assert [line.split(" a ")[1] for line in calls] == [
            f"{0x1010 + 440 * i:#x} 5 b {0x2000 + 616 * i:#x} 7 c {0x3000 + 280 * i:#x} 5" for i in range(3)
        ]


def test_the_context_is_current_whenever_it_is_called(notes: Callable[[], list[str]]) -> None:
    context = Context()
    made = loaded(context)
    assert context.entered == 1
    made.bind(ADDRESSES, 0x4000)(None)
    assert context.entered == 2
    context.is_closed = True
    made.close()  # the device's handles go with it
    assert not any("destroy" in line for line in notes())


def test_the_last_who_holds_a_handle_destroys_it(notes: Callable[[], list[str]]) -> None:
    bound = loaded(Context()).bind(ADDRESSES, 0x4000)
    assert not any("destroy" in line for line in notes())  # who holds a bound call holds its handle
    del bound
    assert any("destroy" in line for line in notes())


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (7, LaunchError, "invalid value"),
        (15, LaunchError, "not supported"),
        (3, OutOfMemory, "alloc failed"),
        (13, DeviceError, "execution failed"),
        (99, DeviceError, "status 99"),
    ],
)
@pytest.mark.usefixtures("notes")
def test_a_refusal_is_one_line(monkeypatch: pytest.MonkeyPatch, answer: int, error: type[Exception], told: str) -> None:
    bound = loaded(Context()).bind(ADDRESSES, 0x4000)
    monkeypatch.setattr(ctypes.c_int.in_dll(cublas._library(), "status"), "value", answer)
    with pytest.raises(error) as caught:
        bound(None)
    assert str(caught.value) == f"cuBLAS cannot multiply (cgemm cn, m=5 n=7 k=11, 3 at once): {told}"
    assert type(caught.value) is error


def test_no_handle_is_left_of_what_cannot_be_made(
    notes: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes.c_int.in_dll(cublas._library(), "created"), "value", 3)
    with pytest.raises(OutOfMemory, match=r"cuBLAS cannot multiply .*: alloc failed"):
        loaded(Context())
    assert notes() == []


def test_what_is_bound_needs_its_memory_and_an_open_handle(notes: Callable[[], list[str]]) -> None:
    made = loaded(Context())
    with pytest.raises(LaunchError, match="a call of cublas needs 'c', which was not given"):
        made.bind({"a": 0x1000, "b": 0x2000}, 0)
    made.close()
    with pytest.raises(LaunchError, match="its program was closed"):
        made.bind(ADDRESSES, 0)
    assert notes()


def test_where_it_is_missing_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cublas._library.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(LaunchError, match=r"^cuBLAS is missing: pip install nvidia-cublas, or install the CUDA 13 too"):
        cublas.Cublas(Context())  # type: ignore[arg-type]
    assert cublas.version() == "cublas missing"


class TestStreams:
    def test_take_the_calls_in_turns(self, notes: Callable[[], list[str]], driver: StreamDriver) -> None:  # noqa: ARG002
        """Each stream has a handle and a part of the workspace, between a fork and a join."""
        made = loaded(Context(), SPREAD)
        assert made.workspace_bytes == 2 * 20_224 + 20_000  # at multiples of 256
        handles = [line.split()[1] for line in notes() if not line.startswith("create event")][-3:]
        made.bind(ADDRESSES, 0x4000)(0x77)
        lines = notes()
        assert lines[:3] == ["record e1 on 77", "51 waits for e1", "52 waits for e1"]
        assert lines[3:9] == [
            line
            for handle, stream, place in zip(handles, ("77", "51", "52"), (0x4000, 0x8F00, 0xDE00), strict=True)
            for line in (f"stream {handle} {stream}", f"workspace {handle} {place:#x} 20000")
        ]
        assert [line.split(" a ")[1].split()[0] for line in lines[9:14]] == [f"{0x1010 + 440 * i:#x}" for i in range(5)]
        assert [line.split()[-1] for line in lines[9:14]] == ["5"] * 5
        assert lines[14:] == ["record e2 on 51", "77 waits for e2", "record e3 on 52", "77 waits for e3"]

    def test_are_left_to_the_capture_that_has_them(self, notes: Callable[[], list[str]], driver: StreamDriver) -> None:
        bound = loaded(Context(), SPREAD).bind(ADDRESSES, 0x4000)
        driver.captured = {0x51: 5, 0x52: 5}
        notes()
        bound(None)
        lines = notes()
        assert [line.split()[0] for line in lines] == ["stream", "workspace", *["cublasCgemm_v2"] * 5]
        assert lines[1].split()[2:] == ["0x4000", "20000"]

    def test_go_with_their_handles(self, notes: Callable[[], list[str]], driver: StreamDriver) -> None:  # noqa: ARG002
        made = loaded(Context(), SPREAD)
        created = notes()
        made.close()
        made.close()
        assert notes() == [line.replace("create", "destroy") for line in reversed(created)]
        assert sorted(line.split()[1] for line in created if len(line.split()) == 3) == ["event"] * 3 + ["stream"] * 2
        assert len(created) == 8
        bound = loaded(Context(), SPREAD).bind(ADDRESSES, 0x4000)
        bound(None)
        notes()
        del bound
        assert sum(line.startswith("destroy") for line in notes()) == 8

    def test_none_is_left_of_what_cannot_be_made(
        self, notes: Callable[[], list[str]], driver: StreamDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver.most_streams = 1
        with pytest.raises(OutOfMemory):
            loaded(Context(), SPREAD)
        driver.most_streams = 100
        monkeypatch.setattr(ctypes.c_int.in_dll(cublas._library(), "created"), "value", 3)
        with pytest.raises(OutOfMemory):
            loaded(Context(), SPREAD)
        words = [line.split()[0] for line in notes()]
        assert words.count("create") == words.count("destroy") == 2 + 5


class TestProduct:
    @pytest.mark.parametrize(
        "product", [PRODUCT, SPREAD, CublasProduct(ProductFunction.CGEMM3M, 1, 2, 3, 4, is_looped=True)]
    )
    def test_reads_back_what_it_is(self, product: CublasProduct) -> None:
        assert CublasProduct.of(product.spec()) == product

    def test_tells_its_streams_where_they_are_several(self) -> None:
        """A single stream is not described, so fingerprints from before there were several stay valid."""
        one = dataclasses.replace(SPREAD, streams=1)
        assert "streams" not in one.spec()
        assert SPREAD.spec() == one.spec() | {"streams": 3}
        assert one.description() == "cgemm nn, m=5 n=7 k=11, 5 one by one, 20000 bytes of workspace"
        assert SPREAD.description() == "cgemm nn, m=5 n=7 k=11, 5 one by one over 3 streams, 20000 bytes of workspace"

    @pytest.mark.parametrize(("streams", "nbytes"), [(1, 20_000), (2, 40_224), (4, 80_672)])
    def test_has_a_workspace_for_each_stream(self, streams: int, nbytes: int) -> None:
        assert dataclasses.replace(SPREAD, streams=streams).all_workspace_bytes == nbytes
        whole = dataclasses.replace(SPREAD, streams=streams, workspace_bytes=1 << 20)
        assert whole.all_workspace_bytes == streams << 20

    @pytest.mark.parametrize("streams", [0, MOST_STREAMS + 1, True, 2.0, "2"])
    def test_is_spread_over_a_few_streams(self, streams: Any) -> None:
        with pytest.raises(ValueError, match="products are spread over 1 to 8 streams; got"):
            CublasProduct.of({**SPREAD.spec(), "batch": 64, "streams": streams})

    @pytest.mark.parametrize("changes", [{"batch": 2}, {"is_looped": False}])
    def test_has_a_call_for_each_stream(self, changes: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="each of 3 streams must have a call; got cgemm nn"):
            dataclasses.replace(SPREAD, **changes)

    def test_reaches_to_the_end_of_its_memory(self) -> None:
        assert PRODUCT.reaches == (8 * 3 * 55, 8 * 3 * 77, 8 * 3 * 35)
        assert PRODUCT.leads == (11, 11, 5)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *[(name, value) for name in ("m", "n", "k", "batch") for value in (0, True, 2**31, "4", 1.0)],
            ("first", "h"),
            ("function", "zgemm"),
            ("is_looped", 1),
            ("leads", 4),
        ],
    )
    def test_of_anything_else_is_none(self, field: str, value: object) -> None:
        with pytest.raises((ValueError, TypeError)):
            CublasProduct.of({**PRODUCT.spec(), field: value})

    def test_of_less_is_none(self) -> None:
        for name in PRODUCT.spec():
            with pytest.raises((LookupError, TypeError)):
                CublasProduct.of({key: value for key, value in PRODUCT.spec().items() if key != name})
