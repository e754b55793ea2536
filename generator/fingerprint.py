"""The identity of CUDA text: what decides the machine code, without the prose and without the kernel's own names.

Comments, blanks and the names that a text declares can change without any effect on the machine code. `canonical`
drops the first two and numbers the last, so that texts which differ in them alone become equal. A name counts as the
text's own only where a declaration shows that it is one. Every other name stays as it is, so that two texts which call
different functions of CUDA never become equal. A declaration that is not recognised makes no two texts equal: its name
stays too, and a stored time then belongs to that spelling.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from warpsmith.generator.steps import (
    Argument,
    InMemory,
    Launch,
    LibraryCall,
    Step,
    Unit,
    Workspace,
    step_spec,
    workspace_spec,
)

_PROSE = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"'  # a string, such as PTX
    r"|'(?:[^'\\\n]|\\.)'"
    r"|\.?\d(?:[eEpP][+-]|['\w.])*"  # a number as the preprocessor reads it
    r"|[A-Za-z_]\w*"
    r"|\n"  # the end of a directive; `_tokens` leaves no other
    r"|<<=|>>=|<<|>>|->|::|\+\+|--|&&|\|\||[-+*/%&|^=!<>]="
    r"|[^\s\w]"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    """alignas alignof asm auto bool break case char class const constexpr continue default define delete do double
    elif else endif enum explicit extern false float for friend goto if ifdef ifndef include inline int long mutable
    namespace new noexcept nullptr operator pragma private public reinterpret_cast return short signed sizeof static
    static_assert static_cast struct switch template this true typedef typename undef union unroll unsigned using
    virtual void volatile while"""
)
CUDA_TYPES = _words(
    """char2 char4 uchar2 uchar4 short2 short4 ushort2 ushort4 int2 int3 int4 uint2 uint3 uint4 float2 float3 float4
    double2 dim3 size_t cudaTextureObject_t"""
)
CUDA_FUNCTIONS = _words(
    """abs atomicAdd atomicCAS atomicMax atomicMin ceilf cosf exp2f fabs fabsf floorf fma fmaf fmax fmaxf fmin fminf
    frexp ilogb isfinite isinf isnan ldexp ldexpf make_float2 make_float3 make_float4 make_int2 make_int4 make_uint2
    make_uint4 max memcpy min rint rintf rsqrtf copysignf sincospi sincospif sinf sqrt sqrtf tex1Dfetch tex2D blockDim
    blockIdx gridDim threadIdx warpSize"""
)
"""Functions and variables of CUDA that generated text uses."""
WARPSMITH_ON_HOST = "WARPSMITH_ON_HOST"
"""The macro that the host device defines."""
EXTERNAL = KEYWORDS | CUDA_TYPES | CUDA_FUNCTIONS | {WARPSMITH_ON_HOST, *"wxyz"}
"""Names that stay even where a text declares them: `x` is a member of `threadIdx` and of CUDA's vectors too."""

_BEFORE_VALUES = frozenset(("return", "else", "case", "goto", "throw", "new", "delete", "sizeof", "do", "operator"))
"""Keywords that an expression follows, so that a name after them is no declaration."""
_QUALIFIERS = frozenset(
    ("const", "constexpr", "volatile", "static", "inline", "extern", "mutable", "friend", "explicit")
)
"""Words after which a declaration's type comes."""
_DECLARE_TYPES = frozenset(("struct", "class", "enum", "union", "typename", "using"))
_TYPES = CUDA_TYPES | frozenset(
    ("void", "bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "auto")
)
_BETWEEN = frozenset(("*", "&", "&&", "const", "("))
"""What stands between a type and a name: `const float* const p`, `float (&row)[4]`."""
_AFTER_NAMES = frozenset("(=;,)[{:>")
_AFTER_FURTHER_NAMES = frozenset("=;,[{")
"""What follows `b` in `float a, b;`."""
_ATTRIBUTES = frozenset(("__launch_bounds__", "__cluster_dims__", "__align__"))
"""Attributes with arguments, which stand between `void` or `struct` and the name."""
_FIRST = frozenset(string.ascii_letters + "_")
_FARTHEST = 40
"""Tokens in which a list of template arguments or of an attribute's arguments ends."""


class CanonicalText(NamedTuple):
    """CUDA text without prose, and what became of its own names."""

    text: str
    names: dict[str, str]
    """The number of each own name, so that launches can name kernels alike."""


@functools.lru_cache(maxsize=64)  # a look-up asks for a program's identity up to three times
def canonical(source: str) -> CanonicalText:
    """The canonical form of CUDA C++: equal for two texts that differ in comments, blanks and own names alone."""
    tokens = _without_unused_functions(_tokens(source))
    own = frozenset(_own_names(tokens))
    appear = (name for name in dict.fromkeys(tokens) if name in own)
    names = {name: f"@{number}" for number, name in enumerate(appear)}
    return CanonicalText(" ".join([names.get(token, token) for token in tokens]), names)


def _tokens(source: str) -> list[str]:
    """The tokens of the preprocessor; a newline stands before and after each directive, and nowhere else."""
    text = _PROSE.sub(lambda found: found[0] if found[0][0] in "\"'" else " ", source.replace("\\\n", ""))
    lines = (f"\n{line}\n" if line.lstrip().startswith("#") else f"{line} " for line in text.split("\n"))
    return _TOKEN.findall("".join(lines))


def _without_unused_functions(tokens: list[str]) -> list[str]:
    """The tokens without inline functions that nothing names: a template may define more than a kernel calls."""
    counts = collections.Counter(tokens)
    kept: list[str] = []
    place = 0
    while place < len(tokens):
        if tokens[place] == "__device__" and (end := _end_of_unused(tokens, place, counts)) is not None:
            place = end
        else:
            kept.append(tokens[place])
            place += 1
    return kept


def _end_of_unused(tokens: Sequence[str], place: int, counts: Mapping[str, int]) -> int | None:
    """The place behind an inline function that starts at `place`, if nothing else in the text has its name.

    Templates stay: their parameters stand before `__device__`.
    """
    if tokens[place + 1] != "__forceinline__" or (place > 0 and tokens[place - 1] == ">"):
        return None
    opening = tokens.index("(", place)
    if counts[tokens[opening - 1]] > 1 or not _is_variable(tokens[opening - 1]):
        return None
    depth = 0
    for end in range(tokens.index("{", opening), len(tokens)):
        depth += (tokens[end] == "{") - (tokens[end] == "}")
        if depth == 0:
            return end + 1
    return None


def _own_names(tokens: Sequence[str]) -> Iterator[str]:
    """The names that a text declares."""
    pairs = list(itertools.pairwise(tokens))
    types = {name for word, name in pairs if word in _DECLARE_TYPES}
    types |= {name for place, name in enumerate(tokens) if _is_name(name) and _is_aligned_struct(tokens, place)}
    yield from filter(_may_be_own, types)
    yield from (name for word, name in pairs if word == "define" and _may_be_own(name))
    for place, (name, after) in enumerate(pairs):
        if after in _AFTER_NAMES and _is_variable(name) and _is_declared(tokens, place, types):
            further = () if tokens[place - 1] in _DECLARE_TYPES else _declared_with(tokens, place + 1)
            yield from filter(_may_be_own, (name, *further))
        elif name == "[" and tokens[place - 1] == "auto":  # auto [first, second] = ...
            yield from filter(_may_be_own, itertools.takewhile("]".__ne__, tokens[place : place + _FARTHEST]))


def _is_name(token: str) -> bool:
    return token[0] in _FIRST


def _is_variable(token: str) -> bool:
    return _is_name(token) and token not in KEYWORDS


def _may_be_own(token: str) -> bool:
    """Whether a text may declare the name. C++ leaves names with two underscores in front to the implementation."""
    return _is_name(token) and token not in EXTERNAL and not token.startswith("__")


def _is_declared(tokens: Sequence[str], place: int, types: set[str]) -> bool:
    """Whether a type stands before the name at `place`."""
    before = tokens[place - 1]
    if _is_name(before) and not (before == "const" and tokens[place - 2] in ("*", "&")):
        return before not in _BEFORE_VALUES and before not in _QUALIFIERS
    while before in _BETWEEN and place > 1 and not (before == "(" and tokens[place] not in ("*", "&")):
        place -= 1
        before = tokens[place - 1]
    if before == ")":
        return _opened_by(tokens, place - 1) in _ATTRIBUTES
    if before in (">", ">>"):
        return _opened_by(tokens, place - 1) in types
    return before in _TYPES or before in types


def _is_aligned_struct(tokens: Sequence[str], place: int) -> bool:
    """Whether the name at `place` is that of `struct __align__(16) Name {`."""
    return tokens[place - 1] == ")" and _opened_by(tokens, place - 1) == "__align__"


def _declared_with(tokens: Sequence[str], place: int) -> Iterator[str]:
    """The further names of a declaration, such as `b` in `float a, b;`; the first one stands before `place`."""
    depth = 0
    for at in range(place, len(tokens) - 2):
        token = tokens[at]
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        if depth < 0 or (depth == 0 and token == ";") or (token == "{" and tokens[at - 1] == ")"):
            return
        if depth == 0 and token == "," and tokens[at + 2] in _AFTER_FURTHER_NAMES:
            yield tokens[at + 1]


def _opened_by(tokens: Sequence[str], close: int) -> str:
    """The name before the bracket that the one at `close` closes; empty where it is too far away."""
    depths = {"(": -1, ")": 1} if tokens[close] == ")" else {"<": -1, ">": 1, ">>": 2}
    depth = 0
    for place in range(close, max(close - _FARTHEST, 0), -1):
        depth += depths.get(tokens[place], 0)
        if depth == 0:
            return tokens[place - 1]
    return ""


AnyArgument = TypeVar("AnyArgument", bound=Argument)

DIGITS = 20
"""Hexadecimal digits of a fingerprint."""
VERBATIM_DIGITS = 16
"""Hexadecimal digits of a fingerprint of schema 5 and older; their number tells the two kinds apart."""


def fingerprint(units: Sequence[Unit], steps: Sequence[Step], workspaces: Sequence[Workspace]) -> str:
    """Hash of a program, equal for programs that differ only in comments and private names.

    It covers the canonical source of each unit (`identity.canonical`), all arguments of launches and library calls, and
    the workspaces. Kernels, `__constant__` variables, units and workspaces count by their order, not by their names.
    """
    texts = {unit.name: canonical(unit.source) for unit in units}
    places = {unit.name: str(place) if place else "" for place, unit in enumerate(units)}
    buffers = {each.name: f"@{place}" for place, each in enumerate(workspaces)}

    def renamed(step: Step) -> Step:
        match step:
            case Launch():
                names = texts[step.unit].names
                return dataclasses.replace(
                    step,
                    entry=names.get(step.entry, step.entry),
                    unit=places[step.unit],
                    arguments=tuple(_renamed(each, buffers) for each in step.arguments),
                    constants=tuple(
                        dataclasses.replace(each, symbol=names.get(each.symbol, each.symbol)) for each in step.constants
                    ),
                )
            case LibraryCall():
                return dataclasses.replace(step, arguments=tuple(_renamed(each, buffers) for each in step.arguments))

    kept = [dataclasses.replace(each, name=buffers[each.name]) for each in workspaces]
    return _hash([each.text for each in texts.values()], [renamed(step) for step in steps], kept, DIGITS)


def verbatim_fingerprint(units: Sequence[Unit], steps: Sequence[Step], workspaces: Sequence[Workspace]) -> str:
    """Hash of a program in stores of schema 5 and bundles of that time; it covers comments and names of the source."""
    is_one_text = [unit.name for unit in units] == [""] and all(isinstance(step, Launch) for step in steps)
    texts = units[0].source if is_one_text else [[unit.name, unit.source] for unit in units]
    return _hash(texts, steps, workspaces, VERBATIM_DIGITS)


def _renamed(argument: AnyArgument, buffers: Mapping[str, str]) -> AnyArgument:
    if isinstance(argument, InMemory) and argument.buffer in buffers:
        return dataclasses.replace(argument, buffer=buffers[argument.buffer])
    return argument


def _hash(texts: Any, steps: Sequence[Step], workspaces: Sequence[Workspace], digits: int) -> str:
    described = [texts, [step_spec(step) for step in steps], [workspace_spec(each) for each in workspaces]]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:digits]
