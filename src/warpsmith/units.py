"""Times, rates and shares as text for people."""

from __future__ import annotations


def format_time(ns: float) -> str:
    """A time in ns as text: `12.3 us` below 1 ms, `12.3 ms` from there on."""
    return f"{_digits(ns / 1e3)} us" if ns < 1e6 else f"{_digits(ns / 1e6)} ms"


def format_rate(nbytes: float, ns: float) -> str:
    """`nbytes` bytes in `ns` nanoseconds as text, in decimal GB/s."""
    return f"{_digits(nbytes / ns)} GB/s"  # a byte per nanosecond is 10^9 bytes per second


def format_share(copy_ns: float, ns: float) -> str:
    """Fraction of the speed of a plain copy of as many bytes, as text: `91.2%`."""
    return f"{copy_ns / ns:.1%}"


def format_ceiling(value: float) -> str:
    """A measured ceiling in its own unit as text: whole from 100 on, else with one decimal."""
    return f"{value:.{0 if value >= 100 else 1}f}"


def format_duration(seconds: float) -> str:
    """Seconds as text: `0:42`, `3:05`, `1:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _digits(value: float) -> str:
    """A number with at least three significant digits, and never an exponent."""
    decimals = 3 if value < 1 else 2 if value < 10 else 1
    return f"{value:.{decimals}f}"
