"""Makes the C++ text that the host compiler reads from a unit's CUDA text. The CUDA text itself is not changed."""

from __future__ import annotations

import re

from warpsmith.generator.steps import Compilation

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_COOPERATION = re.compile(r"\b__(?:sync|shfl|ballot|reduce|any|all|activemask)\w*|\bmma\.sync")
_SHARED = re.compile(r"\b__shared__\b")
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)|__attribute__\s*\(\(.*?\)\)")
_DYNAMIC_SHARED = re.compile(
    r"""\bextern\b (?P<before>[^;{}"]*?) \b__shared__\b (?P<after>[^;{}\[\]]*?) (?P<name>\w+) \s*\[\s*\]\s*;""",
    re.VERBOSE,
)


def without_comments(source: str) -> str:
    """`source` with comments replaced by blanks; line numbers do not change."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def cooperates(text: str) -> bool:
    """True if threads of a block wait for each other: a barrier, a shuffle, a vote, a matrix product.

    The text decides this before compilation, because a block can run in two ways that share no code: as a plain loop,
    into which the compiler may inline the kernel and vectorise it, or as fibers. A word that this search misses (one
    that the preprocessor puts together) is not declared in the plain build. It causes a compile error, never threads
    that fail to wait.
    """
    return _COOPERATION.search(text) is not None


def dynamic_shared(text: str) -> dict[str, str]:
    """Names of the arrays declared `extern __shared__ T name[]`, with the text of T."""
    arrays = {}
    for match in _DYNAMIC_SHARED.finditer(text):
        declared = _ALIGNMENT.sub(" ", f"{match['before']} {match['after']}")
        arrays[match["name"]] = " ".join(declared.split())
    return arrays


def _shared_lines(text: str) -> list[str]:
    """Definition of `__shared__` on each line that has it, for a build with static shared memory (see words.h)."""
    dynamic = {match.start() + match[0].index("__shared__") for match in _DYNAMIC_SHARED.finditer(text)}
    meanings = {}
    for match in _SHARED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        meanings[line] = "" if match.start() in dynamic else "static"
    return [f"#define WARPSMITH_HOST_SHARED_{line} {meaning}".rstrip() for line, meaning in meanings.items()]


def translation_unit(unit: Compilation, sanitize: bool) -> str:
    """The C++ text of `unit`: configuration macros, the header, the source, the entries."""
    text = without_comments(unit.source)
    lines = [
        f"#define WARPSMITH_HOST_COOPERATES {int(cooperates(text))}",
        f"#define WARPSMITH_HOST_DYNAMIC_SHARED_BYTES {unit.shared_bytes}",
        *(_shared_lines(text) if sanitize else ()),
        "#include <cuda_on_host.h>",  # quotes would search the working folder first
        '#line 1 "program.cu"',
        unit.source,
        '#line 1 "launches"',
        *(f"WARPSMITH_HOST_DYNAMIC_SHARED({kind}, {name})" for name, kind in dynamic_shared(text).items()),
        *(f"WARPSMITH_HOST_ENTRY({entry})" for entry in unit.entries),
        *(f"WARPSMITH_HOST_CONSTANT({symbol})" for symbol in unit.constants),
    ]
    return "\n".join(lines) + "\n"
