"""Trials shipped with the package, from which the prior of a first search learns."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.files import write_whole
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store.trials import FASTEST, OTHERS, Sample

FORMAT, VERSION = "warpsmith samples", 1
SHIPPED = Path(__file__).with_name("shipped_samples.jsonl.gz")


@functools.cache
def shipped_samples() -> tuple[Sample, ...]:
    """The samples in SHIPPED: some 80 per problem, measured on an H200. Reading them takes 60 ms, once per process."""
    return read_samples(SHIPPED)


def read_samples(path: Path) -> tuple[Sample, ...]:
    """Reads a file of `write_samples`. Raises BadArgument if it cannot be read or has another format."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header, *rows = map(json.loads, file)
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise BadArgument(f"{path} holds no samples of this version")
        subjects = [
            (Problem.from_spec(operation, spec), Device.from_spec(device))
            for operation, spec, device in header["subjects"]
        ]
        return tuple(
            Sample(problem, device, family, Config.of(values), time_ns)
            for (problem, device), family, values, time_ns in ((subjects[number], *rest) for number, *rest in rows)
        )
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise BadArgument(f"{path} holds no samples that can be read: {error}") from None


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Writes, for each problem on a device, its FASTEST samples and OTHERS spread over the rest, as JSON lines."""
    by_subject: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        by_subject.setdefault((sample.problem.key(), sample.device.key()), []).append(sample)
    members = [by_subject[key] for key in sorted(by_subject)]
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "subjects": [[of[0].problem.operation, of[0].problem.spec(), of[0].device.spec()] for of in members],
    }
    kept = itertools.chain.from_iterable(
        ([number, each.family, each.config.values(), each.time_ns] for each in _kept(of))
        for number, of in enumerate(members)
    )
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in (header, *kept))
    write_whole(path, gzip.compress(text.encode(), mtime=0))


def _kept(members: Sequence[Sample]) -> list[Sample]:
    """The fastest samples, then others at equal distances in order of time, failures last."""
    ordered = sorted(members, key=lambda each: (each.time_ns is None, each.time_ns or 0.0))
    rest = ordered[FASTEST:]
    return ordered[:FASTEST] + rest[:: max(1, -(-len(rest) // OTHERS))]
