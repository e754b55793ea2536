"""The pages of the documentation: links, navigation, figures, help texts."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURE = re.compile(r"(?<![\d.])\d+\.\d+(?![\d.])")


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("documentation_hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Of the headings, as code hosts and the site make them."""
    headings = re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    text = without_code((ROOT / page).read_text())
    for link in LINK.findall(text):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_navigation_has_every_page(hooks: ModuleType) -> None:
    listed = set(re.findall(r"^ +- .*: (\S+\.md)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert listed == pages | set(hooks.ROOT_PAGES.values())


def test_figures_of_the_readme_stand_in_the_benchmarks() -> None:
    text = without_code((ROOT / "README.md").read_text())
    figures = set(FIGURE.findall(re.sub(r"Python \d.*? to \d+\.\d+|Apache-2\.0", "", text)))
    assert len(figures) >= 10
    assert figures <= set(FIGURE.findall((ROOT / "BENCHMARKS.md").read_text()))


@pytest.mark.parametrize(
    ("target", "source", "page", "expected"),
    [
        ("docs/design.md", "README.md", "index.md", "design.md"),
        ("docs/images/after.png", "README.md", "index.md", "images/after.png"),
        ("BENCHMARKS.md", "README.md", "index.md", "BENCHMARKS.md"),
        ("../README.md", "docs/stores.md", "stores.md", "index.md"),
        ("../../CHANGELOG.md", "docs/reference/json.md", "reference/json.md", "../CHANGELOG.md"),
        ("../stores.md", "docs/reference/environment.md", "reference/environment.md", "../stores.md"),
        ("json.md", "docs/reference/command-line.md", "reference/command-line.md", "json.md"),
    ],
)
def test_links_of_a_code_host_become_links_of_the_site(
    hooks: ModuleType, target: str, source: str, page: str, expected: str
) -> None:
    assert hooks.site_link(target, source, page) == expected


def test_the_help_of_every_command_is_in_the_reference(hooks: ModuleType) -> None:
    text = "\n".join(hooks.help_of_every_command())
    headings = re.findall(r"^#+ (warpsmith.*)$", text, re.MULTILINE)
    assert headings[:4] == ["warpsmith", "warpsmith tune", "warpsmith tune filter2d", "warpsmith tune fft"]
    assert {"warpsmith doctor", "warpsmith db show fft", "warpsmith export filter2d"} <= set(headings)
    assert "warpsmith db show words" not in headings  # hidden
    assert "--image" in text
    assert "\x1b" not in text
    mark = (ROOT / "docs" / hooks.HELP_PAGE).read_text().count(hooks.HELP_MARK)
    assert mark == 1
