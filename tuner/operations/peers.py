"""Vendor and other libraries for a problem, where they are installed: a winner must beat them."""

from __future__ import annotations

import contextlib
import importlib
from importlib.util import find_spec
from typing import Any

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.store.record import LeftOut
from warpsmith.tuner.operations.answers import random_operands
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.peer import Peer
from warpsmith.tuner.operations.reference import Operands
from warpsmith.tuner.operations.registry import judge_of


def candidates(
    problem: Problem, operands: Operands, kind: DeviceKind, sets: int = 1, judge: Judge[Any] | None = None
) -> tuple[Peer | LeftOut, ...]:
    """Libraries for `problem` on this kind of device, each with `sets` sets of buffers, or the reason why it is left
    out.

    The operation's judge names them, or `judge` if it is given.
    """
    return tuple(maker.made() for maker in (judge or judge_of(problem)).peers(problem, operands, kind, sets))


def peers(
    problem: Problem, operands: Operands, kind: DeviceKind, sets: int = 1, judge: Judge[Any] | None = None
) -> tuple[Peer, ...]:
    """The `candidates` that are installed and solve the problem."""
    return tuple(each for each in candidates(problem, operands, kind, sets, judge) if isinstance(each, Peer))


def import_ahead(problem: Problem, kind: DeviceKind, judge: Judge[Any] | None = None) -> None:
    """Imports the libraries for a problem, in a thread beside others: PyTorch takes 3 s, in which a large problem can
    be laid out. A library that fails here fails again, and is reported, when it is used.
    """
    able = judge or judge_of(problem)
    with contextlib.suppress(Exception):
        small = able.smaller(problem)
        for maker in able.peers(small, random_operands(small, seed=0), kind, 1):
            if package := next(filter(find_spec, maker.packages), None):
                importlib.import_module(package)


def warm_up(problem: Problem, operands: Operands, kind: DeviceKind, judge: Judge[Any] | None = None) -> None:
    """Loads the libraries for a problem and lets them compile what they need, on a problem of a few elements.

    Libraries that are left out of `problem` for the time that they would take are skipped.
    """
    able = judge or judge_of(problem)
    small = able.smaller(problem)
    wanted = {maker.name for maker in able.peers(problem, operands, kind, 1) if maker.why_not is None}
    for maker in able.peers(small, random_operands(small, seed=0), kind, 1):
        peer = maker.made() if maker.name in wanted else None
        if isinstance(peer, Peer):
            with contextlib.suppress(Exception):
                peer.run()
                peer.result()
