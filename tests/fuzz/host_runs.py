"""Runs candidates on the host device on given operands, in guarded buffers."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import precompiled
from candidates import Candidate
from warpsmith.devices.compiler import Binary
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.steps import Compilation
from warpsmith.store.record import Failure
from warpsmith.tuner.evaluate.buffers import GUARD_BYTES
from warpsmith.tuner.evaluate.dataset import Dataset, Draw
from warpsmith.tuner.evaluate.loaded import LoadedCandidate, loaded
from warpsmith.tuner.operations.judge import Judge, Operands


class _Readable(Dataset):
    """A dataset on the device whose results are read instead of verified."""

    def draw(self, draw: Draw, *, checks: bool = False) -> None:  # noqa: ARG002 - there is no reference
        self._kept = draw()
        self._names = self._kept.keys()
        self.upload()

    def results(self) -> list[NDArray[Any]]:
        self._runtime.synchronize()
        return [self._sets[0][each.name].download()[0] for each in self._problem.outputs]


def verified(case: Candidate, operands: Operands, judge: Judge[Any]) -> str | None:
    """The error in a candidate's results, or in its writes beside them, in one line; None if all is right."""
    data = Dataset(_runtime(), case.question.problem, 1, GUARD_BYTES, None, lambda: operands, judge=judge)
    with contextlib.closing(data), _loaded(case) as candidate:
        found = candidate.damage_or(data.check(candidate.verified(candidate.on(data))))
        if not isinstance(found, Failure) and (changed := data.check_sets([0])) is not None:
            found = changed[1]
        return f"{found.kind}: {found.message}" if isinstance(found, Failure) else None


def results(case: Candidate, draws: Iterable[Operands]) -> Iterator[NDArray[Any]]:
    """Yields the result of a candidate for each draw of its operands. Draws may differ only in operands that kernels
    read from memory.
    """
    first, *others = draws
    data = _Readable(_runtime(), case.question.problem, 1, GUARD_BYTES, None, lambda: first)
    with contextlib.closing(data), _loaded(case) as candidate:
        run = candidate.verified(candidate.on(data))
        for operands in (first, *others):
            data.draw(functools.partial(_given, operands))
            data.poison_results()
            run(0)
            if (damage := candidate.damage()) is not None:
                raise AssertionError(damage.message)
            yield data.results()[0]


def _given(operands: Operands) -> Operands:
    return operands


def _loaded(case: Candidate) -> contextlib.AbstractContextManager[LoadedCandidate]:
    binaries = {name: _compiled(unit) for name, unit in case.program.compilations().items()}
    return loaded(_runtime(), case.program, binaries, GUARD_BYTES, case.question.problem.workspace_limit)


@functools.cache
def _runtime() -> HostRuntime:
    return HostRuntime(workers=2)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="warpsmith-loops-")


@functools.lru_cache(maxsize=200)
def _compiled(unit: Compilation) -> Binary:
    """A unit compiled without optimisation, with which g++ takes twice as long; the kernels run only for a moment."""
    return HostCompiler(precompiled.script(Path(_folder().name), "-O0")).compile(unit)
