"""Clears the caches of looked-up plans."""

from __future__ import annotations

from warpsmith.torch.fft import forget_calls
from warpsmith.torch.filters import forget_filters
from warpsmith.torch.found_layers import forget_layers
from warpsmith.torch.transforms import forget_transforms


def forget() -> None:
    """Drops all plans of the operators, so that the next calls see what other processes have stored since.

    Writes of this process are seen without it. Captured graphs need the plans that they were captured with, so call it
    only if no such graph will run again.
    """
    forget_layers()
    forget_filters()
    forget_transforms()
    forget_calls()
