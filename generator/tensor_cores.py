"""Tensor-core instructions as data: operand types, shapes, the devices that have them, and rates.

A family gets the instruction for its operands from a device (`Device.tensor_instruction`) and compares no compute
capabilities itself. A new instruction is a row of INSTRUCTIONS.

Source: PTX manual, mma and wgmma (shapes, types, targets); NVIDIA's data sheets and architecture white papers (rates).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from warpsmith.generator.architectures import Capability, Feature, nearest


class TensorType(enum.StrEnum):
    """Types of operands and accumulators, in the PTX manual's words."""

    F16 = "f16"
    BF16 = "bf16"
    TF32 = "tf32"
    S8 = "s8"
    F32 = "f32"
    S32 = "s32"


WARP, WARPGROUP = 1, 4
"""Warps that take part in one instruction."""


MMA_F16: Mapping[Capability, int] = {
    (8, 0): 1024,
    (8, 6): 512,
    (8, 7): 1024,
    (8, 9): 512,
    (9, 0): 1270,  # 62 % of what wgmma does (measured, H200: 629 TFLOP/s)
    (10, 0): 1024,  # an estimate, the rate of 8.0: these tensor cores are made for tcgen05
    (12, 0): 512,
}
"""Multiply-adds per cycle per SM of mma.sync with float16 operands and float32 accumulators. A capability between two
rows has the rate of the lower one. GeForce GPUs do half as many."""
WGMMA_F16: Mapping[Capability, int] = {(9, 0): 2048}
"""Multiply-adds per cycle per SM of wgmma with float16 operands and float32 accumulators."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TensorInstruction:
    """One instruction that multiplies an m x k matrix by a k x n matrix and adds the product to an accumulator."""

    name: str
    shape: tuple[int, int, int]
    """m, n and k. For wgmma, n is the largest one; it has every multiple of 8 up to it."""
    operand: TensorType
    accumulator: TensorType
    warps: int
    f16_per_cycle: Mapping[Capability, int]
    """Multiply-adds per cycle per SM of the same kind of instruction with float16 operands, by compute capability."""
    speed: float = 1.0
    """Ratio of its rate to the rate with float16 operands."""
    last: Capability | None = None
    """The last compute capability that has it; None if all newer ones have it."""

    @property
    def feature(self) -> Feature:
        """The compute capabilities that have it."""
        return Feature(self.name, min(self.f16_per_cycle), self.last)

    def per_cycle(self, capability: Capability) -> float:
        """Multiply-adds per cycle of one SM; 0 if the capability lacks the instruction."""
        found = nearest(self.f16_per_cycle, capability) if self.feature.is_in(capability) else None
        return 0.0 if found is None else found * self.speed


_F32, _S32 = TensorType.F32, TensorType.S32
INSTRUCTIONS: tuple[TensorInstruction, ...] = (
    TensorInstruction("mma.sync.m16n8k16.f32.f16", (16, 8, 16), TensorType.F16, _F32, WARP, MMA_F16),
    TensorInstruction("mma.sync.m16n8k16.f32.bf16", (16, 8, 16), TensorType.BF16, _F32, WARP, MMA_F16),
    TensorInstruction("mma.sync.m16n8k8.f32.tf32", (16, 8, 8), TensorType.TF32, _F32, WARP, MMA_F16, 0.5),
    TensorInstruction("mma.sync.m16n8k32.s32.s8", (16, 8, 32), TensorType.S8, _S32, WARP, MMA_F16, 2),
    TensorInstruction("wgmma.m64nNk16.f32.f16", (64, 256, 16), TensorType.F16, _F32, WARPGROUP, WGMMA_F16, 1, (9, 0)),
    TensorInstruction("wgmma.m64nNk16.f32.bf16", (64, 256, 16), TensorType.BF16, _F32, WARPGROUP, WGMMA_F16, 1, (9, 0)),
    TensorInstruction("wgmma.m64nNk8.f32.tf32", (64, 256, 8), TensorType.TF32, _F32, WARPGROUP, WGMMA_F16, 0.5, (9, 0)),
)
"""Every instruction that a template emits."""


def instruction_of(operand: TensorType, warps: int = WARP) -> TensorInstruction:
    """The instruction by which `warps` warps multiply operands of a type. Raises KeyError if there is none."""
    for each in INSTRUCTIONS:
        if (each.operand, each.warps) == (operand, warps):
            return each
    raise KeyError(f"no tensor-core instruction multiplies {operand} by {warps} warps")
