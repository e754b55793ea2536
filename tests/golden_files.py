"""Golden files: generated CUDA that a person has reviewed, with which tests compare what is generated now.

`NAME.cu` is a whole text. `NAME.diff` is a diff from a whole text of the same folder (golden_diff.py says how to read
it), so lines that many texts share are stored and reviewed once. `WARPSMITH_UPDATE_GOLDEN=1 pytest tests/golden`
rewrites the files. An update keeps the form and the base of each text:

- To change a base, edit the first line of the `.diff` file and update.
- To make a diff a whole text, create an empty `NAME.cu` and update.
- To let the update choose, as it does for a new case, delete the file and update.

`python tests/golden_files.py tests/golden/conv2d/direct_fprop` prints the reviewed text of that name.
"""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from golden_diff import DoesNotApply, apply_diff, base_of, make_diff

UPDATE = "WARPSMITH_UPDATE_GOLDEN"
_HOW_TO_UPDATE = f"If the change is intended: {UPDATE}=1 pytest tests/golden"
_SHOWN_LINES = 20
"""Lines of a changed text that a failing test prints."""
_LONGEST_DIFF = 3 / 4
"""Lines of a diff per line of the text that it makes; a longer diff is harder to read than the whole text."""


def updating() -> bool:
    return os.environ.get(UPDATE) == "1"


def reviewed(folder: Path, name: str) -> str:
    """The reviewed text of this name."""
    if _whole(folder, name).exists():
        return _read(_whole(folder, name))
    diff = _read(_diff(folder, name))
    return apply_diff(diff, _read(folder / base_of(diff)))


def all_reviewed(folder: Path) -> dict[str, str]:
    """The reviewed texts of a folder and its subfolders, by name."""
    paths = sorted(path for suffix in ("cu", "diff") for path in folder.rglob(f"*.{suffix}"))
    return {path.relative_to(folder).with_suffix("").as_posix(): reviewed(path.parent, path.stem) for path in paths}


class GoldenFiles:
    """Golden files of one folder, of the cases with these names; `generate` makes the text of a case."""

    def __init__(self, folder: Path, names: Collection[str], generate: Callable[[str], str]) -> None:
        self._folder = folder
        self._names = names
        self.generated = functools.cache(generate)

    def check(self, name: str) -> None:
        """Fails unless the generated text is the reviewed one; an update makes it the reviewed one."""
        if updating():
            self._update(name)
            return
        try:
            expected = reviewed(self._folder, name)
        except FileNotFoundError as error:
            self._fail(name, f"there is no file {error.filename}")
        except DoesNotApply as error:
            self._fail(name, f"the stored diff does not fit its base: {error}")
        generated = self.generated(name)
        if generated != expected:
            self._fail(name, "the generated text (+) is not the reviewed one (-)", *_changes(expected, generated))

    def check_names(self) -> None:
        """Fails unless each name has one file and each file a name; an update removes files without a name."""
        paths = [*self._folder.glob("*.cu"), *self._folder.glob("*.diff")]
        if updating():
            for path in paths:
                if path.stem not in self._names:
                    path.unlink()
            return
        assert sorted(path.stem for path in paths) == sorted(self._names), _HOW_TO_UPDATE

    def _fail(self, name: str, what: str, *lines: str) -> NoReturn:
        pytest.fail("\n".join([f"{self._folder.name}/{name}: {what}", *lines, _HOW_TO_UPDATE]), pytrace=False)

    def _update(self, name: str) -> None:
        whole, diff = _whole(self._folder, name), _diff(self._folder, name)
        made = None if self._is_whole(name) else self._best_diff(name)
        if made is None:
            whole.write_text(self.generated(name), newline="")
            diff.unlink(missing_ok=True)
        else:
            diff.write_text(made, newline="")

    def _is_whole(self, name: str) -> bool:
        return name in self._names and _whole(self._folder, name).exists()

    def _best_diff(self, name: str) -> str | None:
        """Diff from the base that the stored diff names, or else the shortest one; None if all are too long."""
        path = _diff(self._folder, name)
        if path.exists():
            base = base_of(_read(path)).removesuffix(".cu")
            if self._is_whole(base):
                return self._diff_from(base, name)
        diffs = [self._diff_from(base, name) for base in self._names if self._is_whole(base)]
        shortest = min(diffs, key=_lines, default=None)
        if shortest is None or _lines(shortest) > _LONGEST_DIFF * _lines(self.generated(name)):
            return None
        return shortest

    def _diff_from(self, base: str, name: str) -> str:
        return make_diff(self.generated(name), self.generated(base), f"{base}.cu")


def _whole(folder: Path, name: str) -> Path:
    return folder / f"{name}.cu"


def _diff(folder: Path, name: str) -> Path:
    return folder / f"{name}.diff"


def _read(path: Path) -> str:
    return path.read_bytes().decode()  # read_text() would hide a carriage return


def _lines(text: str) -> int:
    return text.count("\n")


def _changes(expected: str, generated: str) -> Iterator[str]:
    """The first lines in which the texts differ."""
    _, _, *lines = difflib.unified_diff(expected.split("\n"), generated.split("\n"), n=0, lineterm="")
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"... and {len(lines) - _SHOWN_LINES} more lines"


if __name__ == "__main__":
    wanted = Path(sys.argv[1])
    sys.stdout.write(reviewed(wanted.parent, wanted.name))
