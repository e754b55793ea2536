"""Numbers as CUDA text."""

from __future__ import annotations


def float_literal(value: float) -> str:
    """CUDA literal of a float32 that reads back to the same bits."""
    text = f"{value:.9g}"
    return f"{text}f" if any(mark in text for mark in ".en") else f"{text}.0f"
