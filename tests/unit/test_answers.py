"""Answers that a later process reads from disk: which are still valid, and that they are unchanged."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warpsmith as ws
from builders import binary
from warpsmith.devices.binary_cache import CachedCompiler, cache_folder
from warpsmith.devices.compiler import Binary, Compiler
from warpsmith.devices.cuda import nvrtc_file
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.selection import Selection
from warpsmith.generator.steps import Compilation
from warpsmith.plans import answer_cache, lookup, make
from warpsmith.plans.answer_cache import Circumstances, answers_folder, cache_answer, cached_answer
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.changes import state_of
from warpsmith.store.store import Store

EXACT = Filter2d(image=(9216, 9216), filter=(3, 3))
NEAR = Filter2d(image=(6000, 6000), filter=(3, 3))
DEFAULT = Filter2d(image=(40, 40), filter=(2, 9), border="wrap", weights=tuple(range(18)), dtype="uint8")  # type: ignore[arg-type]
STATE = (("store.db", None),)


@dataclasses.dataclass(frozen=True)
class Counting(Compiler):
    """A compiler that compiles nothing and counts calls."""

    compiled: list[Compilation] = dataclasses.field(default_factory=list)

    @property
    def identity(self) -> str:
        return "counting 1"

    def compile(self, unit: Compilation) -> Binary:
        self.compiled.append(unit)
        return binary(b"code of " + unit.source.encode())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "answers"


@pytest.fixture
def nvrtc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Library file that this process appears to have loaded as NVRTC."""
    made = tmp_path / "libnvrtc.so.13"
    made.write_bytes(b"library")
    monkeypatch.setattr(answer_cache, "loaded_nvrtc", lambda: nvrtc_file.file_state(str(made)))
    return made


@pytest.fixture
def compiler() -> CachedCompiler:
    return CachedCompiler(Counting())


def circumstances(problem: Any = NEAR, **changes: Any) -> Circumstances:
    return dataclasses.replace(Circumstances(problem, H200, None, STATE), **changes)


def kept(compiler: CachedCompiler, problem: Any = NEAR) -> Match:
    match = look_up(problem, H200, None)
    compiler.compile_program(match.program)
    files = {name: compiler.file_name(unit) for name, unit in match.program.compilations().items()}
    cache_answer(circumstances(problem), match, files)
    return match


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(
    ("problem", "kind"), [(EXACT, MatchKind.EXACT), (NEAR, MatchKind.NEAR), (DEFAULT, MatchKind.DEFAULT)]
)
def test_an_answer_comes_back_as_it_was(compiler: CachedCompiler, problem: Any, kind: MatchKind) -> None:
    match = kept(compiler, problem)
    assert match.kind is kind
    found = cached_answer(circumstances(problem))
    assert found is not None
    assert found[0] == match
    assert found[0].program.fingerprint == match.program.fingerprint
    assert found[1] == compiler.compile_program(match.program)


CHANGES: dict[str, Callable[[pytest.MonkeyPatch, Path], Circumstances]] = {
    "problem": lambda *_: circumstances(EXACT),
    "device": lambda *_: circumstances(device=dataclasses.replace(H200, multiprocessors=114)),
    "store": lambda *_: circumstances(store="a.db"),
    "method": lambda *_: circumstances(selection=Selection("filter2d_plain")),
    "state": lambda *_: circumstances(state=(("store.db", (1, 2)),)),
}


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("change", CHANGES)
def test_another_question_has_another_answer(
    compiler: CachedCompiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    kept(compiler)
    assert cached_answer(circumstances()) is not None
    assert cached_answer(CHANGES[change](monkeypatch, tmp_path)) is None


def test_other_code_has_another_answer(compiler: CachedCompiler, monkeypatch: pytest.MonkeyPatch, nvrtc: Path) -> None:
    kept(compiler)
    with monkeypatch.context() as patch:
        patch.setattr(answer_cache, "code_state", lambda: "of another version")
        assert cached_answer(circumstances()) is None
    with monkeypatch.context() as patch:
        patch.setattr("sys.prefix", "/another/environment")
        assert cached_answer(circumstances()) is None
    assert cached_answer(circumstances()) is not None
    nvrtc.write_bytes(b"another library")
    assert cached_answer(circumstances()) is None
    nvrtc.unlink()
    assert cached_answer(circumstances()) is None


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("damage", ["cut", "altered", "empty", "nested", "no binary", "others may write"])
def test_what_is_damaged_is_no_answer(compiler: CachedCompiler, folder: Path, damage: str) -> None:
    kept(compiler)
    (file,) = folder.glob("*.json")
    content = file.read_bytes()
    match damage:
        case "cut":
            file.write_bytes(content[:-10])
        case "altered":
            file.write_bytes(content.replace(b"filter2d_window", b"filter2d_windov"))
        case "empty":
            file.write_bytes(b"")
        case "nested":
            file.write_bytes(content.partition(b"\n")[0] + b"\n" + b"[" * 100_000)
        case "no binary":
            for each in cache_folder().iterdir():
                each.unlink()
        case _:
            file.chmod(0o666)
    if damage == "others may write":
        with pytest.warns(UserWarning, match="other users own or may write"):
            assert cached_answer(circumstances()) is None
    else:
        assert cached_answer(circumstances()) is None


def test_without_nvrtc_nothing_is_kept(compiler: CachedCompiler, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(answer_cache, "loaded_nvrtc", lambda: None)
    kept(compiler)
    assert not folder.exists()


@pytest.mark.usefixtures("nvrtc")
def test_the_older_half_goes_where_there_are_many(
    compiler: CachedCompiler, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(answer_cache, "_MOST_FILES", 4)
    match = look_up(NEAR, H200, None)
    compiler.compile_program(match.program)
    files = {name: compiler.file_name(unit) for name, unit in match.program.compilations().items()}
    for n in range(5):
        cache_answer(circumstances(store=f"{n}.db"), match, files)
        for file in folder.iterdir():
            status = file.stat()
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))
    assert len(list(folder.glob("*.json"))) == 3
    assert cached_answer(circumstances(store="4.db")) is not None
    assert cached_answer(circumstances(store="0.db")) is None
    assert answers_folder() == folder


class TestCodeState:
    @pytest.fixture
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        made = tmp_path / "a_package_of_code"
        (made / "inner").mkdir(parents=True)
        for name in ("__init__.py", "inner/a.cu.jinja", "inner/b.py", "c.db"):
            (made / name).write_text("a")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(answer_cache, "_PACKAGES", (made.name,))
        return made

    def test_sees_every_file_of_code_and_no_other(self, package: Path) -> None:
        states = [answer_cache.code_state_now()]
        for name in ("inner/a.cu.jinja", "inner/b.py", "__init__.py", "new.py"):
            (package / name).write_text("b")
            states.append(answer_cache.code_state_now())
        assert len({*states, None}) == len(states) + 1
        (package / "c.db").write_text("bb")
        (package / "__pycache__").mkdir()
        (package / "__pycache__" / "a.py").write_text("")
        assert answer_cache.code_state_now() == states[-1]

    def test_a_time_that_is_set_back_does_not_hide_a_change(self, package: Path) -> None:
        file, before = package / "inner" / "b.py", answer_cache.code_state_now()
        status = file.stat()
        file.write_text("b")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert answer_cache.code_state_now() != before

    def test_covers_the_generator_and_the_templates(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []
        real = answer_cache._files_in
        monkeypatch.setattr(answer_cache, "_files_in", lambda folder: seen.extend(real(folder)) or ())
        assert answer_cache.code_state_now()
        told = "".join(seen)
        for name in ("filter2d/window_family.py", "fft/common.cu.jinja", "plans/lookup.py", "store/record.py"):
            assert name in told


class TestPlans:
    """Plans from start to end, on a GPU that runs nothing."""

    @pytest.fixture
    def counting(self, monkeypatch: pytest.MonkeyPatch, nvrtc: Path) -> Counting:  # noqa: ARG002
        counting = Counting()
        module = SimpleNamespace(bind=lambda *_: None, close=lambda: None)
        runtime = SimpleNamespace(
            device=H200,
            ordinal=0,
            check_process=lambda: None,
            load=lambda _: module,
            compiled_launches=lambda *_: None,
            soft_facts=lambda _: {"driver": "1.0", "toolkit": "nvrtc 13.0"},
        )
        ref = DeviceRef(DeviceKind.CUDA)
        monkeypatch.setattr(DeviceRef, "parse", lambda _: ref)
        monkeypatch.setattr(DeviceRef, "device", lambda _: H200)
        monkeypatch.setattr(DeviceRef, "compiler", lambda *_: CachedCompiler(counting))
        monkeypatch.setattr(make, "open_runtime", lambda _: runtime)
        return counting

    @pytest.fixture
    def looked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Keys of the problems that were looked up."""
        made: list[str] = []
        real = lookup.look_up_wholly
        monkeypatch.setattr(lookup, "look_up_wholly", lambda *given: (made.append(given[0].key()), real(*given))[1])
        return made

    def test_a_later_process_looks_nothing_up(self, counting: Counting, looked: list[str]) -> None:
        with pytest.warns(make.StaleTiming, match=r"taken with driver .*, here is 1\.0"):
            first = ws.plan(NEAR, "cuda:0")
        make.forget_plans()  # as a new process
        with pytest.warns(make.StaleTiming, match=r"taken with driver .*, here is 1\.0") as caught:
            second = ws.plan(NEAR, "cuda:0")
        assert caught[0].filename == __file__
        assert second is not first
        assert (second.match, second.binaries) == (first.match, first.binaries)
        assert (len(looked), len(counting.compiled)) == (1, 1)

    @pytest.mark.filterwarnings("ignore::warpsmith.plans.make.StaleTiming")
    @pytest.mark.usefixtures("counting")
    def test_what_was_stored_meanwhile_is_looked_up(self, looked: list[str], own_folders: Path) -> None:
        ws.plan(NEAR, "cuda:0")
        make.forget_plans()
        own = own_folders / "data" / "warpsmith" / "store.db"
        own.parent.mkdir(parents=True)
        Store.open(str(own), write=True).close()
        ws.plan(NEAR, "cuda:0")
        assert len(looked) == 2
        assert state_of(None) is not None

    @pytest.mark.filterwarnings("ignore::warpsmith.plans.make.StaleTiming")
    @pytest.mark.usefixtures("counting")
    def test_an_answer_without_a_damaged_store_is_not_kept(self, looked: list[str], own_folders: Path) -> None:
        own = own_folders / "data" / "warpsmith" / "store.db"
        own.parent.mkdir(parents=True)
        own.write_bytes(b"no database" * 100)
        for _ in range(2):
            make.forget_plans()
            with pytest.warns(UserWarning, match="going on without this store"):
                ws.plan(NEAR, "cuda:0")
        assert len(looked) == 2
