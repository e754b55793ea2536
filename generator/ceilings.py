"""Ceilings of a device: what micro-kernels reach on it (`generator.probe`), and how they correct data-sheet rates.

A model multiplies a data-sheet rate by the share of it that its kernels reached on the reference GPU. A device that was
measured has, in place of its data-sheet rate, the reference's data-sheet rate times the ratio of the two measured ones:
so a share keeps its meaning, and the reference itself keeps its rates.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from warpsmith.generator.tensor_cores import WARPGROUP, TensorInstruction, TensorType, instruction_of

MOST_APART = 3.0
"""Largest factor between a measured rate and the expected one. Beyond it the GPU was shared or throttled."""
NOISE = 0.1
"""Largest deviation that corrects nothing, because probes of one GPU must give the same answers. Three of an H200
differed by 0.9% at most, and by 7% in the time of a launch.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Ceilings:
    """What was measured on one device. None: not measured, or the device lacks it."""

    memory_bytes_per_ns: float | None = None
    """Bytes read and written by a copy in memory."""
    l2_bytes_per_ns: float | None = None
    shared_bytes_per_ns: float | None = None
    multiply_adds_per_ns: float | None = None
    """float32 multiply-adds."""
    mma_f16_per_ns: float | None = None
    """Multiply-adds of mma.sync, by the type of the operands."""
    mma_bf16_per_ns: float | None = None
    mma_tf32_per_ns: float | None = None
    mma_s8_per_ns: float | None = None
    wgmma_f16_per_ns: float | None = None
    launch_ns: float | None = None
    """Time from one empty kernel to the next on a stream."""
    barrier_ns: float | None = None
    """One `__syncthreads` of a block of 256 threads."""
    clock_mhz: float | None = None
    """SM clock seen beside the float32 kernel."""

    def spec(self) -> dict[str, float]:
        """The measured ones as JSON values; `from_spec` reads them back."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Ceilings:
        """Names of a newer version are left out. Raises ValueError for a value that is no finite number above 0."""
        names = {field.name for field in dataclasses.fields(cls)}
        known = {name: value for name, value in spec.items() if name in names}
        for name, value in known.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"its {name} is {value!r}, which is no finite number above 0")
        return cls(**known)


REFERENCE_CEILINGS = Ceilings(
    memory_bytes_per_ns=3860,
    l2_bytes_per_ns=9331,
    shared_bytes_per_ns=32770,
    multiply_adds_per_ns=32360,
    mma_f16_per_ns=318600,
    mma_bf16_per_ns=320300,
    mma_tf32_per_ns=160600,
    mma_s8_per_ns=637800,
    wgmma_f16_per_ns=468400,
    launch_ns=1399,
    barrier_ns=14.8,
    clock_mhz=1980,
)
"""Ceilings of the reference GPU, `device.REFERENCE`: medians of three probes (H200, driver 580.159.04, 2026-11-29). One
that is None corrects nothing on any device. `warpsmith probe --again --json` prints what belongs here as `python`.
"""


TENSOR_CEILINGS: Mapping[str, TensorInstruction] = {
    "mma_f16_per_ns": instruction_of(TensorType.F16),
    "mma_bf16_per_ns": instruction_of(TensorType.BF16),
    "mma_tf32_per_ns": instruction_of(TensorType.TF32),
    "mma_s8_per_ns": instruction_of(TensorType.S8),
    "wgmma_f16_per_ns": instruction_of(TensorType.F16, WARPGROUP),
}
"""Fields of `Ceilings` for tensor-core instructions."""


def tensor_ceiling(instruction: TensorInstruction) -> str:
    """Field of `Ceilings` for an instruction. Only float16 is measured of wgmma, whose other types follow it."""
    return "wgmma_f16_per_ns" if instruction.warps == WARPGROUP else f"mma_{instruction.operand}_per_ns"


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One measured ceiling beside the expected one, in the ceiling's own unit."""

    name: str
    """Field of `Ceilings`."""
    measured: float
    sheet: float | None
    """The device's data-sheet rate; None if no data sheet has it."""
    reference: float | None
    """What was measured on the reference GPU."""
    reference_sheet: float | None

    @property
    def share(self) -> float | None:
        """Measured rate over the data sheet's; None if no data sheet has it."""
        return None if self.sheet is None else self.measured / self.sheet

    @property
    def expected(self) -> float | None:
        """The data-sheet rate times the share that the reference GPU reaches; None if nothing is known."""
        if self.reference is None or self.sheet is None or self.reference_sheet is None:
            return self.reference if self.sheet is None else self.sheet
        return self.sheet * self.reference / self.reference_sheet

    @property
    def refusal(self) -> str | None:
        """The reason, in one line, why no model uses the measured figure; None if it is credible."""
        if self.expected is None or 1 / MOST_APART <= self.measured / self.expected <= MOST_APART:
            return None
        return (
            f"{self.name} is {self.measured:.4g}, more than {MOST_APART:g} times off the expected {self.expected:.4g}: "
            "models keep the data sheet's, since the GPU was shared or throttled; run `warpsmith probe --again`"
        )

    @property
    def factor(self) -> float:
        """Factor on the data-sheet rate; 1 without a reference, for a refused figure, and within the noise."""
        if self.reference is None or self.expected is None or self.refusal is not None:
            return 1.0
        ratio = self.measured / self.expected
        return 1.0 if abs(ratio - 1) <= NOISE else ratio
