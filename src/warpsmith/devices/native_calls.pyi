from collections.abc import Callable, Sequence
from typing import Any

from warpsmith.devices import native_tensors
from warpsmith.devices.array_access import AddressOf, ArrayAccess
from warpsmith.devices.module import Allocation
from warpsmith.devices.native import NativeKernel

tensors = native_tensors

MOST_ARGUMENTS: int
MOST_MAPS: int

class FixedValues:
    def __init__(self, values: tuple[bytes, ...]) -> None: ...
    def __call__(self, inputs: tuple[Any, ...]) -> tuple[bytes, ...]: ...

class ArrayValues:
    def __init__(
        self, place: int, kind: type, dtype: object, shape: tuple[int, ...], otherwise: Callable[[Any], bytes]
    ) -> None: ...
    def __call__(self, inputs: tuple[Any, ...]) -> tuple[bytes]: ...

class KernelLauncher:
    def __init__(
        self,
        address: int,
        kernels: Sequence[NativeKernel],
        contents_of: Callable[[tuple[bytes, ...]], tuple[bytes, ...]],
        scratch_bytes: int,
        replace: int,
    ) -> None: ...
    def queue(
        self, addresses: tuple[int, ...], values: tuple[bytes, ...], stream: int, first: int
    ) -> tuple[int, int] | None: ...

class NativeCalls:
    def __init__(
        self,
        access: ArrayAccess,
        count: int,
        pointed: Sequence[tuple[int, AddressOf, int, bool]],
        results: Sequence[tuple[AddressOf, int]],
        launcher: KernelLauncher | None,
        launch: Callable[[tuple[int, ...], tuple[bytes, ...], int | None, Allocation | None], None],
    ) -> None: ...
    def __call__(
        self, inputs: tuple[Any, ...], out: Any, stream: object, scratch: Allocation | None = None
    ) -> Any | None: ...
    def new(self, inputs: tuple[Any, ...]) -> Any | None: ...
