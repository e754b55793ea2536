"""Rewrites the assertions of each test file once in a run, and not once in each of its workers.

pytest rewrites them when it imports a file, which takes half of the time of collection. It keeps the result only where
Python may write bytecode, and the workers of a run on a fresh machine all begin with the same file at the same time.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

_rewrite = rewrite._rewrite_test  # it has no public name


def share(config: pytest.Config) -> None:
    """Rewrites this worker's share of the files. Other workers rewrite the others in the same time."""
    worker = getattr(config, "workerinput", None)
    if worker is None or config.option.assertmode != "rewrite":
        return
    folder = Path(config.option.basetemp).parent / "rewritten"
    folder.mkdir(exist_ok=True)

    def shared(path: Path, config: pytest.Config) -> Any:
        kept = folder / hashlib.sha256(str(path).encode()).hexdigest()
        with contextlib.suppress(OSError):
            return marshal.loads(kept.read_bytes())
        found = _rewrite(path, config)
        with contextlib.suppress(ValueError):  # pytest before 9.1 returns what cannot be stored so
            written = kept.with_suffix(f".{os.getpid()}")
            written.write_bytes(marshal.dumps(found))
            written.replace(kept)
        return found

    rewrite._rewrite_test = shared
    for path in sorted(_files(config))[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with contextlib.suppress(SyntaxError):  # collection reports it
            shared(path, config)


def _files(config: pytest.Config) -> Iterator[Path]:
    """Test files of the folders that this run collects."""
    for argument in config.args:
        folder = config.invocation_params.dir / argument.partition("::")[0]  # a test's name may be too long for a file
        if folder.is_dir():
            yield from folder.rglob("test_*.py")
