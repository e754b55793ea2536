"""Builds the stored row of a measured problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conv2d_bench.lines import Row
from conv2d_bench.points import paper_reductions
from conv2d_bench.tried import Tried
from conv2d_bench.untuned import Choice
from warpsmith.generator.conv2d import Conv2d
from warpsmith.store.record import COPY, Timing
from warpsmith.tuner.evaluate.outcomes import Contender, InTurns

APART, LAST = "apart", "last"
"""Names of cuDNN's image layouts: NCHW (channels apart) and NHWC (channels last)."""


def layout_of(library: str) -> str:
    """The layout that a library's name states."""
    return LAST if library.endswith("channels last") else APART


def row_of(problem: Conv2d, chosen: Sequence[Contender], beside: InTurns, alone_ns: Mapping[str, float]) -> Row:
    """Row of a problem, with times in us.

    `in_turns_us` has the fastest candidate of each family that took turns. `families_us` has the fastest candidate of
    every family, timed alone. `cudnn_us` has cuDNN's times by layout.

    Args:
        problem: the problem.
        chosen: the candidates that took turns.
        beside: their times, and the libraries'.
        alone_ns: time of each family's fastest candidate, in ns.
    """
    ranked = sorted(zip(chosen, beside.ours, strict=True), key=lambda each: each[1].median_ns)
    in_turns: dict[str, float] = {}
    for contender, timing in ranked:
        in_turns.setdefault(contender.program.family, _us(timing))
    winner, timing = ranked[0]
    libraries = [each for each in beside.baselines if each.name != COPY]
    row: Row = {
        "ours": {
            "family": winner.program.family,
            "config": winner.program.config.key(),
            "us": _us(timing),
            "error": winner.measurement.max_error,
        },
        "in_turns_us": in_turns,
        "families_us": {name: round(ns / 1e3, 2) for name, ns in sorted(alone_ns.items(), key=lambda each: each[1])},
        "cudnn_us": {layout_of(each.name): _us(each.timing) for each in libraries},
        "libraries": [each.name for each in libraries],
        "left_out": {each.name: each.reason for each in beside.left_out},
        "policy": timing.policy,
    }
    if libraries:
        row["ratio"] = round(min(row["cudnn_us"].values()) / row["ours"]["us"], 4)
    seconds = timing.median_ns * 1e-9
    row["tred_s"] = round(paper_reductions(problem) / seconds * 1e-12, 3)
    row["tflop_s"] = round(problem.flops / seconds * 1e-12, 3)
    return row


def answer_row(
    choice: Choice, answer: Contender | None, chosen: Sequence[Contender], beside: InTurns, tried: Tried
) -> Row:
    """What answers without a search: its time in turns, and each candidate alone: family, config, us or None for a
    failure, and fingerprint of the program.

    Args:
        choice: the answer, and what the families' models expect.
        answer: the answer's measurement; None if it failed.
        chosen: the candidates that took turns.
        beside: their times, and the libraries'.
        tried: results of all candidates.
    """
    alone = [
        (each.family.name, each.config.key(), None if ns is None else ns / 1e3, each.program.fingerprint)
        for each, ns in tried.times
    ]
    row: Row = {**choice.row(), "tried_us": alone, "answer": {"family": choice.family, "config": choice.config.key()}}
    if answer is None:
        return row
    us = next(_us(time) for each, time in zip(chosen, beside.ours, strict=True) if each is answer)
    row["answer"] |= {"us": us, "error": answer.measurement.max_error}
    libraries = [_us(each.timing) for each in beside.baselines if each.name != COPY]
    if libraries:
        row["untuned_ratio"] = round(min(libraries) / us, 4)
    return row


def _us(timing: Timing) -> float:
    return round(timing.median_ns / 1e3, 3)
