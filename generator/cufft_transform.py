"""Call of cuFFT as a step of a program: the transforms, and the memory layout of both sides.

These are pure values; a device carries the call out (`warpsmith.devices.module`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from warpsmith.generator.library import Library

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

    def told(self) -> str:
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
