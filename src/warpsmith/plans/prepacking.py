"""Prepacking of a plan's inputs: the steps that depend on bound inputs alone run once, the others in each call."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from warpsmith.devices.checked_calls import CheckedCalls
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import launches_of
from warpsmith.devices.module import Launches
from warpsmith.devices.signature import Signature, weights_bytes
from warpsmith.devices.workspaces import Workspaces
from warpsmith.generator.prepacking import SplitProgram, split_program
from warpsmith.plans.loaded import LoadedProgram


def prepacked(whole: LoadedProgram, inputs: Mapping[str, Any]) -> LoadedProgram | None:
    """The part of a program that runs in each call, once the steps that depend on bound inputs alone have run.

    As many inputs are prepacked as possible; the other ones remain inputs of the part.

    Args:
        whole: the program.
        inputs: arrays by the names of the problem's inputs.

    Returns: None if no step depends on some of these inputs alone.

    Raises:
        BadArgument: an array does not fit.
        OutOfMemory: the results of these steps do not fit.
    """
    for count in range(len(inputs), 0, -1):
        for names in itertools.combinations(inputs, count):
            if (parts := split_program(whole.match.program, names)) is not None:
                return _loaded_rest(whole, {name: inputs[name] for name in names}, parts)
    return None


def _loaded_rest(whole: LoadedProgram, inputs: Mapping[str, Any], parts: SplitProgram) -> LoadedProgram:
    """Runs the first part, and loads the rest."""
    runtime, problem = whole.runtime, whole.problem
    memory = Workspaces(runtime, parts.workspaces)
    kept = memory.allocate_kept().addresses
    _run_first(whole, inputs, parts, kept)
    executable = Executable.load(runtime, parts.rest, whole.binaries)
    by_value = parts.rest.by_value
    operands = {each.name: each for each in problem.inputs}
    fixed = {name: weights_bytes(inputs[name], operands[name]) if name in by_value else b"" for name in inputs}

    def launches(signature: Signature) -> Launches:
        return launches_of(executable, runtime, dataclasses.replace(signature.arguments, kept=kept))

    return LoadedProgram.of_part(problem, whole.match, whole.binaries, runtime, executable, fixed, launches, memory)


def _run_first(whole: LoadedProgram, inputs: Mapping[str, Any], parts: SplitProgram, kept: Mapping[str, int]) -> None:
    """Runs the steps of the bound inputs and waits for them, because calls may come on any stream."""
    runtime = whole.runtime
    signature = Signature.of_inputs(whole.problem, parts.first, inputs)
    executable = Executable.load(runtime, parts.first, whole.binaries)
    try:
        arrays = tuple(inputs[name] for name in signature.caller_inputs)
        call = CheckedCalls(signature, runtime).read(arrays, (), None)
        launches = launches_of(executable, runtime, dataclasses.replace(signature.arguments, kept=kept))
        launches.launch(call.addresses, call.values, call.stream)
        call.queued()
        runtime.synchronize()
    finally:
        executable.close()
