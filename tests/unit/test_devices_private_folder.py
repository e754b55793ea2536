"""Caches of compiled programs that another user owns or can write: none of their files is loaded."""

from __future__ import annotations

import dataclasses
import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import binary
from warpsmith.devices.binary_cache import CachedCompiler, cache_folder
from warpsmith.devices.compiler import Binary, BinaryKind, Compiler
from warpsmith.devices.private_folder import UntrustedCache
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.steps import Compilation
from warpsmith.tuner.evaluate.device_lock import DeviceLock, shared_device

STRANGER = os.geteuid() + 4242
PROGRAM = Compilation("a")

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")


@dataclasses.dataclass(frozen=True)
class CountingCompiler(Compiler):
    log: Path

    @property
    def identity(self) -> str:
        return "counting 1"

    def compile(self, unit: Compilation) -> Binary:
        with self.log.open("a") as log:
            log.write("x")
        return binary(f"ours: {unit.source}".encode(), BinaryKind.LIBRARY, compiler=self.identity)

    @property
    def compilations(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0


@pytest.fixture
def compiler(tmp_path: Path) -> CountingCompiler:
    return CountingCompiler(tmp_path / "log")


@pytest.fixture
def cached(compiler: CountingCompiler, tmp_path: Path) -> CachedCompiler:
    """A cache that holds PROGRAM, compiled once."""
    made = CachedCompiler(compiler, tmp_path / "cache" / "binaries")
    made.compile(PROGRAM)
    return made


def entry(cached: CachedCompiler) -> Path:
    (path,) = cached.folder.iterdir()
    return path


def own_by_stranger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


def refused(cached: CachedCompiler) -> str:
    """Warning of a cache that is not read; the same one however often the cache is used."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            assert cached.cached(PROGRAM) is None
            assert cached.compile(PROGRAM).image == b"ours: a"
    (warning,) = told
    assert issubclass(warning.category, UntrustedCache)
    message = str(warning.message)
    assert "\n" not in message
    assert str(cached.folder) in message
    return message


@pytest.mark.filterwarnings("error")
def test_what_is_made_is_private_whatever_the_umask(compiler: CountingCompiler, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cached = CachedCompiler(compiler, tmp_path / "home" / "cache" / "binaries")
        cached.compile(PROGRAM)
    finally:
        os.umask(before)
    for folder in (cached.folder, cached.folder.parent, cached.folder.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(cached).stat().st_mode) == 0o600
    assert cached.cached(PROGRAM) is not None
    assert compiler.compilations == 1


def test_a_folder_of_another_user(
    cached: CachedCompiler, compiler: CountingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for root's process too: another user's cache is not root's."""
    before = entry(cached).read_bytes()
    own_by_stranger(cached.folder, monkeypatch)
    message = refused(cached)
    assert "belongs to another user" in message
    assert "set WARPSMITH_CACHE_DIR to a folder of your own" in message
    assert compiler.compilations == 1 + 3
    assert entry(cached).read_bytes() == before


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777, 0o2775])
def test_a_folder_that_others_may_write(cached: CachedCompiler, compiler: CountingCompiler, mode: int) -> None:
    cached.folder.chmod(mode)
    message = refused(cached)
    assert f"may be written by other users (mode {mode:04o})" in message
    assert f"chmod go-w {cached.folder}, or set WARPSMITH_CACHE_DIR" in message
    assert compiler.compilations == 1 + 3
    cached.folder.chmod(0o700)
    assert cached.cached(PROGRAM) is not None


@pytest.mark.filterwarnings("error")
def test_a_folder_that_others_may_read_is_good(cached: CachedCompiler) -> None:
    cached.folder.chmod(0o755)
    assert cached.cached(PROGRAM) is not None


@only_root
def test_a_file_of_another_user(cached: CachedCompiler, compiler: CountingCompiler) -> None:
    os.chown(entry(cached), STRANGER, -1)
    self_mending(cached, compiler)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write(cached: CachedCompiler, compiler: CountingCompiler, mode: int) -> None:
    entry(cached).chmod(mode)
    self_mending(cached, compiler)


def self_mending(cached: CachedCompiler, compiler: CountingCompiler) -> None:
    """The file is warned of once, compiled anew, and then belongs to the user again."""
    with pytest.warns(UntrustedCache, match="are compiled anew"):
        assert cached.compile(PROGRAM).image == b"ours: a"
    assert compiler.compilations == 2
    assert entry(cached).stat().st_uid == os.geteuid()
    assert cached.cached(PROGRAM) is not None


@pytest.mark.parametrize("other", ["link", "pipe", "folder"])
def test_what_is_no_file_of_its_own(cached: CachedCompiler, compiler: CountingCompiler, other: str) -> None:
    path = entry(cached)
    path.rename(cached.folder.parent / "elsewhere")
    make: dict[str, Callable[[], None]] = {
        "link": lambda: path.symlink_to(cached.folder.parent / "elsewhere"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    make[other]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cached.cached(PROGRAM) is None
        assert cached.compile(PROGRAM).image == b"ours: a"
    assert compiler.compilations == 2


def test_a_file_under_another_programs_name(cached: CachedCompiler, compiler: CountingCompiler) -> None:
    """Others could write to the folder for a while, so even our own files may have been swapped."""
    first = entry(cached)
    other = Compilation("b")
    cached.compile(other)
    (second,) = set(cached.folder.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    assert cached.compile(other).image == b"ours: b"
    assert compiler.compilations == 3


def test_the_folder_of_the_environment_is_looked_at_too(
    compiler: CountingCompiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path / "shared"))
    cache_folder().mkdir(parents=True)
    cache_folder().chmod(0o777)
    cached = CachedCompiler(compiler)
    assert str(cache_folder()) in refused(cached)
    assert list(cached.folder.iterdir()) == []


def test_the_file_by_which_processes_take_turns_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceRef, "bus_id", lambda _: "0000:3b:00.0")
    with shared_device(DeviceRef(DeviceKind.CUDA)) as lock_file:
        assert lock_file is not None
        status = lock_file.lstat()
        assert stat.S_ISREG(status.st_mode)
        assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o600, os.geteuid())
        (tmp_path / "link").symlink_to(lock_file)
        with pytest.raises(OSError, match="symbolic link"), DeviceLock(tmp_path / "link"):
            pass
