"""Tensor-core instructions as data: what each multiplies, which devices have it, and how fast.

A family asks a device for the instruction of its operands (`Device.tensor_instruction`) and compares no compute
capability itself. A new instruction is a row of INSTRUCTIONS.

Source: PTX manual, mma and wgmma (shapes, types, targets); NVIDIA's data sheets and architecture white papers (rates).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

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


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TensorInstruction:
    """One instruction that multiplies an m x k matrix by a k x n matrix and adds the product to an accumulator."""

    name: str
    shape: tuple[int, int, int]
    """m, n and k; the largest n of wgmma, which has every multiple of 8 up to it."""
    operand: TensorType
    accumulator: TensorType
    warps: int
    multiply_adds_per_cycle: Mapping[Capability, int]
    """Multiply-adds of a multiprocessor, by compute capability; those between have the number of the lower one."""
    last: Capability | None = None
    """The last compute capability that has it; None for all newer ones."""

    @property
    def first(self) -> Capability:
        """The first compute capability that has it."""
        return min(self.multiply_adds_per_cycle)

    @property
    def feature(self) -> Feature:
        return Feature(self.name, self.first, self.last)

    def per_cycle(self, capability: Capability) -> int:
        """Multiply-adds per cycle of one multiprocessor; 0 where there is no such instruction."""
        found = nearest(self.multiply_adds_per_cycle, capability) if self.feature.is_in(capability) else None
        return 0 if found is None else found


# mma.sync of 9.0 does 62 % of what wgmma does (measured, H200: 629 TFLOP/s). 10.0 multiplies by tcgen05, and its rate
# of mma.sync is an estimate, as of 8.0. GeForce products do half of these numbers with float32 accumulators.
_F16 = {(8, 0): 1024, (8, 6): 512, (8, 7): 1024, (8, 9): 512, (9, 0): 1270, (10, 0): 1024, (12, 0): 512}
_TF32 = {capability: count // 2 for capability, count in _F16.items()}
_S8 = {capability: count * 2 for capability, count in _F16.items()}

INSTRUCTIONS: tuple[TensorInstruction, ...] = (
    TensorInstruction("mma.sync.m16n8k16.f32.f16", (16, 8, 16), TensorType.F16, TensorType.F32, WARP, _F16),
    TensorInstruction("mma.sync.m16n8k16.f32.bf16", (16, 8, 16), TensorType.BF16, TensorType.F32, WARP, _F16),
    TensorInstruction("mma.sync.m16n8k8.f32.tf32", (16, 8, 8), TensorType.TF32, TensorType.F32, WARP, _TF32),
    TensorInstruction("mma.sync.m16n8k32.s32.s8", (16, 8, 32), TensorType.S8, TensorType.S32, WARP, _S8),
    TensorInstruction(
        "wgmma.m64nNk16.f32.f16", (64, 256, 16), TensorType.F16, TensorType.F32, WARPGROUP, {(9, 0): 2048}, (9, 0)
    ),
    TensorInstruction(
        "wgmma.m64nNk16.f32.bf16", (64, 256, 16), TensorType.BF16, TensorType.F32, WARPGROUP, {(9, 0): 2048}, (9, 0)
    ),
    TensorInstruction(
        "wgmma.m64nNk8.f32.tf32", (64, 256, 8), TensorType.TF32, TensorType.F32, WARPGROUP, {(9, 0): 1024}, (9, 0)
    ),
)
"""Every instruction that a template emits."""


def instruction_of(
    operand: TensorType, warps: int = WARP, instructions: Iterable[TensorInstruction] = INSTRUCTIONS
) -> TensorInstruction:
    """The instruction that multiplies operands of a type by so many warps. Raises KeyError where no row is one."""
    for each in instructions:
        if (each.operand, each.warps) == (operand, warps):
            return each
    raise KeyError(f"no tensor-core instruction multiplies {operand} by {warps} warps")
