"""Exclusive use of one device between processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.devices.binary_cache import locks_folder
from warpsmith.devices.private_folder import UntrustedCache
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.evaluate.device_lock import DeviceLock, shared_device

PATIENCE_S = 20.0
HOLD = """
import sys
from pathlib import Path
from warpsmith.tuner.evaluate.device_lock import DeviceLock

with DeviceLock(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.readline()
print("given back", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.touch()
    return path


@pytest.fixture
def holder(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until it reads a line."""
    command = [sys.executable, "-c", HOLD, str(file)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "mine\n"
    yield process
    process.kill()
    process.communicate()


class Waiter(threading.Thread):
    """A thread that takes the lock as soon as it can."""

    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self._lock, self.has_it = DeviceLock(file), threading.Event()
        self.start()

    def run(self) -> None:
        with self._lock:
            self.has_it.set()


def test_another_process_is_waited_for(file: Path, holder: subprocess.Popen[str]) -> None:
    waiter = Waiter(file)
    assert not waiter.has_it.wait(0.3)
    assert holder.stdin is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert waiter.has_it.wait(PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_dies_gives_its_lock_back(
    file: Path, holder: subprocess.Popen[str], number: signal.Signals
) -> None:
    waiter = Waiter(file)
    assert not waiter.has_it.wait(0.1)
    holder.send_signal(number)
    assert waiter.has_it.wait(PATIENCE_S)


def test_what_a_holder_started_does_not_hold_it(file: Path) -> None:
    """A compiler or a library's helper may outlive a candidate."""
    with DeviceLock(file):
        child = subprocess.Popen(["sleep", "600"])
    try:
        assert Waiter(file).has_it.wait(PATIENCE_S)
    finally:
        child.kill()
        child.wait()


def test_it_can_be_taken_again_and_again_also_after_an_error(file: Path) -> None:
    lock, open_before = DeviceLock(file), len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no files of ours
    for _ in range(3):
        with pytest.raises(KeyError), lock:
            raise KeyError
        with lock:
            pass
    assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208
    assert Waiter(file).has_it.wait(PATIENCE_S)


def test_two_of_one_process_exclude_each_other(file: Path) -> None:
    with DeviceLock(file):
        waiter = Waiter(file)
        assert not waiter.has_it.wait(0.2)
    assert waiter.has_it.wait(PATIENCE_S)


def test_without_a_file_nobody_waits() -> None:
    start = time.monotonic()
    with DeviceLock(None), DeviceLock(None):
        pass
    assert time.monotonic() - start < 1


def test_is_taken_in_the_end_from_one_that_never_gives_it_back(
    file: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.tuner.evaluate.device_lock.PATIENCE_S", 0.2)
    start = time.monotonic()
    with DeviceLock(file):
        assert 0.2 <= time.monotonic() - start < PATIENCE_S
    assert holder.poll() is None


class TestSharedDevice:
    GPU, SAME, OTHER = (DeviceRef(DeviceKind.CUDA, ordinal) for ordinal in range(3))

    @pytest.fixture(autouse=True)
    def places(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Ordinals of two processes with different CUDA_VISIBLE_DEVICES."""
        bus_ids = ("0000:3b:00.0", "0000:3b:00.0", "0000:5e:00.0")
        monkeypatch.setattr(DeviceRef, "bus_id", lambda ref: bus_ids[ref.ordinal])
        monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path / "cache"))

    def test_runs_on_one_gpu_take_turns_and_those_on_two_do_not(self) -> None:
        with shared_device(self.GPU) as lock_file, shared_device(self.SAME) as same, shared_device(self.OTHER) as other:
            assert lock_file is not None
            assert lock_file == same != other
            with DeviceLock(lock_file):
                assert not Waiter(lock_file).has_it.wait(0.2)

    def test_the_file_stays_for_the_next_run(self) -> None:
        with shared_device(self.GPU) as lock_file:
            assert lock_file is not None
        assert lock_file.parent == locks_folder()
        assert lock_file.is_file()

    def test_without_a_folder_of_its_own_a_run_keeps_to_itself(self) -> None:
        locks_folder().mkdir(parents=True)
        locks_folder().chmod(0o777)
        with contextlib.ExitStack() as stack:
            with pytest.warns(UntrustedCache, match="disturb each other"):
                lock_file = stack.enter_context(shared_device(self.GPU))
            other = stack.enter_context(shared_device(self.GPU))
            assert lock_file is not None
            assert lock_file.is_file()
            assert lock_file != other
        assert not lock_file.exists()


def test_nothing_stands_for_the_host() -> None:
    with shared_device(DeviceRef(DeviceKind.HOST)) as lock_file:
        assert lock_file is None
