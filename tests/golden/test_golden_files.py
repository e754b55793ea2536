"""A changed golden file fails with few lines, and an update keeps the form and the base of each file."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_files import UPDATE, GoldenFiles, all_reviewed, reviewed

BASE = "".join(f"int f{i}() {{ return {i}; }}\n" for i in range(40))
TEXTS = {"base": BASE, "near": BASE.replace("return 7;", "return 8;"), "far": BASE.upper()}


def files(folder: Path, texts: dict[str, str]) -> GoldenFiles:
    return GoldenFiles(folder, texts, texts.__getitem__)


def update(folder: Path, texts: dict[str, str]) -> list[str]:
    """Names of the files after an update."""
    golden = files(folder, texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(UPDATE, "1")
        for name in texts:
            golden.check(name)
        golden.check_names()
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def _compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests compare texts, also in a run that updates the golden files of others."""
    monkeypatch.delenv(UPDATE, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The three texts as golden files."""
    assert update(tmp_path, TEXTS) == ["base.cu", "far.cu", "near.diff"]
    return tmp_path


def failure(folder: Path, name: str, texts: dict[str, str]) -> list[str]:
    with pytest.raises(pytest.fail.Exception) as caught:
        files(folder, texts).check(name)
    return str(caught.value).splitlines()


def test_reviewed_texts_are_the_generated_ones(folder: Path) -> None:
    assert all_reviewed(folder) == TEXTS
    for name in TEXTS:
        files(folder, TEXTS).check(name)
    files(folder, TEXTS).check_names()


def test_a_failure_shows_the_case_and_the_changed_lines(folder: Path) -> None:
    changed = {name: text.replace("return 12;", "return 13;") for name, text in TEXTS.items()}
    assert failure(folder, "near", changed) == [
        f"{folder.name}/near: the generated text (+) is not the reviewed one (-)",
        "@@ -13 +13 @@",
        "-int f12() { return 12; }",
        "+int f12() { return 13; }",
        "If the change is intended: WARPSMITH_UPDATE_GOLDEN=1 pytest tests/golden",
    ]
    head, *_, more, _ = shown = failure(folder, "near", {**TEXTS, "near": BASE.upper()})
    assert (head.split(":")[0], len(shown), more) == (f"{folder.name}/near", 23, "... and 61 more lines")


def test_a_changed_base_fails_its_variants_briefly(folder: Path) -> None:
    (folder / "base.cu").write_text(BASE.replace("return 7;", "return 9;"))
    what, _ = failure(folder, "near", TEXTS)
    assert "the stored diff does not fit its base" in what


def test_a_case_without_a_file_fails(folder: Path) -> None:
    what, _ = failure(folder, "new", {**TEXTS, "new": ""})
    assert what.startswith(f"{folder.name}/new: there is no file ")
    with pytest.raises(AssertionError):
        files(folder, {**TEXTS, "new": ""}).check_names()


def test_an_update_keeps_form_and_base_and_removes_other_files(folder: Path) -> None:
    texts = {"base": BASE.upper(), "near": BASE, "other": BASE}
    assert update(folder, texts) == ["base.cu", "near.diff", "other.cu"]
    assert all_reviewed(folder) == texts


def test_an_update_makes_a_diff_whole_if_there_is_an_empty_text(folder: Path) -> None:
    (folder / "near.cu").touch()
    assert update(folder, TEXTS) == ["base.cu", "far.cu", "near.cu"]
    assert reviewed(folder, "near") == TEXTS["near"]
