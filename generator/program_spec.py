"""JSON values of steps and workspaces, and back.

Fields that most of them leave at the default are omitted, so that the fingerprints of stored programs do not change.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from warpsmith.generator.library import Library
from warpsmith.generator.library_calls import parameters_of
from warpsmith.generator.problem import DType
from warpsmith.generator.steps import (
    Argument,
    ByValue,
    Constant,
    Launch,
    LibraryCall,
    Lifetime,
    Pointer,
    Step,
    TensorMap,
    Texture,
    Transformed,
    Workspace,
)


def step_spec(step: Step) -> dict[str, Any]:
    """A step as JSON values; `step_of` reads it back."""
    match step:
        case Launch():
            return launch_spec(step)
        case LibraryCall(parameters, arguments):
            return {
                "library": str(step.library),
                "arguments": [_argument_spec(argument) for argument in arguments],
                "parameters": parameters.spec(),
            }


def launch_spec(launch: Launch) -> dict[str, Any]:
    """A launch as JSON values."""
    spec: dict[str, Any] = {
        "entry": launch.entry,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "arguments": [_argument_spec(argument) for argument in launch.arguments],
    }
    if launch.constants:
        spec["constants"] = [dataclasses.asdict(constant) for constant in launch.constants]
    if launch.unit:
        spec["unit"] = launch.unit
    return spec


def _argument_spec(argument: Argument) -> dict[str, Any]:
    match argument:
        case Pointer(buffer, 0):
            return {"pointer": buffer}
        case Pointer(buffer, offset):
            return {"pointer": buffer, "offset": offset}
        case ByValue(operand):
            return {"by_value": operand}
        case Transformed(operand, matrix):
            return {"transformed": operand, "matrix": [list(row) for row in matrix]}
        case Texture(dtype=dtype):
            return {"texture": {**dataclasses.asdict(argument), "dtype": str(dtype)}}
        case TensorMap(dtype=dtype):
            return {"tensor_map": {**dataclasses.asdict(argument), "dtype": str(dtype)}}


def workspace_spec(workspace: Workspace) -> dict[str, Any]:
    """A workspace as JSON values; `workspace_of` reads it back."""
    spec: dict[str, Any] = {"name": workspace.name, "nbytes": workspace.nbytes}
    if workspace.lifetime is not Lifetime.CALL:
        spec["lifetime"] = str(workspace.lifetime)
    if workspace.holds:
        spec["holds"] = list(workspace.holds)
    return spec


def step_of(spec: dict[str, Any]) -> Step:
    """The step that `step_spec` wrote. Raises ValueError, TypeError or LookupError for anything else."""
    if "library" not in spec:
        return launch_of(spec)
    library = Library(spec["library"])
    arguments = tuple(_argument_of(argument) for argument in spec["arguments"])
    pointers = tuple(argument for argument in arguments if isinstance(argument, Pointer))
    if pointers != arguments:
        raise TypeError("a library takes pointers alone")
    return LibraryCall(parameters_of(library, spec["parameters"]), pointers)


def launch_of(spec: dict[str, Any]) -> Launch:
    """The launch that `launch_spec` wrote. Raises as `step_of` does."""
    grid_x, grid_y, grid_z = spec["grid"]
    block_x, block_y, block_z = spec["block"]
    return Launch(
        entry=spec["entry"],
        grid=(grid_x, grid_y, grid_z),
        block=(block_x, block_y, block_z),
        arguments=tuple(_argument_of(argument) for argument in spec["arguments"]),
        shared_bytes=spec["shared_bytes"],
        constants=tuple(Constant(**constant) for constant in spec.get("constants", ())),
        unit=spec.get("unit", ""),
    )


def _argument_of(spec: dict[str, Any]) -> Argument:
    match spec:
        case {"pointer": buffer}:
            return Pointer(buffer, spec.get("offset", 0))
        case {"transformed": operand, "matrix": matrix}:
            return Transformed(operand, tuple(tuple(row) for row in matrix))
        case {"texture": fields}:
            return Texture(**{**fields, "dtype": DType(fields["dtype"])})
        case {"tensor_map": fields}:
            tuples = {name: tuple(fields[name]) for name in ("shape", "first", "extent", "step")}
            return TensorMap(**{**fields, **tuples, "dtype": DType(fields["dtype"])})
        case _:
            return ByValue(spec["by_value"])


def workspace_of(spec: dict[str, Any]) -> Workspace:
    """The workspace that `workspace_spec` wrote. Raises as `step_of` does."""
    lifetime, holds = Lifetime(spec.get("lifetime", Lifetime.CALL)), tuple(spec.get("holds", ()))
    return Workspace(spec["name"], spec["nbytes"], lifetime, holds)
