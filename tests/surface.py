"""The surface that users and their scripts rely on: names, options, exit codes, signatures and JSON documents.

`python tests/surface.py > tests/unit/surface.json` writes what `tests/unit/test_surface.py` compares with. A difference
there is a decision about users' scripts, and belongs into CHANGELOG.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import json
from collections.abc import Iterator
from typing import Any

import typer

import warpsmith
import warpsmith.torch as torch_functions
from warpsmith import errors
from warpsmith.cli.app import COMMANDS, build, run
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import OPERATIONS, families_for

PROBLEMS: tuple[Problem, ...] = (
    warpsmith.Filter2d((1080, 1920), (3, 3)),
    warpsmith.Filter2d((512, 512), (31, 31), accuracy="imagewise", nonfinite="any"),
    warpsmith.Filter2d((64, 48), (5, 5), channels=3, dtype="uint8", border="symmetric", weights=tuple(range(25))),
    warpsmith.Filter1d(2**24, 17),
    warpsmith.Filter1d(4096, 129, batch=4, mode="valid", dtype="complex64", taps_dtype="complex64", down=8),
    warpsmith.Filter1d(2048, 4, 8, "causal", 64, 64, "btc", "bfloat16"),
    warpsmith.Filter1d(2**24, 2**24, lags=(-128, 128)),
    warpsmith.Filter1d(2**20, 2**20, nonfinite="any"),
    warpsmith.Filter1d(1000, 5, channels=3, lags=(-2, 400), dtype="int16", weights=tuple(range(5))),
    warpsmith.Filter1d(2048, 4, 8, "causal", 64, 64, "btc", "float16", bias=True, activation="silu"),
    warpsmith.Filter1d(2048, 4, 8, "causal", 64, 64, pass_="backward"),
    warpsmith.Filter1d(2048, 4, 8, "causal", 64, 64, "btc", "bfloat16", pass_="backward"),
    warpsmith.Filter1d(1, 4, 8, "causal", 64, 64, state="carried", state_rows=9),
    warpsmith.Filter1d(2048, 4, 1, "causal", 64, 64, "btc", "bfloat16", state="both", packed=8),
    warpsmith.Filter1d(2048, 64, 1, "causal", 64, 4, "btc", "bfloat16", taps_dtype="bfloat16"),
    warpsmith.Filter1d(1024, 1024, 64, "causal", 8, 8, dtype="bfloat16", taps_dtype="bfloat16"),
    warpsmith.Filter1d(1024, 128, 64, "causal", 8, 8, dtype="bfloat16", taps_dtype="bfloat16", pass_="wgrad"),
    warpsmith.Filter1d(
        1024, 128, 64, "causal", 8, 8, dtype="bfloat16", taps_dtype="bfloat16", bias=True, pass_="backward"
    ),
    warpsmith.Filter1d(1024, 1024, 64, "causal", 8, 8, pass_="wgrad"),
    warpsmith.Filter1d(480, 16384, mode="causal", state="carried", circular=True, state_width=32768),
    warpsmith.Filter1d(4096, 4096, 64, "causal", 8, 8, dtype="bfloat16", precision="f16"),
    warpsmith.Filter1d(2048, 32, 1, "causal", 64, 4, dtype="bfloat16", gates="both"),
    warpsmith.Filter1d(2048, 7, 1, "causal", 64, 64, dtype="bfloat16", gates="both", projection=3),
    warpsmith.Fft(256, 64),
    warpsmith.Fft((32, 32), 128, kind="c2r", norm="ortho"),
    warpsmith.Fft((210, 360), 2, kind="c2c"),
    warpsmith.Fft((256, 256), kind="c2c", layout="transposed"),
    *(warpsmith.Conv2d((32, 64, 56, 56), (64, 64, 3, 3), padding=1, pass_=each) for each in warpsmith.Pass),
    *(warpsmith.Conv2d((8, 16, 64, 64), (16, 16, 11, 11), padding=5, pass_=each) for each in warpsmith.Pass),
    *(
        warpsmith.Conv2d(
            (8, 96, 28, 28), (96, 1, 5, 5), groups=96, padding=2, stride=2, dtype="float16", layout="nhwc", pass_=each
        )
        for each in warpsmith.Pass
    ),
    warpsmith.Conv2d((2, 32, 20, 20), (32, 32, 3, 3), padding=1, bias=True, relu=True, dtype="bfloat16"),
    warpsmith.Conv2d((16, 3, 64, 64), (32, 3, 11, 11)),
    warpsmith.Conv2d((16, 3, 64, 64), (32, 3, 3, 3), pass_="wgrad"),
    warpsmith.Conv2d((64, 64, 12, 12), (64, 64, 5, 5)),
    warpsmith.Conv2d((64, 8, 40, 40), (4, 8, 9, 9)),
    warpsmith.Conv2d((32, 64, 8, 8), (64, 1, 7, 7), groups=64, padding=3),
    warpsmith.Conv2d((8, 64, 28, 28), (96, 64, 3, 3), padding=1, layout="nhwc", dtype="float16"),
    warpsmith.Conv2d((8, 64, 28, 28), (96, 64, 3, 3), padding=1, layout="nhwc", precision="tf32"),
    *(warpsmith.Conv2d((8, 64, 28, 28), (96, 64, 1, 1), pass_=each) for each in warpsmith.Pass),
    *(warpsmith.Conv2d((24, 96, 1, 1), (32, 96, 1, 1), pass_=each) for each in warpsmith.Pass),
    *(
        warpsmith.Conv2d((8, 64, 28, 28), (64, 4, 3, 3), groups=16, layout="nhwc", dtype="float16", pass_=each)
        for each in warpsmith.Pass
    ),
    *(
        warpsmith.Conv2d((8, 58, 28, 28), (58, 58, 1, 1), layout="nhwc", dtype="float16", pass_=each)
        for each in warpsmith.Pass
    ),
    warpsmith.Cgemm(64, 4, 512, 64),
    warpsmith.Cgemm(64, 32, 48, 16),
    warpsmith.Cgemm(300, 128, 128, 128, accuracy="normwise"),
)
"""Problems of every operation that together are solved by every family."""

DOCUMENTS = (
    ("query", "fft", "--size", "250", "--device", "host"),
    ("explain", "fft", "--size", "250", "--device", "host"),
    ("query", "fft", "--size", "0"),
    ("report",),
    ("doctor",),
    ("db", "ls"),
    ("db", "check"),
)
"""Commands whose JSON documents are described."""


def surface() -> dict[str, Any]:
    """The whole surface as plain values."""
    return {
        "api": {name: _signature(getattr(warpsmith, name)) for name in sorted(warpsmith.__all__)},
        "torch": {name: _signature(getattr(torch_functions, name)) for name in sorted(torch_functions.__all__)},
        "exit codes": {
            name: each.exit_code
            for name, each in vars(errors).items()
            if isinstance(each, type) and issubclass(each, errors.WarpsmithError)
        },
        "commands": dict(_commands("warpsmith", typer.main.get_command(build(tuple(COMMANDS))))),
        "families": {name: list(operation.listed) for name, operation in OPERATIONS.items()},
        "problems": {
            name: {field.name: _default(field) for field in dataclasses.fields(operation.problem)}
            for name, operation in OPERATIONS.items()
        },
        "keys": [problem.key() for problem in PROBLEMS],
        "parameters": _parameters(),
        "documents": {" ".join(words): _document(words) for words in DOCUMENTS},
    }


def _signature(value: Any) -> Any:
    if isinstance(value, type) and hasattr(value, "__members__"):
        return {name: str(each.value) for name, each in value.__members__.items()}
    try:
        return str(inspect.signature(value))
    except ValueError:
        return "no signature"


def _default(field: dataclasses.Field[Any]) -> str:
    return "required" if field.default is dataclasses.MISSING else str(field.default)


def _commands(path: str, command: Any) -> Iterator[tuple[str, list[str]]]:
    yield path, sorted(name for each in command.params for name in (*each.opts, *each.secondary_opts))
    for name, each in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(f"{path} {name}", each)


def _parameters() -> dict[str, list[str]]:
    """Names of the parameters of each family's configs."""
    found: dict[str, set[str]] = {}
    for problem in PROBLEMS:
        for family in families_for(problem, H200):
            found.setdefault(family.name, set()).update(family.space(problem, H200).names)
    return {family: sorted(names) for family, names in sorted(found.items())}


def _document(words: tuple[str, ...]) -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = run([*words, "--json"])
    return {"exit code": code, "document": _shape(json.loads(printed.getvalue()))}


def _shape(value: Any) -> Any:
    """Names and types of a document without its values; a list is described by its first element."""
    match value:
        case dict():
            is_named_by_user = len(value) > 40 or any(" " in name or "/" in name for name in value)
            return (
                {"any name": _shape(next(iter(value.values())))}
                if is_named_by_user
                else {name: _shape(each) for name, each in value.items()}
            )
        case list():
            return [_shape(value[0])] if value else []
        case bool() | None:
            return str(value) if value is None else "bool"
        case int() | float():
            return "number"
        case _:
            return "text"


if __name__ == "__main__":
    print(json.dumps(surface(), indent=1))
