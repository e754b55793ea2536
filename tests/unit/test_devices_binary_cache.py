"""The cache of compiled programs: hits, damage, races, read-only folders."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import pickle
import tempfile
from pathlib import Path

import platformdirs
import pytest

from builders import binary
from warpsmith.devices.binary_cache import CachedCompiler, cache_folder
from warpsmith.devices.compiler import Binary, Compiler
from warpsmith.errors import CompileError
from warpsmith.generator.steps import Compilation


@dataclasses.dataclass(frozen=True)
class LoggingCompiler(Compiler):
    """A compiler that notes each compilation in a file, so that other processes' count too."""

    log: Path
    version: str = "1"

    @property
    def identity(self) -> str:
        return f"logging {self.version}"

    def compile(self, unit: Compilation) -> Binary:
        if "bad" in unit.source:
            raise CompileError("program.cu(1): error: bad")
        with self.log.open("a") as log:
            log.write("x")
        image = unit.source.encode() + b"\n\x00\xff" + b"image" * 10_000
        return binary(image, compiler=self.identity, shared_bytes=None)

    @property
    def compilations(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0


@pytest.fixture
def compiler(tmp_path: Path) -> LoggingCompiler:
    return LoggingCompiler(tmp_path / "log")


@pytest.fixture
def cached(compiler: LoggingCompiler, tmp_path: Path) -> CachedCompiler:
    return CachedCompiler(compiler, tmp_path / "cache")


def program(source: str) -> Compilation:
    return Compilation(source)


def only_file(cached: CachedCompiler) -> Path:
    (path,) = cached.folder.iterdir()
    return path


def test_the_second_time_nothing_is_compiled(cached: CachedCompiler, compiler: LoggingCompiler) -> None:
    first = cached.compile(program("a"))
    again = cached.compile(program("a"))
    assert again == first
    assert again.image == compiler.compile(program("a")).image
    assert compiler.compilations == 2  # the cached one and the one on the line above


def test_another_source_or_compiler_is_another_binary(cached: CachedCompiler, compiler: LoggingCompiler) -> None:
    cached.compile(program("a"))
    cached.compile(program("b"))
    newer = dataclasses.replace(cached, compiler=dataclasses.replace(compiler, version="2"))
    assert newer.compile(program("a")).compiler == "logging 2"
    assert compiler.compilations == 3
    assert cached.identity == compiler.identity


def _truncate(content: bytes) -> bytes:
    return content[:-7]


def _flip(content: bytes) -> bytes:
    return content[:-7] + bytes([content[-7] ^ 1]) + content[-6:]


def _more_registers(content: bytes) -> bytes:
    header, _, image = content.partition(b"\n")
    return json.dumps({**json.loads(header), "registers": 8}).encode() + b"\n" + image


def _empty(_: bytes) -> bytes:
    return b""


def _foreign(_: bytes) -> bytes:
    return b'["not", "ours"]\nimage'


def _binary_header(_: bytes) -> bytes:
    return b"\xff\xfe\n\x00"


def _nested(_: bytes) -> bytes:
    return b"[" * 100_000 + b"\nimage"


@pytest.mark.parametrize("damage", [_truncate, _flip, _more_registers, _empty, _foreign, _binary_header, _nested])
def test_a_damaged_file_is_replaced(cached: CachedCompiler, compiler: LoggingCompiler, damage: object) -> None:
    assert callable(damage)
    good = cached.compile(program("a"))
    path = only_file(cached)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert cached.compile(program("a")) == good
    assert compiler.compilations == 2
    assert only_file(cached).read_bytes() == whole


def test_a_user_without_a_home_folder_has_a_cache_beside_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object) -> str:
        raise RuntimeError("could not determine the home directory for '~/.cache'")

    monkeypatch.delenv("WARPSMITH_CACHE_DIR")
    for found in (raising, lambda *_: "~/.cache/warpsmith"):  # as newer and older platformdirs do
        monkeypatch.setattr(platformdirs, "user_cache_dir", found)
        assert cache_folder() == Path(tempfile.gettempdir()) / f"warpsmith-{os.geteuid()}" / "binaries"


def test_a_failed_compilation_leaves_nothing(cached: CachedCompiler) -> None:
    with pytest.raises(CompileError, match="error: bad"):
        cached.compile(program("bad"))
    assert not cached.folder.exists()


def test_a_folder_that_cannot_be_made_costs_only_the_memory(compiler: LoggingCompiler, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cached = CachedCompiler(compiler, tmp_path / "file" / "cache")
    assert cached.compile(program("a")) == cached.compile(program("a"))
    assert compiler.compilations == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to read-only folders")
def test_a_read_only_folder_still_serves_what_it_has(cached: CachedCompiler, compiler: LoggingCompiler) -> None:
    cached.compile(program("a"))
    cached.folder.chmod(0o500)
    try:
        cached.compile(program("a"))
        cached.compile(program("b"))
    finally:
        cached.folder.chmod(0o700)
    assert compiler.compilations == 2


def test_a_write_that_fails_leaves_no_file_behind(
    cached: CachedCompiler, compiler: LoggingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    cached.compile(program("a"))
    assert list(cached.folder.iterdir()) == []
    assert compiler.compilations == 1


def _compile_often(cached: CachedCompiler) -> bool:
    return all(cached.compile(program(source)).image.startswith(source.encode()) for source in "abcd" * 25)


def test_processes_share_one_folder(cached: CachedCompiler, compiler: LoggingCompiler) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_compile_often, [cached] * 4) == [True] * 4
    names = [path.name for path in cached.folder.iterdir()]
    assert len(names) == 4
    assert all(name.endswith(".bin") and not name.startswith(".") for name in names)
    # Each of four may find a program missing once; none compiles it twice.
    assert 4 <= compiler.compilations <= 16


def test_it_crosses_process_borders(cached: CachedCompiler) -> None:
    assert pickle.loads(pickle.dumps(cached)) == cached


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / "binaries"
    monkeypatch.delenv("WARPSMITH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "warpsmith" / "binaries"
