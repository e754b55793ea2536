"""Puts the commands together and turns every expected error into one line and its exit code."""

from __future__ import annotations

import importlib
import sys

import typer

from warpsmith.cli.output import print_json
from warpsmith.errors import WarpsmithError

COMMANDS = ("tune", "query", "export", "bench", "verify", "explain", "report", "db", "doctor")
"""In the order of the help text. Each is a module of this package with a `register`."""

INTERRUPTED = 1
"""Exit code where Ctrl-C left nothing to keep; a tuning run that has a winner stores it and ends with 0."""


def build(arguments: list[str]) -> typer.Typer:
    """The command line that `arguments` need: one command's module, or all of them for the help text.

    Optuna alone takes a second to import, and `query` does without it.
    """
    app = typer.Typer(
        name="warpsmith",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_no_options)
    known = [name for name in arguments[:1] if name in COMMANDS]
    for name in known or COMMANDS:
        importlib.import_module(f"warpsmith.cli.{name}").register(app)
    return app


def _no_options() -> None:
    """Generates, tunes and serves specialised CUDA kernels for convolutions, filters and small FFTs."""


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        code = typer.main.get_command(build(arguments))(arguments, prog_name="warpsmith", standalone_mode=False)
    except typer.TyperException as error:
        return _fail(error.format_message(), error.exit_code, arguments)
    except WarpsmithError as error:
        return _fail(str(error), error.exit_code, arguments)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED, arguments)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 0
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int, arguments: list[str]) -> int:
    line = " ".join(message.split())
    print(f"warpsmith: error: {line}", file=sys.stderr)
    if "--json" in arguments:
        print_json({"error": line, "exit_code": code})
    return code
