"""Letting go of what was looked up."""

from __future__ import annotations

from warpsmith.torch.fft import forget_calls
from warpsmith.torch.filters import forget_filters
from warpsmith.torch.found_layers import forget_layers
from warpsmith.torch.transforms import forget_transforms


def forget() -> None:
    """Lets go of all plans of the operators: what other processes have stored since is seen at the next calls.

    What this process stores is seen without. Captured graphs need the plans that they were captured with, so call it
    only where none will run again.
    """
    forget_layers()
    forget_filters()
    forget_transforms()
    forget_calls()
