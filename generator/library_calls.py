"""Calls of cuFFT and cuBLAS as steps of a program: transforms, products, memory layouts and scratch memory.

These are pure values; a device carries the call out (`warpsmith.devices.module`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar


class Library(enum.StrEnum):
    """NVIDIA library that a step of a program may call."""

    CUFFT = "cufft"
    """NVIDIA's Fourier transforms. On the host, NumPy's stand in for them."""
    CUBLAS = "cublas"
    """NVIDIA's matrix products. On the host, NumPy's stand in for them."""


MOST_AXES = 3
"""Most dimensions of one cuFFT transform (cuFFT documentation, cufftPlanMany)."""


class TransformKind(enum.StrEnum):
    """Types of a cuFFT transform's input and output, in single precision."""

    R2C = "r2c"
    """Real to half spectrum; forward."""
    C2R = "c2r"
    """Half spectrum to real; inverse. The spectrum is used as scratch memory, and is lost."""
    C2C = "c2c"
    """Complex on both sides."""


class Direction(enum.StrEnum):
    """Sign of the exponent: minus for forward. Nothing is scaled."""

    FORWARD = "forward"
    INVERSE = "inverse"


@dataclasses.dataclass(frozen=True, slots=True)
class Strided:
    """Memory layout of one side of batched transforms, in elements of that side: cuFFT's advanced layout.

    Element (b, i, j) lies at `b * distance + (i * embed[-1] + j) * stride`.
    """

    embed: tuple[int, ...]
    """Extents of the array that the axes are embedded in, the slowest first; the first one is not read."""
    stride: int
    """Elements between neighbours of the last axis."""
    distance: int
    """Elements between two transforms."""

    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours of each axis, the slowest first."""
        return tuple(self.stride * prod(self.embed[axis + 1 :]) for axis in range(len(self.embed)))

    def reach(self, batch: int, extents: Sequence[int]) -> int:
        """Elements from the first to behind the last one used by `batch` transforms of these extents."""
        last = sum(stride * (extent - 1) for stride, extent in zip(self.strides(), extents, strict=True))
        return (batch - 1) * self.distance + last + 1


@dataclasses.dataclass(frozen=True, slots=True)
class CufftTransform:
    """Batched transforms of one to three dimensions: the arguments of `cufftMakePlanMany`, and the direction.

    Args:
        kind: types of both sides.
        sizes: points along each axis, the slowest first; those of the real side for `r2c` and `c2r`.
        batch: number of transforms.
        direction: FORWARD for `r2c`, INVERSE for `c2r`.
        source: layout of the input.
        target: layout of the output.

    Raises:
        ValueError: no size, one that is no positive whole number, or a direction that the kind does not have.
    """

    library: ClassVar[Library] = Library.CUFFT

    kind: TransformKind
    sizes: tuple[int, ...]
    batch: int
    direction: Direction
    source: Strided
    target: Strided

    def __post_init__(self) -> None:
        sides = (self.source, self.target)
        counts = [*self.sizes, self.batch, *(n for side in sides for n in (*side.embed, side.stride, side.distance))]
        if any(type(count) is not int or not 1 <= count < 2**31 for count in counts):
            raise ValueError(f"the sizes and strides of a transform must be 1 to 2^31 - 1; got {counts}")
        if not 1 <= len(self.sizes) <= MOST_AXES or any(len(side.embed) != len(self.sizes) for side in sides):
            raise ValueError(f"a transform has 1 to {MOST_AXES} axes on both sides; got {self.sizes}")
        own = {TransformKind.R2C: Direction.FORWARD, TransformKind.C2R: Direction.INVERSE}.get(self.kind)
        if own not in (None, self.direction):
            raise ValueError(f"{self.kind} is always {own}")

    @property
    def half(self) -> tuple[int, ...]:
        """Extents of the spectrum's axes; the last one is n // 2 + 1 if a side is real."""
        *slow, last = self.sizes
        return (*slow, last if self.kind is TransformKind.C2C else last // 2 + 1)

    @property
    def source_bytes(self) -> int:
        """Bytes from the first element that is read to behind the last one."""
        is_real = self.kind is TransformKind.R2C
        return self.source.reach(self.batch, self.sizes if is_real else self.half) * (4 if is_real else 8)

    @property
    def target_bytes(self) -> int:
        """Bytes from the first element that is written to behind the last one."""
        is_real = self.kind is TransformKind.C2R
        return self.target.reach(self.batch, self.sizes if is_real else self.half) * (4 if is_real else 8)

    @property
    def reaches(self) -> tuple[int, ...]:
        """Bytes of each argument of the call from the address that the call gets."""
        return self.source_bytes, self.target_bytes

    def description(self) -> str:
        """Short description for people."""
        return f"{self.kind} {self.direction}, {'x'.join(map(str, self.sizes))} points, {self.batch} at once"

    def spec(self) -> dict[str, Any]:
        """JSON values of the fields; `of` reads them back."""
        return {
            "kind": str(self.kind),
            "sizes": list(self.sizes),
            "batch": self.batch,
            "direction": str(self.direction),
            "source": dataclasses.asdict(self.source) | {"embed": list(self.source.embed)},
            "target": dataclasses.asdict(self.target) | {"embed": list(self.target.embed)},
        }

    @classmethod
    def of(cls, spec: dict[str, Any]) -> CufftTransform:
        """Transform from what `spec` wrote. Raises ValueError, TypeError or LookupError for anything else."""
        sides = (Strided(tuple(side["embed"]), side["stride"], side["distance"]) for side in _sides(spec))
        return cls(
            TransformKind(spec["kind"]), tuple(spec["sizes"]), spec["batch"], Direction(spec["direction"]), *sides
        )


def _sides(spec: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return spec["source"], spec["target"]


LEAST_CUBLAS_BYTES, USUAL_CUBLAS_BYTES = 16 << 10, 32 << 20
"""Bytes of workspace: with less than the first some functions fail; the second is what cuBLAS allocates itself on
compute capability 9.0 if nobody sets a workspace (cuBLAS documentation, cublasSetWorkspace)."""
CUBLAS_ALIGNMENT, MOST_STREAMS = 256, 8
"""Bytes to whose multiples a workspace is aligned (same place), and the most streams of a looped call."""


class Transpose(enum.StrEnum):
    """Operation of cuBLAS on a factor's matrices, which lie column by column."""

    N = "n"
    """The matrices are taken as they are."""
    T = "t"
    """The matrices are transposed."""
    C = "c"
    """The matrices are transposed and conjugated."""


class ProductFunction(enum.StrEnum):
    """cuBLAS function for products of single-precision complex matrices."""

    CGEMM = "cgemm"
    """Four real products for each complex one."""
    CGEMM3M = "cgemm3m"
    """Three real products for each complex one, from sums of real and imaginary parts (Gauss)."""


@dataclasses.dataclass(frozen=True, slots=True)
class CublasProduct:
    """Products of dense complex64 matrices that lie column by column, c[i] = op(a[i]) op(b[i]).

    The fields are arguments of `cublasCgemmStridedBatched`. The arguments of the call are a, b and c.

    Args:
        function: cuBLAS function.
        m: rows of c.
        n: columns of c.
        k: terms of each sum.
        batch: number of products.
        first: operation on a.
        second: operation on b.
        is_looped: whether each product has a call of its own.
        workspace_bytes: scratch memory on each stream. cuBLAS's choice of algorithm depends on it.
        streams: number of streams of a looped call; product i runs on stream i % streams. The first stream is the
            caller's, which waits for the others before its next step.

    Raises:
        ValueError: a size that is no positive whole number below 2^31, less workspace than LEAST_CUBLAS_BYTES, more
            streams than MOST_STREAMS or than calls.
    """

    library: ClassVar[Library] = Library.CUBLAS

    function: ProductFunction
    m: int
    n: int
    k: int
    batch: int
    first: Transpose = Transpose.N
    second: Transpose = Transpose.N
    is_looped: bool = False
    workspace_bytes: int = USUAL_CUBLAS_BYTES
    streams: int = 1

    def __post_init__(self) -> None:
        counts = [self.m, self.n, self.k, self.batch]
        if any(type(count) is not int or not 1 <= count < 2**31 for count in counts):
            raise ValueError(f"the sizes of a product must be 1 to 2^31 - 1; got {counts}")
        if type(self.workspace_bytes) is not int or not LEAST_CUBLAS_BYTES <= self.workspace_bytes < 2**31:
            allowed = f"{LEAST_CUBLAS_BYTES} to 2^31 - 1 bytes"
            raise ValueError(f"the workspace of a product must be {allowed}; got {self.workspace_bytes}")
        if type(self.streams) is not int or not 1 <= self.streams <= MOST_STREAMS:
            raise ValueError(f"products are spread over 1 to {MOST_STREAMS} streams; got {self.streams}")
        if self.streams > (self.batch if self.is_looped else 1):
            raise ValueError(f"each of {self.streams} streams must have a call; got {self.description()}")

    @property
    def leads(self) -> tuple[int, int, int]:
        """Leading dimensions of a, b and c: elements from one column to the next."""
        first = self.m if self.first is Transpose.N else self.k
        return first, self.k if self.second is Transpose.N else self.n, self.m

    @property
    def distances(self) -> tuple[int, int, int]:
        """Elements from one matrix to the next, in a, b and c."""
        return self.m * self.k, self.k * self.n, self.m * self.n

    @property
    def reaches(self) -> tuple[int, ...]:
        """Bytes of a, b and c from the address that the call gets."""
        return tuple(8 * self.batch * distance for distance in self.distances)

    @property
    def workspace_pitch_bytes(self) -> int:
        """Bytes from the workspace of one stream to that of the next."""
        return -(-self.workspace_bytes // CUBLAS_ALIGNMENT) * CUBLAS_ALIGNMENT

    @property
    def all_workspace_bytes(self) -> int:
        """Bytes of the workspaces of all streams."""
        return (self.streams - 1) * self.workspace_pitch_bytes + self.workspace_bytes

    def description(self) -> str:
        """Short description for people."""
        many = f"{self.batch} one by one" if self.is_looped else f"{self.batch} at once"
        if self.streams > 1:
            many += f" over {self.streams} streams"
        text = f"{self.function} {self.first}{self.second}, m={self.m} n={self.n} k={self.k}, {many}"
        return text if self._is_usual else f"{text}, {self.workspace_bytes} bytes of workspace"

    @property
    def _is_usual(self) -> bool:
        """True if the workspace has the size that all calls once had; stored fingerprints contain no such size."""
        return self.workspace_bytes == USUAL_CUBLAS_BYTES

    def spec(self) -> dict[str, Any]:
        """JSON values of the fields; `of` reads them back."""
        words = {name: str(getattr(self, name)) for name in ("function", "first", "second")}
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self._is_usual:
            del fields["workspace_bytes"]
        if self.streams == 1:  # stored calls from before there were streams have no such field
            del fields["streams"]
        return {**fields, **words}

    @classmethod
    def of(cls, spec: dict[str, Any]) -> CublasProduct:
        """Product from what `spec` wrote. Raises ValueError, TypeError or LookupError for anything else."""
        if not isinstance(spec["is_looped"], bool):
            raise TypeError("is_looped is true or false")
        words = {"function": ProductFunction(spec["function"])}
        factors = {name: Transpose(spec[name]) for name in ("first", "second")}
        return cls(**{**spec, **words, **factors})


Parameters = CufftTransform | CublasProduct
"""Arguments of a library call besides memory; one type for each function of each library."""


def parameters_of(library: Library, spec: dict[str, Any]) -> Parameters:
    """Parameters of a call from their JSON values. Raises ValueError, TypeError or LookupError."""
    match library:
        case Library.CUFFT:
            return CufftTransform.of(spec)
        case Library.CUBLAS:
            return CublasProduct.of(spec)
