"""Transform lengths that are fast in NumPy."""

from __future__ import annotations


def quick_length(least: int) -> int:
    """The least number, from `least` on, whose only prime factors are 2, 3 and 5."""
    size = least
    while True:
        left = size
        for prime in (2, 3, 5):
            while left % prime == 0:
                left //= prime
        if left == 1:
            return size
        size += 1
