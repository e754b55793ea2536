"""Figures of the source itself: modules, lines, import circles, files that test a pass, docstrings, wide lines.

    python benchmarks/code_figures.py [CHECKOUT ...]

prints one column for each checkout, this one by default. The calls of each flow are counted by `benchmarks/hops.py`.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

HOMES = {
    "warpsmith": "src/warpsmith",
    "warpsmith.generator": "generator",
    "warpsmith.templates": "templates",
    "warpsmith.tuner": "tuner",
}
"""Folder of each package, relative to a checkout."""
WITHOUT_SUBJECT = re.compile(r"\W*(Of|That|Those|From|As|And|By|Which|Where|In|To|With)\b")
"""First words of a docstring that leaves its subject out."""
PASS_TEST = re.compile(r"\bis (not )?Pass\.[FDW]|Pass\.[A-Z]+:|pass_ (==|!=|in)\b|case Pass\.")
"""A comparison with a pass of a layer, or a table by passes."""
WIDE_COLUMNS = 120


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    columns = [figures(each) for each in parser.parse_args().checkouts]
    for name in columns[0]:
        print(f"{name:48}", *(f"{column[name]:>10,}" for column in columns))


def figures(checkout: Path) -> dict[str, int]:
    """Figures of one checkout by name."""
    texts = texts_of(checkout)
    graph = imports(texts)
    tests = [path.read_text() for path in (checkout / "tests").rglob("*.py")]
    return {
        "modules": len(texts),
        "lines of modules": sum(map(_lines, texts.values())),
        "lines of tests": sum(map(_lines, tests)),
        "lines of templates": sum(_lines(path.read_text()) for path in (checkout / "templates").rglob("*.jinja")),
        "modules in an import circle, for types too": len(in_circles(graph)),
        "modules with one importer, in the same folder": len(_only_children(graph)),
        "files that test a pass": sum(1 for text in texts.values() if PASS_TEST.search(text)),
        "docstrings without a subject": sum(_without_subject(text) for text in (*texts.values(), *tests)),
        f"lines over {WIDE_COLUMNS} columns in reviewed texts": sum(_wide(path) for path in _reviewed(checkout)),
    }


def texts_of(checkout: Path) -> dict[str, str]:
    """Texts of all modules, by the modules' names."""
    found = {}
    for package, folder in HOMES.items():
        for path in sorted((checkout / folder).rglob("*.py")):
            parts = path.relative_to(checkout / folder).with_suffix("").parts
            found[".".join([package, *parts]).removesuffix(".__init__")] = path.read_text()
    return found


def imports(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Modules of `texts` that each module imports, itself left out."""
    return {name: imported(text, texts) - {name} for name, text in texts.items()}


def imported(text: str, known: Mapping[str, object]) -> set[str]:
    """Modules that a text imports anywhere, for types alone and by a table of families too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                inner = {f"{module}.{alias.name}" for alias in names}
                found |= {each for each in inner if each in known} or {module}
            case ast.Call(func=ast.Name(id="families_in"), args=[ast.Constant(value=package), ast.Dict(values=places)]):
                found |= {f"{package}.{ast.literal_eval(place).partition(':')[0]}" for place in places}
    return found & known.keys()


def in_circles(graph: Mapping[str, set[str]]) -> set[str]:
    """Modules that import themselves by way of others."""
    reached = {name: _reached(name, graph) for name in graph}
    return {name for name in graph if name in reached[name]}


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = [*graph[start]]
    while left:
        if (name := left.pop()) not in seen:
            seen.add(name)
            left += graph[name]
    return seen


def _only_children(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules whose one importer lies beside them: likely parts of it."""
    importers: dict[str, list[str]] = {name: [] for name in graph}
    for name, found in graph.items():
        for each in found:
            importers[each].append(name)
    return [
        name for name, by in importers.items() if len(by) == 1 and by[0].rpartition(".")[0] == name.rpartition(".")[0]
    ]


def _without_subject(text: str) -> int:
    return sum(1 for each in _docstrings(ast.parse(text)) if WITHOUT_SUBJECT.match(each))


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield text


def _reviewed(checkout: Path) -> Iterator[Path]:
    """Reviewed texts of kernels; differences from them repeat their lines."""
    yield from (checkout / "tests" / "golden").rglob("*.cu")


def _wide(path: Path) -> int:
    return sum(len(line) > WIDE_COLUMNS for line in path.read_text().splitlines())


def _lines(text: str) -> int:
    return text.count("\n")


if __name__ == "__main__":
    main()
