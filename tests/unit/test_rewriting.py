"""Workers of a run rewrite the assertions of each test file once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.assertion import rewrite

import rewriting


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives pytest its own function back."""
    monkeypatch.setattr(rewrite, "_rewrite_test", rewriting._rewrite)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "tests" / f"test_{name}.py" for name in "abcd"]
    found[0].parent.mkdir()
    for path in found:
        path.write_text(f"names = [{path.stem!r}]\nassert len(names) == 2\n")
    return found


def worker(number: int, tmp_path: Path, mode: str = "rewrite") -> Any:
    """Configuration of one of two workers."""
    return SimpleNamespace(
        workerinput={"workerid": f"gw{number}", "workercount": 2},
        option=SimpleNamespace(basetemp=str(tmp_path / f"popen-gw{number}"), assertmode=mode),
        args=["tests"],
        invocation_params=SimpleNamespace(dir=tmp_path),
        getini=lambda _: False,
    )


def test_a_worker_takes_what_another_one_rewrote(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten = list[Path]()

    def seen(path: Path, config: Any) -> Any:
        rewritten.append(path)
        return original(path, config)

    original = rewriting._rewrite
    monkeypatch.setattr(rewriting, "_rewrite", seen)
    for number in (0, 1):
        rewriting.share(worker(number, tmp_path))
    assert rewritten == [*files[::2], *files[1::2]]
    for path in files:
        _, code = rewrite._rewrite_test(path, worker(1, tmp_path))
        with pytest.raises(AssertionError, match=rf"assert 1 == 2\n \+  where 1 = len\(\['{path.stem}'\]\)"):
            exec(code, {})
    assert len(rewritten) == len(files)


@pytest.mark.parametrize("mode", ["plain", "rewrite"])
def test_nothing_is_rewritten_ahead_without_workers_or_rewriting(files: list[Path], tmp_path: Path, mode: str) -> None:
    config = worker(0, tmp_path, mode)
    if mode == "rewrite":
        del config.workerinput
    rewriting.share(config)
    assert rewrite._rewrite_test is rewriting._rewrite
    assert sorted(files[0].parent.iterdir()) == files
    assert [*tmp_path.iterdir()] == [files[0].parent]
