"""Plugin that compiles the kernels of a run's tests together: a first pass over the tests only takes down the texts.

Under the sanitizers g++ takes 0.3 s for a kernel of a few lines, most of it for the functions of the host's headers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
from _pytest.runner import runtestprotocol

from together import together
from warpsmith.devices.compiler import Binary
from warpsmith.devices.host.compiler import HostCompiler, cooperates, dynamic_shared, without_comments
from warpsmith.generator.program import Program

USES = "run_kernel"
"""Fixture of the tests that have kernels to take down."""


class Kernels:
    """Kernels of a run, and those compiled so far: each program with its launches in the binary."""

    def __init__(self) -> None:
        self.is_first_pass = False
        self._wanted: dict[bool, dict[Program, None]] = defaultdict(dict)
        self._compiled: dict[Program, tuple[Program, Binary]] = {}

    def compiled(self, program: Program, alone: Callable[[Program], Binary]) -> tuple[Program, Binary]:
        """The program and its binary, from `alone` if the first pass has not met it."""
        if self.is_first_pass:
            text = without_comments(program.source)
            if not dynamic_shared(text):  # these texts declare such arrays outside of functions
                self._wanted[cooperates(text)][program] = None
            pytest.skip("the first pass runs no kernel")
        return self._compiled.get(program) or (program, alone(program))

    def compile(self, compiler: HostCompiler) -> None:
        for programs in self._wanted.values():
            whole, placed = together(tuple(programs))
            binary = compiler.compile(whole.compilation())
            self._compiled |= {program: (own, binary) for program, own in zip(programs, placed, strict=True)}


KERNELS = Kernels()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    KERNELS.is_first_pass = True
    items = [item for item in session.items if USES in item.fixturenames]  # type: ignore[attr-defined]
    for item, following in zip(items, [*items[1:], *items[:1]], strict=True):
        runtestprotocol(item, log=False, nextitem=following)
    KERNELS.is_first_pass = False
    KERNELS.compile(HostCompiler(sanitize=True))
