"""Calls of a layer that was called before with operands that lie alike: a look-up finds the layer, and a few conditions
decide that its plans compute the call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from warpsmith.devices.native import tables
from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch import bilinear
from warpsmith.torch.answers import new_cache
from warpsmith.torch.layers import FORWARD, ConvLayer


class DirectCall:
    """A layer's calls whose operands have its dtype, with a bias or without."""

    __slots__ = ("_bias", "_layer", "_planned", "_writes")

    def __init__(self, layer: ConvLayer, bias: bool) -> None:
        self._layer, self._bias = layer, bias
        self._writes = -1
        self._planned: tuple[bool, ...] = ()
        """Whether a plan computes a pass, by whether x requires a gradient, and whether w does: both, x, w, neither."""

    def result(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor | None:
        """Computes y, and records its gradients if they may be needed; None if PyTorch computes the layer, or in
        forward mode.
        """
        if self._writes != OWN_WRITES.count:
            self._look_up()
        if forward_ad._current_level >= 0:
            return None
        if torch.is_grad_enabled():
            for_x, for_w = x.requires_grad, w.requires_grad
            if not self._planned[(0 if for_w else 1) if for_x else (2 if for_w else 3)]:
                return None
            if for_x or for_w or (b is not None and b.requires_grad):
                return bilinear.record(x, w, b, self._layer)
        elif not self._planned[3]:
            return None
        return self._layer.forward(x, w, b)

    def _look_up(self) -> None:
        writes = OWN_WRITES.count  # read before the look-up, so that a write during it is seen at the next call
        needed = FORWARD, FORWARD[:2], FORWARD[::2], FORWARD[:1]
        self._planned = tuple(not self._layer.is_left_to_torch(each, self._bias) for each in needed)
        self._writes = writes


def _table() -> Any:
    compiled = tables()
    try:
        return None if compiled is None else compiled.CallTable(Tensor.__dlpack_c_exchange_api__, new_cache())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):  # older than 2.10, or another DLPack version
        return None


_TABLE = _table()
"""Calls by the way their operands lie and by their arguments; None if nothing compiled finds them quicker than
`found_layer`.
"""
_is_cast = torch._C._is_any_autocast_enabled


def called_before(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...]) -> DirectCall | None:
    """The entry that `keep` stored for such a call; None if there is none. Autocast has no entries."""
    if _TABLE is None or _is_cast():
        return None
    found: DirectCall | None = _TABLE.find((x, w, b), words)
    return found


def keep(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], layer: ConvLayer) -> None:
    """Stores a call of a layer, if its operands need no cast."""
    dtypes = {each.dtype for each in (x, w, b) if each is not None}
    if _TABLE is not None and not _is_cast() and dtypes == {layer.dtype}:
        _TABLE.store((x, w, b), words, DirectCall(layer, b is not None))
