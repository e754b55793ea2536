"""Radices into which a transform can be split."""

from __future__ import annotations

import functools
import math

LARGEST_PRIME = 31
"""Largest prime factor: a prime p takes (p-1)^2 multiply-adds and some 4p registers."""
LARGEST_RADIX = 36
"""Largest transform within a thread, in points: with 64 it would hold 128 registers of data alone. 35 and 36 save a
third pass over 245 and some 2-D sizes."""
_LARGEST_OF_MANY = 16
"""Largest radix of plans with one pass more than needed: the extra pass pays where it saves registers."""


@functools.lru_cache(4096)
def prime_factors(n: int) -> tuple[int, ...]:
    """Prime factors of `n`, ascending."""
    factors, prime = [], 2
    while n > 1:
        while n % prime == 0:
            factors.append(prime)
            n //= prime
        prime += 1 if prime * prime <= n else max(1, n - prime)
    return tuple(factors)


@functools.cache
def factorizations(n: int) -> tuple[tuple[int, ...], ...]:
    """Tuples of radices whose product is `n`, in every order, the most even ones first.

    They have as few passes as possible, or one pass more if those are fewer than 3 and each radix is at most
    _LARGEST_OF_MANY. Empty if `n` has a prime factor above LARGEST_PRIME.
    """
    if n == 1:
        return ((),)
    if max(prime_factors(n)) > LARGEST_PRIME:
        return ()
    found: list[tuple[int, ...]] = []
    fewest = next(passes for passes in range(1, n) if _products(n, passes, LARGEST_RADIX))
    found += _products(n, fewest, LARGEST_RADIX)
    found += _products(n, fewest + 1, _LARGEST_OF_MANY) if fewest < 3 else ()
    return tuple(sorted(found, key=lambda radices: (len(radices), max(radices) / min(radices), radices)))


def _products(n: int, passes: int, largest: int) -> list[tuple[int, ...]]:
    if passes == 1:
        return [(n,)] if 2 <= n <= largest else []
    return [
        (radix, *rest)
        for radix in range(2, min(n, largest) + 1)
        if n % radix == 0
        for rest in _products(n // radix, passes - 1, largest)
    ]


def reversed_bits(index: int, n: int) -> int:
    """`index` with its bits reversed; `n` is a power of two above `index`."""
    bits = n.bit_length() - 1
    return int(f"{index:0{bits}b}"[::-1], 2) if bits else 0


def root(exponent: int, n: int) -> complex:
    """exp(2 pi i exponent / n), rounded to 15 decimals; values on the axes are exact."""
    shared = math.gcd(exponent, n)  # so that equal angles are equal numbers
    angle = 2 * math.pi * (exponent // shared % (n // shared)) / (n // shared)
    return complex(round(math.cos(angle), 15) + 0.0, round(math.sin(angle), 15) + 0.0)
