"""Options that several commands share, and parsers for their values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from warpsmith.devices.select import CompilerChoice
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import Problem
from warpsmith.tuner.search.sampler_choice import SamplerChoice

DeviceOption = Annotated[str, typer.Option("--device", help="auto, cuda:I or host.", rich_help_panel="Run")]
DevicesOption = Annotated[
    str,
    typer.Option(
        "--device", help="auto, cuda:I, host, or all (every GPU; they must be of one model).", rich_help_panel="Run"
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="File or URL of the store; default WARPSMITH_STORE, else the user's own file.",
        show_default=False,
        rich_help_panel="Run",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output.", rich_help_panel="Run")
]
MethodOption = Annotated[
    str,
    typer.Option("--method", help="auto, or the name of the only kernel family that is asked.", rich_help_panel="Run"),
]
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE[,VALUE...]",
        help="Keep to kernels with these values of a parameter, such as path=texture or rows=2,4; may be repeated. "
        "`warpsmith space` lists parameters.",
        show_default=False,
        rich_help_panel="Run",
    ),
]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        "--trials",
        min=1,
        help="Number of trials in the store at the end; trials of earlier runs count.",
        show_default=False,
        rich_help_panel="Run",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the search and of the test data.", rich_help_panel="Run")
]

TimeLimitOption = Annotated[
    str | None,
    typer.Option("--time-limit", help="Duration after which the search stops: 60s, 5m, 2h.", rich_help_panel="Run"),
]
CompilerOption = Annotated[
    str, typer.Option("--compiler", help=f"One of {', '.join(CompilerChoice)}.", rich_help_panel="Run")
]

SamplerOption = Annotated[
    str, typer.Option("--sampler", help=f"Optuna sampler: {', '.join(SamplerChoice)}.", rich_help_panel="Run")
]


def extent(text: str, name: str) -> tuple[int, int]:
    """Rows and columns of a text such as `512x640`, which is (512, 640). Raises BadArgument."""
    match = re.fullmatch(r"(\d+)x(\d+)", text.strip().lower())
    if match is None:
        raise BadArgument(f"{name} must be ROWSxCOLUMNS, such as 512x512; got {text!r}")
    return int(match[1]), int(match[2])


def sizes(text: str, name: str) -> tuple[int, ...]:
    """Sizes of a text: `256` is (256,), `32x32` is (32, 32). Raises BadArgument."""
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip().lower())
    if match is None:
        raise BadArgument(f"{name} must be N or ROWSxCOLUMNS, such as 256 or 32x32; got {text!r}")
    return tuple(int(number) for number in match.groups() if number is not None)


def pair(text: str, name: str) -> tuple[int, int]:
    """Two integers of a text such as `1,-2`, which is (1, -2). Raises BadArgument."""
    match = re.fullmatch(r"\s*(-?\d+)\s*,\s*(-?\d+)\s*", text)
    if match is None:
        raise BadArgument(f"{name} must be ROW,COLUMN, such as 1,0; got {text!r}")
    return int(match[1]), int(match[2])


def seconds(text: str) -> float:
    """Seconds for a text such as `90`, `90s`, `5m` or `2h`. Raises BadArgument."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    if match is None:
        raise BadArgument(f"a time limit must be a number of seconds, or like 90s, 5m or 2h; got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def join(operation: Callable[..., Problem], verb: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a command from an operation, whose options make the problem, and a verb, which takes the problem first."""
    shape = inspect.signature(operation, eval_str=True).parameters
    _, *own = inspect.signature(verb, eval_str=True).parameters.values()
    parameters: Iterable[inspect.Parameter] = (
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*shape.values(), *own)
    )

    def command(**given: Any) -> Any:
        problem = operation(**{name: given.pop(name) for name in shape})
        return verb(problem, **given)

    command.__doc__ = operation.__doc__
    command.__setattr__("__signature__", inspect.Signature(list(parameters)))
    return command
