"""What `mkdocs build` needs beside the pages of this folder.

- The Markdown files of the repository's root become pages, README.md the first; links between them and this folder are
  written for a code host, and are rewritten for the site.
- The help text of every command is put into the page of the command line.
- mkdocstrings reads source files and imports nothing, but the packages lie in three folders: they are linked into one.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
}
"""Markdown files of the repository's root, and the pages that they become."""
STANDS_FOR = {"BENCHMARKS.md": "lab/benchmarks.md"}
"""Markdown files of the repository's root that are no pages, and the pages that have the same contents."""
PACKAGES = {"generator": "generator", "templates": "templates", "tuner": "tuner"}
"""Packages of warpsmith that lie outside src/warpsmith, and their folders."""
DOCUMENTED = ROOT / "build" / "documented" / "warpsmith"

HELP_PAGE = "reference/command-line.md"
HELP_MARK = "<!-- help of every command -->"
HELP_COLUMNS = 110

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Which some environments force."""

LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")


def on_startup(**_: Any) -> None:
    """Links the packages into one folder, as an installation has them."""
    shutil.rmtree(DOCUMENTED, ignore_errors=True)
    DOCUMENTED.mkdir(parents=True)
    for path in (ROOT / "src" / "warpsmith").iterdir():
        if path.name != "__pycache__":
            (DOCUMENTED / path.name).symlink_to(path)
    for name, folder in PACKAGES.items():
        (DOCUMENTED / name).symlink_to(ROOT / folder)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that lie in the repository's root."""
    from mkdocs.structure.files import File

    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrites links and puts in the help texts."""
    name = page.file.src_uri
    source = next((root for root, each in ROOT_PAGES.items() if each == name), f"docs/{name}")
    if name == HELP_PAGE:
        markdown = markdown.replace(HELP_MARK, "\n".join(help_of_every_command()))
    return LINK.sub(lambda link: site_link(link[1], source, name) + (link[2] or ""), markdown)


def site_link(target: str, source: str, page: str) -> str:
    """A link as the site has it.

    Args:
        target: where it leads on a code host, from the folder of `source`.
        source: the file that it stands in, from the repository's root.
        page: the page that this file becomes, from the folder of pages.
    """
    path = os.path.normpath(Path(source).parent / target).replace(os.sep, "/")
    led_to = {**ROOT_PAGES, **STANDS_FOR}.get(path, path.removeprefix("docs/"))
    return os.path.relpath(led_to, Path(page).parent).replace(os.sep, "/")


def help_of_every_command() -> Iterator[str]:
    """Markdown: a heading and the help text of each command, in the order in which the help lists them."""
    import typer
    from typer.core import TyperGroup

    from warpsmith.cli.app import COMMANDS, build

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[str]:
        yield f"{'#' * (len(words) + 2)} {' '.join(('warpsmith', *words))}"
        yield f"\n```text\n{_help_of(words)}\n```\n"
        names = command.list_commands(None) if isinstance(command, TyperGroup) else []
        for name in names:
            if not command.commands[name].hidden:
                yield from walk(command.commands[name], (*words, name))

    yield from walk(typer.main.get_command(build(COMMANDS)), ())


def _help_of(words: tuple[str, ...]) -> str:
    from warpsmith.cli.app import run

    earlier = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(HELP_COLUMNS)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            run([*words, "--help"])
    finally:
        if earlier is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = earlier
    return "\n".join(line.rstrip() for line in COLOURS.sub("", printed.getvalue()).strip("\n").splitlines())
