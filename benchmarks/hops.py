"""Counts the source files, and the calls between them, of the package's most frequent flows.

    python benchmarks/hops.py [ROOT]

For each flow, in this process, it counts the warpsmith source files in which some function runs, and the calls from one
file into another. For its worker processes it counts only the files. ROOT is the checkout whose import cycles are
counted; the flows run the installed package. It runs on the host device, without a GPU, in some seconds.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

FILTER = ("filter2d", "--image", "64x64", "--filter", "3x3")
TRANSFORM = ("fft", "--size", "32x32", "--batch", "4")
ROOTS = ("src/warpsmith", "generator", "templates", "tuner")

WORKER = """
import os, sys, threading
_seen, _log = set(), open(os.environ["HOPS_LOG"], "a", buffering=1)
def _profile(frame, event, argument):
    name = frame.f_code.co_filename
    if event == "call" and name not in _seen:
        _seen.add(name)
        _log.write(name + "\\n")
sys.setprofile(_profile)
threading.setprofile(_profile)
"""
"""Module that a worker process imports first, as `sitecustomize`."""


class Walk:
    """Records calls between files of the package while it is entered."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        self.files: set[str] = set()
        self.moves = 0

    def __enter__(self) -> Walk:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(self._folders) or frame.f_code.co_name == "<module>":
            return
        self.files.add(name)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(self._folders):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != name:
            self.moves += 1


def folders() -> tuple[str, ...]:
    """Folders of the package's source."""
    import warpsmith.generator
    import warpsmith.tuner

    packages = (warpsmith, warpsmith.generator, warpsmith.tuner)
    return tuple(str(Path(str(each.__file__)).parent) for each in packages)


def command(*words: str) -> Callable[[], None]:
    """Runs a command line and drops its output."""

    def run() -> None:
        from warpsmith.cli.app import run as run_command

        with contextlib.redirect_stdout(io.StringIO()):
            code = run_command([*words, "--device", "host"])
        assert code == 0, words

    return run


def generated(problem: Any) -> Callable[[], None]:
    """Generates the source of the default config."""

    def run() -> None:
        from warpsmith.generator.presets import H200
        from warpsmith.generator.registry import families_for

        family = families_for(problem, H200)[0]
        family.program(problem, family.default(problem, H200))

    return run


def walked(work: Callable[[], None], log: Path) -> tuple[int, int, int]:
    """Files here, calls between them, and further files in worker processes. A first run does all one-time loading."""
    work()
    log.write_text("")
    with Walk(folders()) as walk:
        work()
    elsewhere = {line for line in log.read_text().splitlines() if line.startswith(folders())}
    return len(walk.files), walk.moves, len(elsewhere - walk.files)


def circles(root: Path) -> int:
    """Number of groups of modules that import each other in a cycle, also by imports inside functions. Imports for type
    checking do not count.
    """
    graph = _imports(root)
    found, done = 0, set[str]()
    for name in graph:
        group = {other for other in _reached(graph, name) if name in _reached(graph, other)}
        if len(group) > 1 and not group & done:
            found += 1
        done |= group
    return found


def _imports(root: Path) -> dict[str, set[str]]:
    modules = {}
    for folder in ROOTS:
        package = "warpsmith" if folder == "src/warpsmith" else f"warpsmith.{folder}"
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root / folder).with_suffix("").parts
            modules[".".join([package, *parts]).removesuffix(".__init__")] = path
    return {name: set(_named(path, modules)) - {name} for name, path in modules.items()}


def _named(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in inner if node.module in modules)


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for name in graph.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def main() -> int:
    """Prints the table."""
    import warpsmith as ws

    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "files"
        (Path(folder) / "sitecustomize.py").write_text(WORKER)
        os.environ.update(HOPS_LOG=str(log), WARPSMITH_STORE=f"{folder}/store.db")
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        seeds = iter(range(1, 10))
        flows: dict[str, Callable[[], None]] = {
            "config to text, filter2d": generated(ws.Filter2d((9216, 9216), (3, 3))),
            "config to text, fft 32x32": generated(ws.Fft((32, 32), 4096)),
            "command to text (explain --source)": command("explain", *FILTER, "--source"),
            "look-up (query), stored": command("query", *FILTER),
            "command to measured trials (tune)": lambda: command(
                "tune", *TRANSFORM, "--trials", str(2 * next(seeds)), "--json"
            )(),
        }
        command("tune", *FILTER, "--trials", "2", "--json")()
        print("| flow | files | calls between files | further files in workers |\n|---|---|---|---|")
        for name, work in flows.items():
            print("| {} | {} | {} | {} |".format(name, *walked(work, log)))
    print(f"\nimport circles: {circles(root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
