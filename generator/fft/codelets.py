"""Transforms within a thread, as lines of CUDA: `dft16(x0, ..., x15)` leaves frequency k in its k-th argument.

Small composite sizes are split into two factors (Cooley and Tukey). 2 and 4 are written out. For other primes, terms j
and n - j share their cosine, and their sine except for its sign: (n-1)^2 / 2 real multiply-adds each.
"""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.fft.axes import prime_factors, root
from warpsmith.generator.render import float_literal

_FIRST_FACTOR = {12: 3, 16: 4, 20: 4, 24: 3, 28: 4, 32: 4}
"""First factors that are not the smallest prime: 4 points are a codelet of their own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Codelet:
    """The function `dft<n>`: the names of its arguments and the lines of its body."""

    n: int
    arguments: tuple[str, ...]
    summary: str
    lines: tuple[str, ...]


def codelets(radices: frozenset[int], *, inverse: bool) -> tuple[Codelet, ...]:
    """Codelets that transforms of these sizes need, callees first."""
    needed: set[int] = set()
    for radix in radices:
        needed |= _needed(radix)
    return tuple(_codelet(n, inverse) for n in sorted(needed, key=lambda n: (len(prime_factors(n)), n)))


def _needed(n: int) -> set[int]:
    if n in (2, 4) or len(prime_factors(n)) == 1:
        return {n}
    first, second = _split(n)
    return {n} | _needed(first) | _needed(second)


def _split(n: int) -> tuple[int, int]:
    first = _FIRST_FACTOR.get(n, prime_factors(n)[0])
    return first, n // first


@functools.cache
def _codelet(n: int, inverse: bool) -> Codelet:
    arguments = tuple(f"x{i}" for i in range(n))
    if n == 2:
        return Codelet(n, arguments, "", ("const float2 sum = x0 + x1;", "x1 = x0 - x1;", "x0 = sum;"))
    if n == 4:
        return Codelet(n, arguments, "", _four(inverse))
    if len(prime_factors(n)) == 1:
        return Codelet(n, arguments, "terms j and n - j together", _odd_prime(n, inverse))
    first, second = _split(n)
    return Codelet(n, arguments, f"{n} = {first} x {second}", _composite(n, first, second, inverse))


def _four(inverse: bool) -> tuple[str, ...]:
    return (
        "const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;",
        f"const float2 rotated = {_quarter(inverse)}(x1 - x3);",
        "x0 = even + odd;",
        "x2 = even - odd;",
        "x1 = across + rotated;",
        "x3 = across - rotated;",
    )


def _quarter(inverse: bool) -> str:
    """Name of the function that multiplies by exp(2 pi i / 4) if `inverse`, else by exp(-2 pi i / 4)."""
    return "times_i" if inverse else "times_minus_i"


def _odd_prime(n: int, inverse: bool) -> tuple[str, ...]:
    half = range(1, n // 2 + 1)
    lines = [f"const float2 s{j} = x{j} + x{n - j}, d{j} = x{j} - x{n - j};" for j in half]
    for k in half:
        cosines = " + ".join(f"{float_literal(root(j * k, n).real)} * s{j}" for j in half)
        sines = " + ".join(f"{float_literal(root(j * k, n).imag)} * d{j}" for j in half)
        lines.append(f"const float2 even{k} = x0 + {cosines};")
        lines.append(f"const float2 odd{k} = {_quarter(inverse)}({sines});")
    lines.append(f"x0 = x0 + {' + '.join(f's{j}' for j in half)};")
    for k in half:
        lines.append(f"x{k} = even{k} + odd{k};")
        lines.append(f"x{n - k} = even{k} - odd{k};")
    return tuple(lines)


def _composite(n: int, first: int, second: int, inverse: bool) -> tuple[str, ...]:
    """Lines of a composite transform: index second * a + b, frequency p + first * q.

    They transform over a, multiply by the twiddles root^(b p), and transform over b.
    """
    lines = [call(first, [f"x{second * a + b}" for a in range(first)]) for b in range(second)]
    for p in range(1, first):
        for b in range(1, second):
            product = twiddled(f"x{second * p + b}", b * p if inverse else -b * p, n)
            lines += [f"x{second * p + b} = {product};"] if product else []
    lines += [call(second, [f"x{second * p + b}" for b in range(second)]) for p in range(first)]
    # Frequency p + first * q lies in place second * p + q.
    moves = {p + first * q: second * p + q for p in range(first) for q in range(second)}
    moved = [(to, place) for to, place in sorted(moves.items()) if to != place]
    lines += [f"const float2 {', '.join(f'y{place} = x{place}' for _, place in moved)};"]
    lines += [f"x{to} = y{place};" for to, place in moved]
    return tuple(lines)


def twiddled(value: str, exponent: int, n: int) -> str | None:
    """Expression of `value` times exp(2 pi i exponent / n); None if that factor is 1."""
    factor = root(exponent, n)
    if factor == 1:
        return None
    if factor in (1j, -1j):
        return f"{_quarter(factor == 1j)}({value})"
    if factor == -1:
        return f"-1.0f * {value}"
    return f"times({value}, {float_literal(factor.real)}, {float_literal(factor.imag)})"


def call(n: int, arguments: list[str]) -> str:
    """CUDA statement that transforms these variables in place."""
    return f"dft{n}({', '.join(arguments)});"
