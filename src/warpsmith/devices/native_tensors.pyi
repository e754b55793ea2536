from collections.abc import Callable
from typing import Any

class ExchangeApi:
    def __init__(self, capsule: object) -> None: ...
    def reader_of(
        self,
        kinds: tuple[type, type],
        ordinal: int | None,
        dtype: tuple[int, int],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        alignment: int,
        methods: tuple[Callable[[Any], bool], ...],
        records: Callable[[], bool],
    ) -> TensorReader: ...
    def stream_of(self, ordinal: int) -> CurrentStream: ...
    def new_tensors(
        self,
        current: Callable[[], int],
        ordinal: int,
        make: Callable[[tuple[int, ...], tuple[int, ...], object], Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: object,
        otherwise: Callable[[], tuple[Any, int]],
    ) -> NewTensors: ...

class TensorReader:
    def __call__(self, x: Any) -> int: ...

class CurrentStream:
    def __call__(self) -> int: ...

class NewTensors:
    def __call__(self) -> tuple[Any, int]: ...
