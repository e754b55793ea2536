"""The pages of the documentation: links, navigation, figures, help texts."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
import typer

from warpsmith.cli.app import COMMANDS, build
from warpsmith.generator.registry import family_named

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
FOLDERS = (
    "src",
    "generator",
    "templates",
    "tuner",
    "tests",
    "docs",
    "benchmarks",
    "cli",
    "devices",
    "plans",
    "store",
    "torch",
)
"""Folders of source files, as pages name them."""
PAPERS = "docs/papers.md"
FAMILY = re.compile(r"(?<![\w./-])(?:filter1d|filter2d|fft|conv2d|cgemm)_\w+(?![\w.])")
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
    """Anchors of the headings, as code hosts and the site make them."""
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


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith(("docs/design/", "docs/guide/", PAPERS))])
def test_files_named_in_a_page_are_there(page: str) -> None:
    """Files are named from the repository's root, or from the folder of the package."""
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`", without_code((ROOT / page).read_text()))
    assert [each for each in named if not any((home / each).exists() for home in (ROOT, ROOT / "src/warpsmith"))] == []


def test_navigation_has_every_page(hooks: ModuleType) -> None:
    listed = set(re.findall(r"^ +- .*: (\S+\.md)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert listed == pages | set(hooks.ROOT_PAGES.values())


def test_figures_of_the_readme_stand_in_the_benchmarks() -> None:
    text = without_code((ROOT / "README.md").read_text())
    figures = set(FIGURE.findall(re.sub(r"Python \d.*? to \d+\.\d+|Apache-2\.0", "", text)))
    assert len(figures) >= 10
    measured = "\n".join(page.read_text() for page in (ROOT / "docs" / "lab").glob("*.md"))
    assert figures <= set(FIGURE.findall(measured))


def table(page: Path) -> list[list[str]]:
    """Rows of the first table of a page, each a list of its cells."""
    found = re.search(r"^\|[^\n]*\n\|[-|]*\n((?:\|[^\n]*\n)+)", page.read_text(), re.MULTILINE)
    assert found is not None
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def section(text: str, anchor: str) -> str:
    """Text under the heading with that anchor, up to the next heading of the same level or a higher one."""
    for heading in re.finditer(r"^(#+) .*$", text, re.MULTILINE):
        if anchor in anchors(heading[0]):
            rest = text[heading.end() :]
            following = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
            return rest[: following.start()] if following else rest
    raise AssertionError(anchor)


def test_headline_figures_stand_in_the_sections_that_they_link_to() -> None:
    rows = table(ROOT / "docs" / "lab" / "benchmarks.md")
    assert len(rows) >= 20
    for link, figures, _, commits in rows:
        path, _, anchor = LINK.findall(link)[0].partition("#")
        page = (ROOT / "docs" / "lab" / path).read_text()
        text = section(page, anchor)
        assert [each for each in FIGURE.findall(figures) if each not in text] == [], link
        assert [each for each in commits.split(", ") if each not in page] == [], link


def test_headlines_of_the_root_are_those_of_the_lab() -> None:
    here = [[cell.replace("](docs/lab/", "](") for cell in row] for row in table(ROOT / "BENCHMARKS.md")]
    assert here == table(ROOT / "docs" / "lab" / "benchmarks.md")


@pytest.fixture(scope="module")
def papers() -> list[list[str]]:
    """Rows of all tables of the page of the papers, each a list of its cells."""
    lines = re.findall(r"^\| (.*) \|$", (ROOT / PAPERS).read_text(), re.MULTILINE)
    rows = [line.split(" | ") for line in lines if not line.startswith("section ")]
    assert len(rows) >= 131
    assert {len(row) for row in rows} == {5}
    return rows


def spans(rows: list[list[str]]) -> set[str]:
    """Code spans of the cells."""
    return {span for row in rows for cell in row for span in re.findall(r"`([^`]+)`", cell)}


def test_families_of_the_papers_are_registered(papers: list[list[str]]) -> None:
    named = {name for span in spans(papers) for name in FAMILY.findall(span)}
    assert len(named) >= 30
    assert sorted(name for name in named if family_named(name) is None) == []


def test_scripts_of_the_papers_are_there_and_have_their_options(papers: list[list[str]]) -> None:
    calls = [shlex.split(span)[1:] for span in spans(papers) if span.startswith("python benchmarks/")]
    assert len(calls) >= 20
    assert sorted({script for script, *_ in calls if not (ROOT / script).is_file()}) == []
    texts = {script: (ROOT / script).read_text() for script, *_ in calls}
    options = ((script, word) for script, *words in calls for word in words if word.startswith("--"))
    assert [(script, option) for script, option in options if option not in texts[script]] == []


def why_refused(line: str) -> str | None:
    """Why the command line does not take `line`; None if it does. Nothing is run."""
    command, context, words = typer.main.get_command(build(COMMANDS)), None, shlex.split(line)[1:]
    while isinstance(command, typer.core.TyperGroup) and words:
        context = command.make_context(command.name, list(words), parent=context, resilient_parsing=True)
        found = command.get_command(context, words[0])
        if found is None:
            return f"no command {words[0]}"
        command, words = found, words[1:]
    try:
        command.make_context(command.name, words, parent=context, resilient_parsing=not words)
    except Exception as error:  # Typer's, whichever Click it brings
        return repr(error)
    return None


def test_commands_of_the_papers_are_taken(papers: list[list[str]]) -> None:
    lines = {span for span in spans(papers) if span.startswith("warpsmith ")}
    assert len(lines) >= 100
    assert {line: why for line in sorted(lines) if (why := why_refused(line)) is not None} == {}


def test_figures_of_the_papers_stand_in_the_sections_that_they_link_to(papers: list[list[str]]) -> None:
    for *_, cell in papers:
        if figures := FIGURE.findall(LINK.sub("", cell)):
            linked = [link.partition("#") for link in LINK.findall(cell)]
            text = "\n".join(section((ROOT / "docs" / path).read_text(), anchor) for path, _, anchor in linked)
            assert [each for each in figures if each not in text] == [], cell


@pytest.mark.parametrize(
    ("target", "source", "page", "expected"),
    [
        ("docs/design/index.md", "README.md", "index.md", "design/index.md"),
        ("docs/images/after.png", "README.md", "index.md", "images/after.png"),
        ("BENCHMARKS.md", "README.md", "index.md", "lab/benchmarks.md"),
        ("../../README.md", "docs/guide/stores.md", "guide/stores.md", "../index.md"),
        ("../../CHANGELOG.md", "docs/reference/json.md", "reference/json.md", "../CHANGELOG.md"),
        ("../glossary.md", "docs/reference/environment.md", "reference/environment.md", "../glossary.md"),
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
