"""Counts the source files, and the calls between them, of the package's most frequent flows.

    python benchmarks/hops.py [ROOT] [--quick] [--check | --write]

For each flow it counts the warpsmith source files in which some function runs, the calls from one file into another,
and the longest chain of such calls on one stack. For the worker processes of a flow it counts only the files. ROOT is
the checkout whose import cycles are counted; the flows run the installed package, on the host device, without a GPU.
`--quick` leaves out the flows that start processes or need PyTorch. `--check` fails if a flow is above its ceiling in
`hops_ceilings.json`; `--write` sets the ceilings of the flows that ran to what was counted and a tenth more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from code_figures import imports, in_circles, texts_of

FILTER = ("filter2d", "--image", "64x64", "--filter", "3x3")
LAYER = ("conv2d", "--input", "2,8,16,16", "--weight", "8,8,3,3", "--padding", "1")
TRANSFORM = ("fft", "--size", "32x32", "--batch", "4")
ROOTS = ("src/warpsmith", "generator", "templates", "tuner")
CEILINGS = Path(__file__).with_name("hops_ceilings.json")
ROOM = 1.1
"""Ratio of a ceiling to what was counted."""

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


class Count(NamedTuple):
    """What one run of a flow did."""

    files: int
    """Source files in which some function ran."""
    calls: int
    """Calls from one file into another."""
    chain: int
    """Most files on one call stack; a file counts again each time that the chain comes back to it."""
    ms: float = 0.0
    """CPU time of this process without the counting."""
    in_workers: int = 0
    """Further files in worker processes."""


class Walk:
    """Counts calls between files of the package while it is entered.

    Args:
        folders: folders of the package's source.
        until: code of a function; nothing counts from its first call on.
    """

    def __init__(self, folders: tuple[str, ...], until: CodeType | None = None) -> None:
        self._folders, self._until = folders, until
        self._local = threading.local()
        self._is_over = False
        self.files: set[str] = set()
        self.calls = self.chain = 0

    def __enter__(self) -> Walk:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Keeps, for each frame of the thread's stack, the last file of the package and the files down to there."""
        if event not in ("call", "return"):
            return
        stack: list[tuple[str, int]] = self._local.__dict__.setdefault("stack", [("", 0)])
        if event == "return":
            if len(stack) > 1:  # frames that were entered before the counting return too
                stack.pop()
            return
        file, depth = stack[-1]
        code = frame.f_code
        name = code.co_filename
        self._is_over = self._is_over or code is self._until
        if name != file and self._counts(name) and code.co_name != "<module>" and not self._is_over:
            self.files.add(name)
            self.calls += bool(file)
            file, depth = name, depth + 1
            self.chain = max(self.chain, depth)
        stack.append((file, depth))

    def _counts(self, name: str) -> bool:
        """True for Python source of the package. Templates, which some installations have there too, do not count."""
        return name.startswith(self._folders) and name.endswith(".py")


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

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = run_command([*words])
        assert code == 0, words

    return run


def generated(problem: Any, name: str) -> Callable[[], None]:
    """Generates the source of a family's default config."""

    def run() -> None:
        from warpsmith.generator.gate import Gate
        from warpsmith.generator.presets import H200
        from warpsmith.generator.registry import family_named

        gate, family = Gate(problem, H200), family_named(name)
        assert family is not None
        gate.program(family, gate.default(family))

    return run


def put_all_families(problem: Any, store: str) -> None:
    """Stores a made-up time for the default of each family on the host device, the preferred family as the winner."""
    from warpsmith.devices.select import DeviceRef
    from warpsmith.generator.gate import Gate
    from warpsmith.generator.registry import able_families
    from warpsmith.store.record import Measurement, Provenance, Record, Timing, Trial
    from warpsmith.store.store import Store

    gate = Gate(problem, DeviceRef.parse("host").device())
    records = []
    for number, family in enumerate(able_families(gate)):
        program = gate.program(family, gate.default(family))
        outcome = Measurement(Timing(1000.0 * (1 + number), 1e3, 1e6, 9, "median"), 0.0, None, None, None, None)
        trial = Trial(family.name, program.config, program.fingerprint, outcome, "made up", None, None)
        records.append(Record(problem, gate.device, trial, (), Provenance("2026-01-01T00:00:00+00:00", "0", {}), ()))
    with Store.open(store, write=True) as opened:
        opened.put_winner(records[0])
        opened.put_runners_up(records[1:])


def counted(work: Callable[[], None], log: Path, until: CodeType | None = None) -> Count:
    """Counts a run of a flow. A first run does all one-time loading, and a second one is timed."""
    work()
    start = time.process_time()
    work()
    ms = 1e3 * (time.process_time() - start)
    log.write_text("")
    with Walk(folders(), until) as walk:
        work()
    elsewhere = {line for line in log.read_text().splitlines() if line.startswith(folders())}
    return Count(len(walk.files), walk.calls, walk.chain, ms, len(elsewhere - walk.files))


class Layer:
    """A layer with operands, and its plans."""

    def __init__(self, folder: Path) -> None:
        import warpsmith as ws

        self.problem = ws.Conv2d((2, 8, 16, 16), (8, 8, 3, 3), padding=1)
        self.x, self.w = np.ones((2, 8, 16, 16), np.float32), np.ones((8, 8, 3, 3), np.float32)
        self.bundle = str(folder / "bundle")

    def planned(self) -> None:
        """Makes a plan that no earlier call made, and calls it."""
        from warpsmith.plans.make import forget_plans

        forget_plans()
        self.remembered()

    def remembered(self) -> None:
        import warpsmith as ws

        ws.plan(self.problem, device="host")(self.x, self.w)

    def remembered_after_a_while(self) -> None:
        """Looks up a plan that an earlier call made; stores' files are looked at again after 5 ms, so always here."""
        time.sleep(0.02)
        self.remembered()

    def exported(self) -> None:
        import warpsmith as ws

        ws.export([self.problem], self.bundle)

    def loaded(self) -> None:
        import warpsmith as ws

        ws.load_bundle(self.bundle).plan(self.problem, device="host")(self.x, self.w)


def quick_flows(folder: Path) -> dict[str, Callable[[], None]]:
    """Flows within this process, on stored problems."""
    import warpsmith as ws

    layer, large = Layer(folder), ws.Conv2d((32, 64, 28, 28), (64, 64, 3, 3), padding=1)
    put_all_families(layer.problem, os.environ["WARPSMITH_STORE"])
    put_all_families(ws.Filter2d((64, 64), (3, 3)), os.environ["WARPSMITH_STORE"])
    families = ("direct", "warpgroup", "winograd", "fft", "fft_halves")
    return {
        "config to text, filter2d_window": generated(ws.Filter2d((9216, 9216), (3, 3)), "filter2d_window"),
        "config to text, fft_block 32x32": generated(ws.Fft((32, 32), 4096), "fft_block"),
        **{f"config to text, conv2d_{name}": generated(large, f"conv2d_{name}") for name in families},
        "command to text (explain filter2d --source)": command("explain", *FILTER, "--source", "--device", "host"),
        "query filter2d, stored": command("query", *FILTER, "--device", "host"),
        "query conv2d, stored": command("query", *LAYER, "--device", "host"),
        "plan conv2d, first call": layer.planned,
        "plan conv2d remembered, call": layer.remembered_after_a_while,
        "export one layer": layer.exported,
        "load_bundle, plan, call": layer.loaded,
        "help text": command("--help"),
    }


def tuned(*words: str) -> Callable[[], None]:
    """Tunes a problem with two more trials each time."""
    trials = iter(range(2, 100, 2))
    return lambda: command("tune", *words, "--trials", str(next(trials)), "--device", "host", "--json")()


def trained() -> Callable[[], None]:
    """Runs a layer of PyTorch forward and backward on CPU tensors."""
    import torch

    import warpsmith.torch as wt

    x, w = torch.ones(2, 8, 16, 16, requires_grad=True), torch.ones(8, 8, 3, 3, requires_grad=True)
    return lambda: wt.conv2d(x, w, padding=1, fallback="default").sum().backward()


def slow_flows() -> Iterator[tuple[str, Callable[[], None], CodeType | None]]:
    """Flows that start worker processes or need PyTorch; the code up to which a flow counts is the third."""
    from warpsmith.tuner.evaluate.evaluator import Evaluator

    yield "tune fft, two more trials", tuned(*TRANSFORM), None
    until = Evaluator.compile.__code__
    yield "tune conv2d, up to the first of two more trials", tuned(*LAYER), until
    yield "tune conv2d, two more trials", tuned(*LAYER), None
    with contextlib.suppress(ModuleNotFoundError):
        train = trained()
        yield "torch conv2d, forward and backward", train, None


def above(counts: Mapping[str, Count], ceilings: Mapping[str, Mapping[str, int]]) -> list[str]:
    """One line for each number of a flow that is above its ceiling, or that has none."""
    found = []
    for flow, count in counts.items():
        for what in ("files", "calls", "chain"):
            most, got = ceilings.get(flow, {}).get(what, 0), getattr(count, what)
            if got > most:
                found.append(f"{flow}: {got} {what}, at most {most} allowed")
    return found


def measured(folder: Path, *, quick: bool) -> dict[str, Count]:
    """Counts every flow, and prints the table."""
    log = folder / "files"
    (folder / "sitecustomize.py").write_text(WORKER)
    os.environ.update(HOPS_LOG=str(log), WARPSMITH_STORE=str(folder / "store.db"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    print("| flow | files | calls between files | longest chain | CPU ms | further files in workers |")
    print("|---|---|---|---|---|---|")
    found = {}
    flows = ((name, work, None) for name, work in quick_flows(folder).items())
    for name, work, until in (*flows, *(() if quick else slow_flows())):
        found[name] = count = counted(work, log, until)
        print(
            f"| {name} | {count.files} | {count.calls} | {count.chain} | {count.ms:.1f} | {count.in_workers} |",
            flush=True,
        )
    return found


def main() -> int:
    """Prints the table, and compares it with the ceilings."""
    parser = argparse.ArgumentParser(description="Counts files and calls between files of the most frequent flows.")
    parser.add_argument("root", nargs="?", type=Path, default=Path())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = measured(Path(folder), quick=given.quick)
    print(f"\nmodules in an import circle: {len(in_circles(imports(texts_of(given.root))))}")
    ceilings = json.loads(CEILINGS.read_text()) if CEILINGS.exists() else {}
    if given.write:
        ceilings |= {
            flow: {what: int(ROOM * getattr(count, what)) for what in ("files", "calls", "chain")}
            for flow, count in counts.items()
        }
        CEILINGS.write_text(json.dumps(ceilings, indent=2) + "\n")
    over = above(counts, ceilings) if given.check else []
    print("\n".join(over), file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
