"""Architecture, read off the source: imports, places of third parties, sizes, docstrings."""

from __future__ import annotations

import ast
import dataclasses
import functools
import graphlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import benchmark

ROOT = Path(__file__).parents[2]
HOMES = {
    "warpsmith": ROOT / "src/warpsmith",
    "warpsmith.generator": ROOT / "generator",
    "warpsmith.templates": ROOT / "templates",
    "warpsmith.tuner": ROOT / "tuner",
}
"""Folder of each package."""

MAY_IMPORT = {
    "errors": set(),
    "extras": {"errors"},
    "files": set(),
    "units": set(),
    "templates": set(),
    "generator": {"errors", "templates"},
    "store": {"errors", "extras", "generator"},
    "devices": {"errors", "extras", "files", "generator"},
    "workers": {"errors", "devices"},
    "plans": {"errors", "units", "generator", "store", "devices", "workers"},
    # plans, for the format of a bundle, which its writer and its reader share
    "tuner": {"errors", "files", "units", "generator", "store", "devices", "plans", "workers"},
    "api": {"errors", "extras", "generator", "store", "devices", "plans", "tuner"},
    "": {"api", "errors", "generator"},
    "torch": {"errors", "generator", "store", "devices", "plans"},
    "cli": {"", "api", "errors", "extras", "files", "units", "generator", "store", "devices", "plans", "tuner"},
    "__main__": {"cli"},
}
"""Other parts of warpsmith that each part may import. The empty name is the package's own `__init__`."""

LIVES_IN = {
    "jinja2": {"warpsmith.generator.render"},
    "typing_extensions": {"warpsmith.generator.family"},
    "optuna": {"warpsmith.tuner.search.studies"},
    "pycuda": {"warpsmith.devices.cuda.pycuda_context", "warpsmith.devices.cuda.pycuda_compiler"},
    "sqlalchemy": {"warpsmith.store", "warpsmith.tuner.search.studies.study_store"},
    "alembic": {"warpsmith.store"},
    "psycopg": {"warpsmith.store.postgresql"},
    "typer": {"warpsmith.cli"},
    "rich": {"warpsmith.cli", "warpsmith.tuner.progress"},
    "platformdirs": {"warpsmith.devices.binary_cache", "warpsmith.store.location"},
    "cuda": {"warpsmith.devices.cuda", "warpsmith.devices.arrays"},
    # What winners are measured beside, operation by operation.
    "torch": {"warpsmith.tuner.operations", "warpsmith.torch"},
    "cupy": {"warpsmith.tuner.operations"},
    "cupyx": {"warpsmith.tuner.operations"},
    "scipy": {"warpsmith.tuner.operations"},
    "matplotlib": {"warpsmith.tuner.plots"},
    "ml_dtypes": {"warpsmith.devices.elements"},
    "numpy": {
        "warpsmith.devices",
        "warpsmith.plans",
        "warpsmith.tuner",
        "warpsmith.cli",
        # Hundreds of layouts of a tile are compared for each config: plain Python takes 20 ms where arrays take 8.
        "warpsmith.generator.fft.block.gaps",
    },
}
"""Modules, or packages with all their contents, that may import each third party."""

FLOORS = (
    {"costs", "faults", "operations", "search", "workers"},
    {"evaluate"},
    {"options", "report", "progress", "plots"},
    {"finals"},
    {"run"},
    {"spaces", "export"},
)
"""Folders of the tuner from the bottom layer up; each imports only from its own layer and those below."""

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 50


@dataclasses.dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    path: Path

    @property
    def part(self) -> str:
        """The part of warpsmith that it belongs to: a key of MAY_IMPORT."""
        return part_of(self.name)

    @property
    def tree(self) -> ast.Module:
        return tree_of(self.path)

    @functools.cached_property
    def imports(self) -> tuple[tuple[str, int], ...]:
        """Every module that is imported anywhere in the file, even in a function or for types alone, and the line."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[tuple[str, int]]:
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    yield from ((alias.name, node.lineno) for alias in names)
                case ast.ImportFrom(level=0, module=str(module), names=names):
                    # `from warpsmith import x` may name a part, or something that the package itself offers.
                    inner = [f"{module}.{alias.name}" for alias in names]
                    yield from ((name if name in modules_by_name() else module, node.lineno) for name in inner)
                case ast.ImportFrom(level=level) if level > 0:
                    raise AssertionError(f"{self.path}:{node.lineno}: relative import; write the whole name")
                case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                    yield name, node.lineno
                case ast.Call(
                    func=ast.Name(id="families_in"), args=[ast.Constant(value=package), ast.Dict(values=places)]
                ):
                    for place in places:
                        yield f"{package}.{ast.literal_eval(place).partition(':')[0]}", place.lineno


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Syntax tree of a file, parsed once for all tests of a process."""
    return ast.parse(path.read_text(), str(path))


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@functools.cache
def modules_by_name() -> dict[str, Module]:
    """Every module and package of warpsmith."""
    found = {}
    for package, folder in HOMES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join([package, *parts]).removesuffix(".__init__")
            found[name] = Module(name, path)
    return found


def modules() -> list[Module]:
    return sorted(modules_by_name().values(), key=lambda module: module.name)


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_all_modules_are_seen_and_belong_to_a_part() -> None:
    assert {module.part for module in modules()} == set(MAY_IMPORT)
    assert {"warpsmith", "warpsmith.generator.filter2d.window_family", "warpsmith.cli.app"} <= set(modules_by_name())


def test_the_order_of_the_parts_has_no_cycle() -> None:
    seen: set[str] = set()
    for part in (
        "errors",
        "extras",
        "files",
        "units",
        "templates",
        "generator",
        "store",
        "devices",
        "workers",
        "plans",
        "tuner",
        "api",
        "",
        "torch",
        "cli",
        "__main__",
    ):
        assert MAY_IMPORT[part] <= seen, part
        seen.add(part)


def test_no_import_goes_round_in_a_circle() -> None:
    """Imports inside functions and for types alone count too: modules in a circle cannot be understood apart."""
    names = modules_by_name()
    graph = {name: {found for found, _ in module.imports if found in names} - {name} for name, module in names.items()}
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


MAY_TEST_A_PASS = 6
"""Files that compare a pass of a layer with another. The others ask `Pass` and `Conv2d` for what a pass does."""


def test_few_files_test_a_pass() -> None:
    pattern = benchmark("code_figures").PASS_TEST
    testing = [module.name for module in modules() if pattern.search(module.path.read_text())]
    assert len(testing) <= MAY_TEST_A_PASS, "\n".join(testing)


def test_no_room_of_the_tuner_imports_from_a_floor_above() -> None:
    floor_of = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    offenders = [
        f"{where(module.path, line)}: {room} may not import {name}"
        for module in modules()
        if module.part == "tuner" and module.name != "warpsmith.tuner"
        for name, line in module.imports
        if name.startswith("warpsmith.tuner.")
        if floor_of[name.split(".")[2]] > floor_of[room := module.name.split(".")[2]]
    ]
    assert not offenders, "\n".join(offenders)


LAYERS_PLANS, DOOR = "warpsmith.plans.conv2d", "warpsmith.plans.conv2d.training"
"""The only package of plans that knows an operation, and its module that others import."""


def test_plans_know_no_operation_but_behind_one_door() -> None:
    operations = [f"warpsmith.generator.{name}" for name in ("cgemm", "conv2d", "fft", "filter1d", "filter2d")]
    assert set(operations) <= set(modules_by_name())
    offenders = [
        f"{where(module.path, line)}: {module.name} may not import {name}"
        for module in modules()
        if not lies_in(module.name, LAYERS_PLANS)
        for name, line in module.imports
        if (lies_in(name, LAYERS_PLANS) and not lies_in(name, DOOR))
        or (module.part == "plans" and any(lies_in(name, operation) for operation in operations))
    ]
    assert not offenders, "\n".join(offenders)


def test_every_part_imports_only_what_it_may() -> None:
    offenders = [
        f"{where(module.path, line)}: {module.part or 'warpsmith'} may not import {name}"
        for module in modules()
        for name, line in module.imports
        if name.split(".")[0] == "warpsmith" and part_of(name) not in MAY_IMPORT[module.part] | {module.part}
    ]
    assert not offenders, "\n".join(offenders)


def lies_in(module: str, home: str) -> bool:
    return module == home or module.startswith(f"{home}.")


def test_every_third_party_stays_at_home() -> None:
    offenders = [
        f"{where(module.path, line)}: {name} belongs to {', '.join(sorted(LIVES_IN.get(party, {'no module yet'})))}"
        for module in modules()
        for name, line in module.imports
        if (party := name.split(".")[0]) not in sys.stdlib_module_names | {"warpsmith"}
        if not any(lies_in(module.name, home) for home in LIVES_IN.get(party, ()))
    ]
    assert not offenders, "\n".join(offenders)


@pytest.mark.parametrize("party", ["jinja2", "matplotlib", "optuna", "pycuda"])
def test_each_home_of_these_is_one(party: str) -> None:
    importers = {module.name for module in modules() for name, _ in module.imports if name.split(".")[0] == party}
    homes = {home for home in LIVES_IN[party] if any(lies_in(importer, home) for importer in importers)}
    assert homes == LIVES_IN[party]


def test_files_are_short() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for folder in HOMES.values()
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".py", ".h", ".cpp", ".jinja"}
        if (lines := len(path.read_text().splitlines())) > MAX_FILE_LINES
    ]
    assert not offenders, f"over {MAX_FILE_LINES} lines:\n" + "\n".join(offenders)


def test_functions_are_short() -> None:
    offenders = [
        f"{where(module.path, node.lineno)}: {node.name} has {lines} lines"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not offenders, f"over {MAX_FUNCTION_LINES} lines:\n" + "\n".join(offenders)


def test_every_module_says_what_it_is_for() -> None:
    offenders = [
        where(module.path, 1) for module in modules() if module.tree.body and ast.get_docstring(module.tree) is None
    ]
    assert not offenders, "without a docstring:\n" + "\n".join(offenders)


def test_every_docstring_has_a_subject_and_says_more_than_its_name() -> None:
    """A docstring is a sentence, or a noun phrase that names the thing."""
    found, without_subject = list(docstrings()), benchmark("code_figures").WITHOUT_SUBJECT
    fragments = [f"{each.where}: {each.text.splitlines()[0]}" for each in found if without_subject.match(each.text)]
    assert not fragments, f"{len(fragments)} docstrings without a subject:\n" + "\n".join(fragments)
    repeated = [
        f"{each.where}: {each.name}"
        for each in found
        if each.name and _words(inspect.cleandoc(each.text)) <= _words(each.name)
    ]
    assert not repeated, "the name says it already:\n" + "\n".join(repeated)


def _words(text: str) -> set[str]:
    """The words of a name or a sentence, without articles."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).replace("_", " ")
    return set(re.findall(r"[a-z0-9]+", apart.lower())) - {"a", "an", "the"}


@dataclasses.dataclass(frozen=True)
class Docstring:
    """A string that stands alone in a module, class or function, or below an attribute."""

    where: str
    text: str
    name: str
    """Name of the class or function that it describes; empty for others."""


def docstrings() -> Iterator[Docstring]:
    """Docstrings of all files, which take seconds to parse."""
    for path in python_files():
        yield from _docstrings(path, tree_of(path))


def _docstrings(path: Path, node: ast.AST) -> Iterator[Docstring]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            pass
        case _:
            name = ""
    for number, statement in enumerate(getattr(node, "body", ())):
        match statement:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield Docstring(where(path, text.lineno), text.value, "" if number else name)
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, block, ()):
            yield from _docstrings(path, statement)


def python_files() -> Iterator[Path]:
    """All files of the project, tests and benchmarks too."""
    for folder in ("generator", "tuner", "src/warpsmith", "benchmarks", "tests"):
        yield from sorted((ROOT / folder).rglob("*.py"))
