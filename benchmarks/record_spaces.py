"""Measures every config of a part of each family's space on this machine's GPU, for `search_quality.py` to replay.

    usage: python benchmarks/record_spaces.py FOLDER [NAME ...]

It writes FOLDER/NAME.jsonl.gz, with about 2000 configs each. Each takes half a minute on an H200 with 16 cores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import warpsmith as ws
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import DType, NonFinite
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Config, Space, Value
from warpsmith.store.record import Measurement
from warpsmith.tuner.costs import Ledger
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.run.flow import AllOf, Flow
from warpsmith.tuner.spaces.recording import Outcome, record
from warpsmith.tuner.workers.deadlines import Deadlines

CUDA = DeviceRef(DeviceKind.CUDA)
SIZE = (4096, 4096)

Part = tuple[ws.Filter2d, Mapping[str, tuple[Value, ...]]]
"""A problem, and the allowed values of some of the family's parameters; the others keep all their values."""

PARTS: Mapping[str, Part] = {
    "filter2d_plain": (ws.Filter2d(image=SIZE, filter=(5, 5)), {}),
    "filter2d_window": (
        ws.Filter2d(image=SIZE, filter=(5, 5)),
        {
            "path": ("global", "shuffle", "shared"),
            "weights": ("argument",),
            "columns": (2, 4),
            "load_vector": (4,),
            "store_vector": (4,),
            "order": ("taps",),
            "tail": ("whole",),
            "unroll": (1, 2, 4, 8),
            "block_strips": (1, 2, 4),
            "block_columns": (32, 64, 128),
            "load": ("cached",),
            "store": ("streaming",),
            "prefetch": (0, 1, 3),
            "min_blocks": (0, 4),
        },
    ),
    "filter2d_warpgroup": (
        ws.Filter2d(image=SIZE, filter=(9, 9), nonfinite=NonFinite.ANY),
        {"weights": ("argument",), "store": ("streaming",)},
    ),
    "filter2d_matrix": (
        ws.Filter2d(image=SIZE, filter=(5, 5), dtype=DType.UINT8),
        {"weights": ("argument",), "store": ("streaming",), "prefetch": (0, 1, 3)},
    ),
}
"""Parts by family: spaces small enough to be measured whole, with good and bad configs of every kind."""


def outcomes(evaluator: Evaluator, family: str, space: Space) -> Iterator[tuple[Config, Outcome]]:
    """Outcome of every config, with full sampling: a search also learns from the times of slow configs."""
    configs = list(space.configs())
    programs = (evaluator.program(family, config) for config in configs)
    with Flow(evaluator, AllOf(programs), Ledger(), len(configs)) as flow:
        for trial in flow.trials(lambda: None):
            outcome = trial.outcome
            yield trial.config, outcome.timing.median_ns if isinstance(outcome, Measurement) else outcome.kind


def main() -> None:
    """Records the named spaces, or all."""
    folder, *names = sys.argv[1:]
    for name in names or PARTS:
        problem, choices = PARTS[name]
        family = next(each for each in FAMILIES if each.name == name)
        space = family.space(problem, CUDA.device()).narrowed(choices)
        with Evaluator.open(problem, CUDA, (family,), CompilerChoice.AUTO, 0, Deadlines(), sanitize=False) as evaluator:
            recording = record(
                Path(folder) / f"{name}.jsonl.gz",
                problem,
                evaluator.device,
                family,
                space,
                outcomes(evaluator, name, space),
                {**evaluator.bench.opened.environment, "compiler": evaluator.compiler_identity},
            )
        print(f"{name}: {len(recording.outcomes)} configs, the best {recording.best_ns / 1e3:.2f} us", flush=True)


if __name__ == "__main__":
    main()
