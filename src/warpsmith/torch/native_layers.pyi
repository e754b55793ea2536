from collections.abc import Callable
from typing import Any

from torch import Tensor

from warpsmith.plans.plan import Plan
from warpsmith.torch.layers import ConvLayer

PlanOf = Callable[[], Plan | None]

class DirectCall:
    def __init__(
        self,
        layer: ConvLayer,
        forward: PlanOf,
        input_gradient: PlanOf,
        weight_gradient: PlanOf,
        are_planned: Callable[[], tuple[bool, ...]],
        is_cast: bool,
        is_transposed: bool,
    ) -> None: ...

class CallTable:
    def __init__(self, entries: dict[Any, Any], make: Callable[[ConvLayer, bool, bool], DirectCall]) -> None: ...
    def result(self, x: Any, w: Any, b: Any, words: tuple[Any, ...]) -> Tensor | None: ...
    def store(self, x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], layer: ConvLayer) -> None: ...
