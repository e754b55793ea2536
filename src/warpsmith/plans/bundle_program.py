"""Programs and machine code as a bundle's manifest describes them, with every value checked before use."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Container, Mapping
from typing import Any

from warpsmith.devices.compiler import Binary, BinaryKind, Usage
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import (
    Argument,
    ByValue,
    Launch,
    LibraryCall,
    Pointer,
    Program,
    TensorMap,
    Texture,
    Transformed,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_ARCH = re.compile(r"sm_\d{2,3}[af]?")
_COUNTS = ("registers", "spill_bytes", "shared_bytes")
_FIELDS = ("kind", "arch", "compiler", *_COUNTS)
_MOST = 2**31
"""Upper bound of the sizes of grids, blocks and shared memory."""

_DIRECTIVE = re.compile(
    r"""[#][ \t]*(?:pragma[ \t]+unroll\b
    | (?:if|ifdef|ifndef|elif|else|endif|define|undef)\b
    | include[ \t]*<(?:cuda_\w+|mma)\.h>)""",
    re.VERBOSE,
)
_OTHER_WORDS = re.compile(r"\?\?=|%:|\b_Pragma\b|\b__has_(?:include|embed)\b")
"""Other spellings of a directive (C++17, [lex.digraph]; trigraphs of older standards), and operators that look for
files.
"""


def checked_text(source: str) -> str:
    """Checks that a kernel's CUDA source reads no file of the machine that compiles it, and returns it.

    Only the preprocessor directives of generated kernels are allowed: conditions, macros, `#pragma unroll`, and CUDA's
    own headers.

    Raises ValueError with the first directive that is not allowed.
    """
    text = re.sub(r"\\[ \t\r]*\n", "", source)  # a directive may be spread over lines
    for place in (match.start() for match in re.finditer("#", text)):
        if not _DIRECTIVE.match(text, place):
            raise ValueError(f"its CUDA text has {text[place:].splitlines()[0][:80]!r}, which no exported kernel has")
    if found := _OTHER_WORDS.search(text):
        raise ValueError(f"its CUDA text has {found[0]!r}, which no exported kernel has")
    return source


def check_program(program: Program, problem: Problem) -> None:
    """Checks every value of a program from a manifest.

    Raises ValueError or TypeError for names that are no identifiers, for invalid sizes, for arguments that are neither
    an operand of the problem nor a workspace, and for library calls that reach beyond their buffers.
    """
    operands = {operand.name: operand.span_bytes for operand in problem.operands}
    workspaces = {workspace.name: workspace.nbytes for workspace in program.workspaces}
    if operands.keys() & workspaces.keys():
        raise ValueError("two of its buffers have one name")
    for name, nbytes in workspaces.items():
        _check_name(name)
        _check_whole(nbytes, 0, 2**63)
    for unit in program.units:
        if unit.name:
            _check_name(unit.name)
    buffers = operands | workspaces
    for launch in program.launches:
        _check_launch(launch, buffers, {operand.name for operand in problem.inputs})
    for call in program.calls:
        _check_call(call, buffers, {operand.name for operand in problem.inputs})


def _check_call(call: LibraryCall, buffers: Mapping[str, int], inputs: set[str]) -> None:
    """Checks that a library call stays in its buffers: a library gets sizes and never checks the memory's own size."""
    for argument in call.arguments:
        _check_argument(argument, buffers, inputs)
    reaches = call.parameters.reaches
    if len(reaches) != len(call.arguments):
        raise ValueError(f"a call of {call.library} takes {len(reaches)} buffers; got {len(call.arguments)}")
    for argument, nbytes in zip(call.arguments, reaches, strict=True):
        if argument.offset + nbytes > buffers[argument.buffer]:
            raise ValueError(f"a call of {call.library} reaches beyond {argument.buffer}")


def _check_launch(launch: Launch, buffers: Mapping[str, int], inputs: set[str]) -> None:
    _check_name(launch.entry)
    for extent in (*launch.grid, *launch.block):
        _check_whole(extent, 1, _MOST)
    _check_whole(launch.shared_bytes, 0, _MOST)
    for constant in launch.constants:
        _check_name(constant.symbol)
        _check_among(constant.operand, inputs)
    for argument in launch.arguments:
        _check_argument(argument, buffers, inputs)


def _check_argument(argument: Argument, buffers: Mapping[str, int], inputs: set[str]) -> None:
    match argument:
        case Pointer(buffer, offset):
            _check_among(buffer, buffers)
            _check_whole(offset, 0, max(1, buffers[buffer]))
        case ByValue(operand):
            _check_among(operand, inputs)
        case Transformed(operand, matrix):
            _check_among(operand, inputs)
            if not matrix or not all(isinstance(value, int | float) for row in matrix for value in row):
                raise TypeError("a matrix must be rows of numbers")
        case Texture(buffer):
            _check_among(buffer, buffers)
            _check_whole(argument.width, 1, _MOST)
            _check_whole(argument.channels, 1, 5)
            for extent in (argument.height, argument.pitch):
                _check_whole(extent, 0, _MOST)
        case TensorMap(buffer):
            _check_among(buffer, buffers)
            _check_map(argument, buffers[buffer])


def _check_map(tensor_map: TensorMap, nbytes: int) -> None:
    """Checks that a tensor map describes images inside its buffer, so that a copy reads nothing beyond them."""
    for extent in (*tensor_map.shape, *tensor_map.extent, *tensor_map.step, tensor_map.channels, tensor_map.pixels):
        _check_whole(extent, 1, _MOST)
    for pixel in tensor_map.first:
        _check_whole(pixel, -_MOST, _MOST)
    pairs = tensor_map.first, tensor_map.extent, tensor_map.step
    if len(tensor_map.shape) != 4 or any(len(each) != 2 for each in pairs):
        raise ValueError("a map is of images, rows, columns and channels")
    if tensor_map.dtype.itemsize != 2 or tensor_map.channels * tensor_map.dtype.itemsize != 128:
        raise ValueError("a map is of 64 channels of 16 bits")
    if math.prod(tensor_map.shape) * tensor_map.dtype.itemsize > nbytes:
        raise ValueError(f"a map reaches beyond {tensor_map.buffer}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{str(name)[:80]!r} is no name of a kernel, a variable or a buffer")


def _check_among(name: object, known: Container[str]) -> None:
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{str(name)[:80]!r} is none of its buffers")


def _check_whole(value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < most:
        raise ValueError(f"{str(value)[:80]} is no size from {least} to {most - 1}")


def sources_of(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """File entries of a manifest entry's sources: one per unit, or a single one in the first format."""
    sources = entry["sources"] if "sources" in entry else [entry["source"]]
    if not isinstance(sources, list) or len({unit_of(each) for each in sources}) != len(sources):
        raise ValueError("two of its texts are of one unit")
    return sources


def unit_of(file: dict[str, Any]) -> str:
    """Unit that a file belongs to; the first format names none. Raises TypeError."""
    unit = file.get("unit", "")
    if not isinstance(unit, str):
        raise TypeError("the unit of a file must be text")
    return unit


def binary_spec(binary: Binary) -> dict[str, Any]:
    """Manifest fields of a binary, without its file."""
    most = dataclasses.asdict(binary.most)
    return {"kind": binary.kind, "arch": binary.arch, "compiler": binary.compiler, **most}


@dataclasses.dataclass(frozen=True, slots=True)
class UnitBinary:
    unit: str
    binary: Binary


def checked_binary(spec: dict[str, Any]) -> dict[str, Any]:
    """Checks the machine code fields of a manifest's entry and returns them.

    Raises ValueError, TypeError or LookupError for anything but GPU machine code. A shared library of the host is
    refused too: loading it would run its maker's code before any of its kernels is called.
    """
    kind = BinaryKind(spec["kind"])
    if kind is not BinaryKind.CUBIN:
        raise ValueError(f"it lists machine code of kind {kind}, which no export writes and loading would run")
    fields = {name: spec[name] for name in _FIELDS}
    if unknown := spec.keys() - {*_FIELDS, "unit", "path", "sha256"}:
        raise ValueError(f"it says {sorted(unknown)} of machine code")
    if not isinstance(spec["compiler"], str):
        raise TypeError("the compiler of machine code must be text")
    if not isinstance(spec["arch"], str) or not _ARCH.fullmatch(spec["arch"]):
        raise ValueError(f"{str(spec['arch'])[:80]!r} is no architecture of a GPU")
    for name in _COUNTS:
        if spec[name] is not None:
            _check_whole(spec[name], 0, _MOST)
    return fields | {"kind": kind}


def binary_of(spec: dict[str, Any], image: bytes, program: Program) -> UnitBinary:
    """Machine code of a unit from its manifest entry and the content of its file.

    A manifest gives the maximum over all kernels, which is then taken for each kernel. Raises as `checked_binary` does.
    """
    fields, unit = checked_binary(spec), unit_of(spec)
    usage = Usage(*(fields[name] for name in _COUNTS))
    kernels = dict.fromkeys(program.compilation(unit).entries, usage)
    return UnitBinary(unit, Binary(fields["kind"], image, fields["arch"], fields["compiler"], kernels))
