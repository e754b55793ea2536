"""Assembles the commands, and turns every expected error into one line and its exit code."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import sys
import warnings
from collections.abc import Collection, Iterator
from typing import Annotated

import typer

from warpsmith.cli.ordered import ordered_group
from warpsmith.cli.streams import OutputLost, give_up_output, guarded_streams
from warpsmith.errors import WarpsmithError, one_line
from warpsmith.extras import Extra, missing, require
from warpsmith.tuner.run.interrupt import ending_in_order

COMMANDS = {
    "tune": "Search for the fastest correct kernel and store it.",
    "query": "Show the stored answer for a problem; exit 3 where there is none.",
    "export": "Write tuned kernels as a bundle.",
    "bench": "Compare stored winners with the other libraries that are installed, in one run; measure memories.",
    "verify": "Verify a stored kernel against a float64 reference; exit 1 if its result is wrong.",
    "space": "List the parameters of a problem's kernels, their values, the rules between them, and the size.",
    "explain": "Show how the kernel for a problem is found and which configurations were tried.",
    "report": "Print every stored winner: its time and conditions, share of copy speed, the fastest peer timed as it "
    "was.",
    "probe": "Measure the ceilings of a GPU, once: memory, L2, shared memory, arithmetic, launches, barriers.",
    "db": "Inspect, check, prune, merge, import and export stores.",
    "doctor": "Check compilers, devices and stores; exit 1 if no device can be used or a store cannot be read.",
}
"""Commands in the order of the help text, each with its line there. Each is a module of this package with a `register`.
"""

NEEDING_TUNE = ("tune", "explain", "probe", "db")
"""Commands that search, or that read more of a store than its winners."""

INTERRUPTED = 1
"""Exit code if Ctrl-C left nothing to keep. A tuning run that has a winner stores it and ends with 0."""

NO_COMMAND = "name one of the commands above"
"""Error for a group without a command. typer has printed its help text, but gives no message."""


def build(wanted: Collection[str]) -> typer.Typer:
    """The command line, in which the `wanted` commands can be called; the others have only a line in the help text.

    All modules take a second to import, Optuna alone half of it, and neither `query` nor the help text needs it.
    """
    app = typer.Typer(
        name="warpsmith",
        cls=ordered_group(tuple(COMMANDS)),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name, line in COMMANDS.items():
        if name in NEEDING_TUNE and missing(Extra.TUNE):
            _register_line(app, name, f"Not installed: needs the extra {Extra.TUNE}.")
        elif name in wanted:
            importlib.import_module(f"warpsmith.cli.{name}").register(app)
        else:
            _register_line(app, name, line)
    return app


def _register_line(app: typer.Typer, name: str, line: str) -> None:
    """Registers a command that has a line in the help text, and refuses every call if its packages are missing."""

    def refuse() -> None:
        require(Extra.TUNE, f"warpsmith {name}")

    takes_anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, help=line, context_settings=takes_anything)(refuse)


def _wanted(arguments: list[str]) -> Collection[str]:
    """Commands that the arguments may call: the first argument, or any one after the program's own options."""
    return arguments[:1] if arguments and arguments[0] in COMMANDS else arguments


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"warpsmith {importlib.metadata.version('warpsmith')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Generates, tunes and serves specialised CUDA kernels for convolutions, filters and small FFTs."""


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    with guarded_streams():
        code = _run(arguments)
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe
            give_up_output()
        except OutputLost as error:
            give_up_output()
            if code == 0:
                code = _fail(str(error), error.exit_code, [])
        return code


def _run(arguments: list[str]) -> int:
    try:
        with _short_warnings(), ending_in_order():
            return _invoke(arguments)
    except typer.Exit as done:
        return done.exit_code
    except typer.TyperException as error:
        return _fail(error.format_message() or NO_COMMAND, error.exit_code, arguments)
    except WarpsmithError as error:
        return _fail(str(error), error.exit_code, arguments)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED, arguments)
    except BrokenPipeError:  # the reader has closed the pipe
        return 0
    except MemoryError:
        return _fail("out of memory", 1, arguments)
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        return _fail("the system starts no more threads: end some programs, or raise `ulimit -u`", 1, arguments)
    except OSError as error:  # an error of the system that no other code explains
        at = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return _fail(f"{at}{error.strerror or error}", 1, arguments)


def _invoke(arguments: list[str]) -> int:
    """Invokes the command. Calling it instead would turn Ctrl-C and a closed pipe into exit codes without a message."""
    command = typer.main.get_command(build(_wanted(arguments)))
    with command.make_context("warpsmith", list(arguments)) as context:
        code: int = command.invoke(context)
    return code


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:
    """Prints a warning as one line, without the position in the source."""
    earlier = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"warning: {one_line(message)}\n"
    try:
        yield
    finally:
        warnings.formatwarning = earlier


def _fail(message: str, code: int, arguments: list[str]) -> int:
    # Commands import this module; the help text needs nothing of it, and it loads the records of stores.
    from warpsmith.cli.output import print_error, print_json

    line = " ".join(message.split())
    print_error(line)
    if "--json" in arguments:
        with contextlib.suppress(OutputLost, BrokenPipeError):  # the line above states the error
            print_json({"error": line, "exit_code": code})
    return code
