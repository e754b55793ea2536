"""A look-up and the compilation of its program, without an answer of an earlier process."""

from __future__ import annotations

from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.compiler import Binaries, Compiler
from warpsmith.plans import lookup
from warpsmith.plans.answer_cache import Circumstances, cache_answer
from warpsmith.plans.match import Match


def fresh_answer(circumstances: Circumstances, compiler: Compiler) -> tuple[Match, Binaries]:
    """The best answer for a problem, compiled. It goes into the cache on disk if it can, and if all stores were read.

    Args:
        circumstances: what is asked, and what the answer depends on.
        compiler: compiles the program for the device.

    Raises as `warpsmith.plan`, but for DeviceError.
    """
    asked = circumstances
    match, is_whole = lookup.look_up_wholly(asked.problem, asked.device, asked.store, asked.selection)
    binaries = compiler.compile_program(match.program)
    if asked.can_be_cached and is_whole and isinstance(compiler, CachedCompiler):
        files = {name: compiler.file_name(unit) for name, unit in match.program.compilations().items()}
        cache_answer(asked, match, files)
    return match, binaries
