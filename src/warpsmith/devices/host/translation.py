"""From a unit's CUDA text to the C++ text that the compiler reads. The CUDA text itself stays as it is."""

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
    """`source` with comments as blanks; lines stay where they are."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def cooperates(text: str) -> bool:
    """Whether threads of a block wait for each other: a barrier, a shuffle, a vote, a matrix product.

    Decided from the text before compilation, since the two ways of running a block share no code: a plain loop that
    the compiler may inline the kernel into and vectorise, or fibers. A word that this misses (one that the
    preprocessor puts together) is not declared in the plain build, so it ends as a compile error and never as
    threads that fail to wait.
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
    """What `__shared__` means on each line that has it, for a build with static shared memory (see words.h)."""
    dynamic = {match.start() + match[0].index("__shared__") for match in _DYNAMIC_SHARED.finditer(text)}
    meanings = {}
    for match in _SHARED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        meanings[line] = "" if match.start() in dynamic else "static"
    return [f"#define WARPSMITH_HOST_SHARED_{line} {meaning}".rstrip() for line, meaning in meanings.items()]


def translation_unit(unit: Compilation, sanitize: bool) -> str:
    """The C++ text of `unit`: what the header needs to know, the header, the source, the entries."""
    text = without_comments(unit.source)
    lines = [
        f"#define WARPSMITH_HOST_COOPERATES {int(cooperates(text))}",
        f"#define WARPSMITH_HOST_DYNAMIC_SHARED_BYTES {unit.shared_bytes}",
        *(_shared_lines(text) if sanitize else ()),
        "#include <cuda_on_host.h>",  # in quotes it would be looked for in the working folder first
        '#line 1 "program.cu"',
        unit.source,
        '#line 1 "launches"',
        *(f"WARPSMITH_HOST_DYNAMIC_SHARED({kind}, {name})" for name, kind in dynamic_shared(text).items()),
        *(f"WARPSMITH_HOST_ENTRY({entry})" for entry in unit.entries),
        *(f"WARPSMITH_HOST_CONSTANT({symbol})" for symbol in unit.constants),
    ]
    return "\n".join(lines) + "\n"
