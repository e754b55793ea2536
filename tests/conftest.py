"""Fixtures for every test: its own folders, a skip for tests that need a GPU, and a PostgreSQL server on request."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# Set before NumPy is imported. One thread per core computes references with its own matrix products, but OpenBLAS
# shares one set of threads among all callers. A gradient of 80 million multiply-adds took 32 s on two busy cores, and
# now takes 0.4 s.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# PyTorch's threads wait for each other in a loop. Three small layers' derivatives took 7.3 s of processor time on two
# busy cores, and now take 0.6 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import exhaustive
import forking
import precompiled
import rewriting
from builders import rewritten
from pairs import covering
from postgres_server import USER, PostgresServer, folder_for_data
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.filter2d.problem import ACCURACIES
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType, NonFinite, Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.store.store import Store
from warpsmith.workers import worker

FAULTS = {
    "none": "",
    "out-of-bounds": "if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) results[-3] = 1.0f;",
    "never-ends": "for (volatile int i = 0; i >= 0; i = 0) {}",
    "wrong": "sums[f] += 1.0f;",
    "does-not-compile": "this is no CUDA;",
    "reads-outside": "if (blockIdx.x == 0) sums[f] += 0.0f * plane.pixels[kRows * kColumns];",
    "crashes": "*reinterpret_cast<volatile int*>(8) = 1;",
}


FACTORS: dict[str, Sequence[Any]] = {
    "border": list(Border),
    # Image and filter: single pixels and rows, odd and even sizes, filters as large as the image or larger.
    "sizes": [
        ((1, 1), (1, 1)),
        ((1, 1), (3, 4)),
        ((1, 37), (1, 5)),
        ((29, 1), (4, 1)),
        ((5, 7), (5, 7)),
        ((6, 9), (8, 21)),
        ((53, 141), (3, 3)),
        ((40, 164), (2, 5)),
        ((70, 250), (7, 4)),
        ((45, 97), (23, 17)),
    ],
    "dtypes": [
        (DType.FLOAT32, None),
        (DType.FLOAT16, None),
        (DType.UINT8, None),
        (DType.FLOAT16, DType.FLOAT32),
        (DType.FLOAT32, DType.UINT8),
        (DType.UINT8, DType.FLOAT16),
    ],
    "channels": [1, 2, 3, 4],
    "filters": [1, 2, 5, 19],
    "planes": [1, 3],
    "accuracy": list(ACCURACIES),
    "nonfinite": list(NonFinite),
    "convolve": [False, True],
    "anchor": ["centre", "first", "last"],
    # Elements between the rows of image and result. "aligned" pads to a multiple of 32 bytes, as 2-D textures require.
    "gaps": [(0, 0), (3, 0), (0, 5), (1, 2), ("aligned", "aligned")],
    "weights": ["given", "known"],
}


def is_problem(case: Mapping[str, Any]) -> bool:
    """Whether one problem can combine these values of some or all FACTORS."""
    valid = case.get("border") is Border.VALID
    (rows, columns), (r, s) = case.get("sizes", ((9, 9), (1, 1)))
    return not (valid and (r > rows or s > columns or case.get("anchor", "centre") != "centre"))


def filter2d_of(case: Mapping[str, Any]) -> Filter2d:
    """Problem with the given values of all FACTORS."""
    (image, size), (dtype, result_dtype) = case["sizes"], case["dtypes"]
    known = [(i * 5 % 7 - 3) / 8 for i in range(case["filters"] * size[0] * size[1])]  # every seventh is 0
    free = Filter2d(
        image=image,
        filter=size,
        border=case["border"],
        dtype=dtype,
        result_dtype=result_dtype,
        cval=-1.5,
        anchor={"centre": None, "first": (0, 0), "last": (size[0] - 1, size[1] - 1)}[case["anchor"]],
        weights=tuple(known) if case["weights"] == "known" else None,
        **{name: case[name] for name in ("channels", "filters", "planes", "convolve", "accuracy", "nonfinite")},
    )
    pixel, result_pixel = (each.dtype.itemsize * free.channels for each in (free.operands[0], free.output))
    return dataclasses.replace(
        free,
        pitch=row_pitch(image[1] * pixel, free.dtype, case["gaps"][0]),
        result_pitch=row_pitch(free.output_shape[1] * result_pixel, free.output.dtype, case["gaps"][1]),
    )


def row_pitch(dense: int, dtype: DType, gap: int | str) -> int:
    """Bytes from row to row if a row's elements take `dense` bytes."""
    return -(-dense // 32) * 32 if gap == "aligned" else dense + int(gap) * dtype.itemsize


class PlantedFamily(Family):
    """The plain family with a chosen fault in its kernel."""

    name = "planted"
    faults = tuple(FAULTS)
    _plain = Filter2dPlain()

    def __init__(self, *faults: str) -> None:
        self._faults = faults

    def why_not(self, problem: Problem, device: Device) -> str | None:
        return self._plain.why_not(problem, device)

    def space(self, problem: Problem, device: Device) -> Space:  # noqa: ARG002
        return Space((Parameter("fault", self._faults, "what is wrong with it"),), ())

    def default(self, problem: Problem, device: Device) -> Config:  # noqa: ARG002
        return Config.of({"fault": self._faults[0]})

    def program(self, problem: Problem, config: Config) -> Program:
        program = self._plain.program(problem, self._plain.default(problem, H200))
        before = "        results[f * (kOutputRows"
        assert program.source.count(before) == 1
        source = program.source.replace(before, f"        {FAULTS[config.text('fault')]}\n{before}")
        return rewritten(program, source, family=self.name, config=config)


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that all processes of one test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New paths, one for each test of this process. `mktemp` would search the folders of all earlier tests for a free
    number, which takes 3 ms for the last of 4000 tests.
    """
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_folders(common_folder: Path, homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hides the user's store and plans of other tests from a test. Tests of one run share compiled binaries."""
    if made := sys.modules.get("warpsmith.plans.make"):
        made.forget_plans()
    if operators := sys.modules.get("warpsmith.torch.answers"):
        operators.forget()
    home = next(homes)
    home.mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(common_folder / "binaries"))
    monkeypatch.delenv("WARPSMITH_STORE", raising=False)
    # Tests check all results themselves. Tests of the check at first use set this variable.
    monkeypatch.setenv("WARPSMITH_VERIFY", "never")
    return home


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Keeps 14,000 live tests from the garbage collector, which spent 6 s of collection and 2% of the tests on them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    exhaustive.take_request(config)
    rewriting.share(config)
    forking.fork_workers()


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    exhaustive.mark(items)
    from warpsmith.devices.cuda.available import cuda_device_count

    if "samples" not in config.option.markexpr:
        for item in items:
            if item.get_closest_marker("samples"):
                item.add_marker(pytest.mark.skip(reason="a tenth of it is done by another test; -m samples does all"))
    if cuda_device_count() > 0:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no GPU with the cuda extra here"))


@pytest.fixture(scope="session")
def precompiled_folder(common_folder: Path) -> Path:
    return common_folder / "precompiled"


@pytest.fixture(scope="session")
def quickest(precompiled_folder: Path) -> HostCompiler:
    """Host compiler without optimisation, for 700 kernels that run for no noticeable time even so."""
    folder = precompiled_folder / "unoptimised" / "binaries"
    precompiled.script(precompiled_folder, "-O0", sanitize=True)
    return precompiled.RememberingCompiler(precompiled.script(precompiled_folder, "-O0"), folder=folder)


@pytest.fixture
def start_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts the workers of searches in a test as users' searches do. In other tests they are forked."""
    monkeypatch.setattr(worker, "_popen", subprocess.Popen)


@pytest.fixture
def compile_unoptimised(quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles without optimisation in a test and in the processes that it starts. g++ then takes 0.13 s for a
    kernel of a few lines; with -O3 it takes 0.41 s, most of it for the headers.
    """
    monkeypatch.setenv("CXX", str(quickest.executable))


@pytest.fixture(scope="session")
def spread() -> tuple[Filter2d, ...]:
    """Image filters that combine every two values of two FACTORS; the full product would be 10^5 problems. Also images
    wide enough for a warp that owns 128 outputs of a row, because the others are narrower.
    """
    wide = (
        filter2d
        for border in Border
        for filter2d in (
            Filter2d((19, 300), (3, 5), dtype="uint8", border=border, cval=1.5),
            Filter2d(
                image=(13, 142),
                filter=(4, 2),
                dtype="float16",
                border=border,
                planes=2,
                channels=2,
                convolve=True,
                nonfinite=NonFinite.ANY,
            ),
        )
    )
    return (*(filter2d_of(case) for case in covering(FACTORS, is_problem)), *wide)


@pytest.fixture
def planted() -> type[PlantedFamily]:
    """Makes a family of kernels with faults: `planted("none", "wrong")`. `planted.faults` lists all faults."""
    return PlantedFamily


@pytest.fixture(scope="module")
def importable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], ModuleType]]:
    """Makes a module that worker processes can import, unlike test files: `importable(name, text)`. The folder of its
    `__file__` must be in their PYTHONPATH.
    """
    made: list[str] = []
    with pytest.MonkeyPatch.context() as patch:

        def make(name: str, text: str) -> ModuleType:
            folder = tmp_path_factory.mktemp(name)
            (folder / f"{name}.py").write_text(text)
            patch.syspath_prepend(str(folder))
            made.append(name)
            return importlib.import_module(name)

        yield make
    for name in made:
        sys.modules.pop(name, None)


@pytest.fixture
def document(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """JSON document that a successful command prints with --json."""

    def call(*arguments: str) -> Any:
        from warpsmith.cli.app import run

        assert run([*arguments, "--json"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        return json.loads(shown.out)

    return call


MISSING = "no PostgreSQL server in /usr/lib/postgresql: apt-get install postgresql"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """A running server. If none is installed, tests that use it are skipped, or fail if CI is set."""
    installed = [*Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if not installed:
        (pytest.fail if "CI" in os.environ else pytest.skip)(MISSING)
    newest = max(installed, key=lambda each: int(each.parts[-3]))
    folder = folder_for_data()
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        server = PostgresServer(newest.parent, folder)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def database(postgresql: PostgresServer) -> Iterator[str]:
    """The URL of an empty database on a running server."""
    with _database(postgresql) as url:
        yield url


@contextlib.contextmanager
def _database(server: PostgresServer, options: str = "") -> Iterator[str]:
    server.start()
    name = server.new_database(options)
    yield server.url(name)
    server.start()
    # Hundreds of databases would fill the disk's cache and delay the next sync of any program.
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def made_database(postgresql: PostgresServer) -> str:
    """Name of a database with an empty store. Making its tables takes far longer than copying them."""
    postgresql.start()
    name = postgresql.new_database()
    with Store.open(postgresql.url(name), write=True):
        return name


@pytest.fixture
def database_with_store(postgresql: PostgresServer, made_database: str) -> Iterator[str]:
    """The URL of an empty store on a running server."""
    with _database(postgresql, f"TEMPLATE {made_database}") as url:
        yield url


@pytest.fixture(scope="session")
def made_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File with an empty store, to be copied, because making its tables takes 20 ms."""
    path = tmp_path_factory.mktemp("made") / "empty.db"
    with Store.open(str(path), write=True):
        return path


BLOCK = re.compile(r"(?:<!-- on a GPU: (?P<gpu>\w+) -->\n)?```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
"""Python block in a page. The comment before it names the library whose arrays it needs on a GPU."""
CLAIM = re.compile(r"^(?P<name>\w+) = .*  # (?P<expected>(?:numpy|scipy)\..*?\))(?:: .*)?$", re.MULTILINE)
"""Line with the NumPy or SciPy equivalent in a comment: `y = f(x, w)  # scipy.ndimage.correlate(x, w)`."""


@dataclasses.dataclass(frozen=True)
class CodeBlock:
    """A block of Python in a page of the documentation."""

    code: str
    gpu: str | None

    def run(self, names: dict[str, Any]) -> int:
        """Runs the block, compares its values with those in its comments, and returns the number of such comments."""
        import numpy as np

        exec(compile(self.code, "<documentation>", "exec"), names)
        importlib.import_module("scipy.ndimage")
        importlib.import_module("scipy.signal")
        libraries = {name: importlib.import_module(name) for name in ("numpy", "scipy")}
        claims = list(CLAIM.finditer(self.code))
        for claim in claims:
            expected = np.asarray(eval(claim["expected"], {**names, **libraries}))
            result = names[claim["name"]]
            assert result.shape == expected.shape, claim[0]
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * abs(expected).max(), err_msg=claim[0])
        return len(claims)


@pytest.fixture(scope="session")
def code_blocks() -> Callable[[str], list[CodeBlock]]:
    """Finds the Python blocks of a page, given its path from the repository's root."""

    def blocks(page: str) -> list[CodeBlock]:
        text = (Path(__file__).parent.parent / page).read_text()
        return [CodeBlock(block["code"], block["gpu"]) for block in BLOCK.finditer(text)]

    return blocks


def _index(text: str, names: dict[str, int]) -> int:
    functions: dict[str, Callable[[int, int], int]] = {
        "quotient": lambda divisor, number: number * (0xFFFFFFFF // divisor + 1) >> 32,
        "modulo": lambda divisor, number: number - (number * (0xFFFFFFFF // divisor + 1) >> 32) * divisor,
    }
    text = re.sub(r"(quotient|modulo)<(\d+)>\(", r"\1(\2, ", text)
    # CUDA's integer division equals Python's // if no operand is negative.
    text = re.sub(r"(?<=\d)u\b", "", text).replace("/", "//")
    return int(eval(text, functions, names))


@pytest.fixture(scope="session")
def index() -> Callable[[str, dict[str, int]], int]:
    """Evaluates a generated text's index expression for given variables. Division is that of `shared/fft.cu.jinja`."""
    return _index
