"""The bench of finalists: it is prepared beside the search and never delays it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError
from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.evaluate import evaluator
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.workers.deadlines import Deadlines

PATIENCE_S = 20.0
GPU = DeviceRef(DeviceKind.CUDA, 1)
POLICY = TimingPolicy.for_kind(DeviceKind.CUDA)


class FakeBench(Bench):
    """A bench that takes `opens_in` seconds to open, unless it is interrupted."""

    def __init__(self, *arguments: Any, lock_file: Path | None = None, **options: Any) -> None:
        super().__init__(*(arguments or (GPU, "compiler", "problem", 0, POLICY, Deadlines())), sanitize=False)
        self.arguments, self.lock_file, self.options = arguments, lock_file, options
        self.log: list[str] = []
        self.open_error: Exception | None = None
        self.before_it_starts, self.opens_in = 0.0, 0.0
        self._is_opening, self._interrupted = threading.Event(), threading.Event()
        self.seeds: list[int] = []

    def _ensure_open(self) -> None:
        time.sleep(self.before_it_starts)  # there is no process yet, which an interrupt could strike
        self._is_opening.set()
        if self._interrupted.wait(self.opens_in):
            raise DeviceError("killed by SIGKILL")
        if self.open_error:
            raise self.open_error
        self.log.append("opened")

    def prepare_peers(self) -> None:
        self.log.append("peers")

    def renew(self, seed: int) -> None:
        self.seeds.append(seed)

    def interrupt(self) -> None:
        if self._is_opening.is_set():
            self._interrupted.set()

    def close(self) -> None:
        super().close()
        self.log.append("closed")


class Shop:
    """The part of an evaluator that the final bench needs."""

    _renewed = Evaluator._renewed

    def __init__(self) -> None:
        self.bench = FakeBench()
        self.compiler, self.problem = "compiler", "problem"
        self.lock_file: Path | None = None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeBench]:
    """Benches that are made."""
    return made_with(monkeypatch, lambda _: None)


def made_with(monkeypatch: pytest.MonkeyPatch, change: Callable[[FakeBench], None]) -> list[FakeBench]:
    made: list[FakeBench] = []

    def make(*arguments: Any, **options: Any) -> FakeBench:
        made.append(FakeBench(*arguments, **options))
        change(made[-1])
        return made[-1]

    monkeypatch.setattr(evaluator, "Bench", make)
    return made


def beside(shop: Shop, lock_file: Path | None) -> Any:
    shop.lock_file = lock_file
    return Evaluator.final_bench(shop, GPU, 7, POLICY, Deadlines())  # type: ignore[arg-type]


def test_the_search_s_own_bench_draws_fresh_data_where_there_is_no_other(made: list[FakeBench]) -> None:
    shop = Shop()
    with beside(shop, None) as opened:
        assert shop.bench.seeds == []  # not before the search is over
        assert opened() is shop.bench
        assert shop.bench.seeds == [7]
    assert made == []
    assert shop.bench.log == []


def test_a_bench_of_its_own_is_made_ready_meanwhile(made: list[FakeBench], tmp_path: Path) -> None:
    shop = Shop()
    with beside(shop, tmp_path / "lock") as opened:
        (bench,) = made
        assert bench.arguments == (GPU, "compiler", "problem", 7, POLICY, Deadlines())
        assert bench.lock_file == tmp_path / "lock"
        assert bench.options == {"sanitize": False, "finals": True, "worker": None}
        assert opened() is bench
        assert bench.log == ["opened", "peers"]
    assert bench.log == ["opened", "peers", "closed"]
    assert shop.bench.seeds == []


def test_it_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = made_with(monkeypatch, lambda bench: setattr(bench, "opens_in", 0.4))
    start = time.monotonic()
    with beside(Shop(), tmp_path / "lock") as opened:
        assert time.monotonic() - start < 0.3  # while the search goes on
        assert opened() is made[0]
        assert made[0].log == ["opened", "peers"]


def test_where_it_cannot_be_made_ready_the_search_s_own_takes_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A GPU without memory for both benches is the usual cause."""
    made = made_with(monkeypatch, lambda bench: setattr(bench, "open_error", DeviceError("out of memory")))
    shop = Shop()
    with beside(shop, tmp_path / "lock") as opened:
        assert opened() is shop.bench
        assert made[0].log == ["closed"]  # it gave back its resources
        assert shop.bench.seeds == [7]


@pytest.mark.parametrize("before_it_starts", [0.0, 0.3])
@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_leaving_does_not_wait_until_it_is_ready(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: type[BaseException] | None, before_it_starts: float
) -> None:
    """Leaving may be so early that no process exists yet."""

    def slow(bench: FakeBench) -> None:
        bench.opens_in, bench.before_it_starts = PATIENCE_S, before_it_starts

    made = made_with(monkeypatch, slow)
    start = time.monotonic()
    try:
        with beside(Shop(), tmp_path / "lock"):
            if error:
                raise error
    except KeyboardInterrupt:
        assert error
    assert time.monotonic() - start < PATIENCE_S / 2
    assert made[0].log == ["closed"]
