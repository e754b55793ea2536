"""What the generator knows about a device: its limits, its instructions, and its data-sheet rates, which its measured
ceilings correct.

A cost model never uses a data-sheet rate as it is. It multiplies the rate by the share that its kernels reach: the rate
measured on the reference GPU over the reference's data-sheet rate, `SHARE = 2500 / REFERENCE.memory_bytes_per_ns`.
Latencies are clock cycles, since they scale with the clock; `cycles_ns` converts them to ns.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

from warpsmith.generator.architectures import Capability, Feature, Limits, architecture_of
from warpsmith.generator.ceilings import REFERENCE_CEILINGS, TENSOR_CEILINGS, Ceilings, Figure, tensor_ceiling
from warpsmith.generator.tensor_cores import INSTRUCTIONS, WARP, TensorInstruction, TensorType, instruction_of

LAUNCH_NS = 2500.0
"""Nanoseconds of a launch whose predecessor has to end first, until its blocks run (measured, H200)."""
_USUAL_CLOCK_MHZ, _USUAL_MEMORY_CLOCK_MHZ = 2000, 3200
"""Clocks of a device that reports none: the host, and some integrated GPUs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a whole device per ns at its boost clock."""

    capability: Capability
    multiprocessors: int
    cycles_per_ns: float
    memory_bytes_per_ns: float
    """Bytes per ns between memory and L2."""
    l2_bytes_per_ns: float
    """Bytes per ns from L2 to all SMs."""
    shared_bytes_per_ns: float
    """Bytes per ns from the shared memory, or the L1, of all SMs."""
    multiply_adds_per_ns: float
    """float32 multiply-adds per ns."""
    launch_ns: float = LAUNCH_NS
    tensor_factors: tuple[tuple[str, float], ...] = ()
    """Name of each tensor-core instruction whose rate was measured, and the factor on its data-sheet rate."""

    @classmethod
    def of(
        cls, capability: Capability, multiprocessors: int, clock_mhz: float, memory_clock_mhz: float, l2_bytes: int
    ) -> Rates:
        """Rates of a device from its architecture, clocks (0: the usual ones) and sizes."""
        architecture = architecture_of(capability)
        cycles_per_ns = (clock_mhz or _USUAL_CLOCK_MHZ) / 1000
        cycles = multiprocessors * cycles_per_ns
        transfers_per_ns = 2 * (memory_clock_mhz or _USUAL_MEMORY_CLOCK_MHZ) / 1000
        memory_bits = architecture.memory_bits_per_l2_mib * l2_bytes / 2**20
        return cls(
            capability=capability,
            multiprocessors=multiprocessors,
            cycles_per_ns=cycles_per_ns,
            memory_bytes_per_ns=transfers_per_ns * memory_bits / 8,
            l2_bytes_per_ns=architecture.l2_bytes_per_cycle * cycles,
            shared_bytes_per_ns=architecture.shared_bytes_per_cycle * cycles,
            multiply_adds_per_ns=architecture.multiply_adds_per_cycle * cycles,
        )

    def tensor_multiply_adds_per_ns(self, instruction: TensorInstruction) -> float:
        """Multiply-adds per ns by one tensor-core instruction; 0 if the device lacks it."""
        per_cycle = instruction.per_cycle(self.capability) * dict(self.tensor_factors).get(instruction.name, 1.0)
        return per_cycle * self.multiprocessors * self.cycles_per_ns

    def cycles_ns(self, cycles: float) -> float:
        """Nanoseconds of `cycles` clock cycles."""
        return cycles / self.cycles_per_ns

    @property
    def cycle_ratio(self) -> float:
        """Length of a clock cycle relative to the reference's, by which measured latencies scale."""
        return REFERENCE.cycles_per_ns / self.cycles_per_ns

    def of_multiprocessor(self, clock_share: float = 1.0) -> Rates:
        """Rates of one SM while all are busy, at a share of the boost clock.

        Memory has a clock of its own, and each SM gets an equal part of its rate.
        """
        part = clock_share / self.multiprocessors
        return dataclasses.replace(
            self,
            multiprocessors=1,
            cycles_per_ns=self.cycles_per_ns * clock_share,
            memory_bytes_per_ns=self.memory_bytes_per_ns / self.multiprocessors,
            l2_bytes_per_ns=self.l2_bytes_per_ns * part,
            shared_bytes_per_ns=self.shared_bytes_per_ns * part,
            multiply_adds_per_ns=self.multiply_adds_per_ns * part,
        )


REFERENCE = Rates.of((9, 0), multiprocessors=132, clock_mhz=1980, memory_clock_mhz=3201, l2_bytes=60 * 2**20)
"""Rates of the H200 on which the models' figures were measured: the denominator of every measured share. The meaning of
a config depends on no device, so these rates also rank what all devices must agree on, such as sizes of Fourier
tiles."""


class DeviceKind(enum.StrEnum):
    """Kind of device, by how it runs a program."""

    CUDA = "cuda"
    """An NVIDIA GPU."""
    HOST = "host"
    """The CPU, running the same CUDA text through the host's C++ compiler."""


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """One device, as plain data. Sizes in bytes, clocks in MHz."""

    name: str
    kind: DeviceKind
    compute_capability: tuple[int, int]
    multiprocessors: int
    """Streaming multiprocessors of a GPU; cores of a host."""
    l2_bytes: int
    memory_bytes: int
    shared_per_block_bytes: int
    shared_per_multiprocessor_bytes: int
    registers_per_multiprocessor: int
    threads_per_multiprocessor: int
    clock_mhz: int
    memory_clock_mhz: int
    ceilings: Ceilings | None = None
    """What was measured on it; None before `warpsmith probe`. It is no part of the device's identity."""

    @property
    def arch(self) -> str:
        """The compiler's name for the architecture, such as `sm_90`; `host` for the CPU."""
        if self.kind is DeviceKind.HOST:
            return "host"
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"

    @property
    def limits(self) -> Limits:
        """Limits per thread, per block and per SM: this device's numbers where it has them, else the architecture's."""
        return _limits(self)

    @property
    def rates(self) -> Rates:
        """Rates per ns: those of the data sheet, from the architecture, the number of SMs, the clocks and the size of
        L2, corrected by `figures`.
        """
        return _rates(self)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The measured ceilings beside the expected ones; empty if nothing was measured."""
        return () if self.ceilings is None else _figures(_sheet_rates(self), self.ceilings)

    def has(self, feature: Feature) -> bool:
        """True if the architecture has a feature. The host device has all."""
        return self.kind is DeviceKind.HOST or feature.is_in(self.compute_capability)

    def why_no(self, feature: Feature) -> str | None:
        """The reason why the device lacks a feature, in one line; None if it has the feature."""
        return None if self.has(feature) else feature.why_not

    def tensor_instruction(self, operand: TensorType, warps: int = WARP) -> TensorInstruction | None:
        """The instruction by which `warps` warps multiply operands of a type; None if the device lacks it."""
        found = instruction_of(operand, warps)
        return found if self.has(found.feature) else None

    def why_no_tensor_instruction(self, operand: TensorType, warps: int = WARP) -> str | None:
        """The reason why the device lacks the instruction of `tensor_instruction`, in one line; None if it has it."""
        return self.why_no(instruction_of(operand, warps).feature)

    def thread_registers(self, threads: int) -> int:
        """Registers that a thread may have if `threads` threads share an SM."""
        return min(self.limits.registers_per_thread, self.registers_per_multiprocessor // threads)

    def key(self) -> str:
        """Identity of the device in stores: a stored time holds only for an equal key.

        The name alone does not suffice (one name is sold with different chips), nor does the compute capability (H100
        and H200 share theirs). Memory is rounded to GiB, since the part that drivers reserve varies.
        """
        gib = round(self.memory_bytes / 2**30)
        name = self.name.replace(" ", "_")
        return f"{name}/{self.arch}/{self.multiprocessors}mp/l2={self.l2_bytes >> 10}K/{gib}GiB"

    def spec(self) -> dict[str, Any]:
        """The device without its ceilings as JSON values; `from_spec` reads it back."""
        spec = {**dataclasses.asdict(self), "compute_capability": list(self.compute_capability)}
        del spec["ceilings"]
        return spec

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Device:
        major, minor = spec["compute_capability"]
        return cls(**{**spec, "kind": DeviceKind(spec["kind"]), "compute_capability": (major, minor)})


def _capability(device: Device) -> Capability:
    """Compute capability whose limits and rates describe a device. The host device has the reference GPU's."""
    return REFERENCE.capability if device.kind is DeviceKind.HOST else device.compute_capability


@functools.lru_cache(maxsize=64)
def _limits(device: Device) -> Limits:
    return dataclasses.replace(
        architecture_of(_capability(device)).limits,
        shared_per_block_bytes=device.shared_per_block_bytes,
        shared_per_multiprocessor_bytes=device.shared_per_multiprocessor_bytes,
        registers_per_multiprocessor=device.registers_per_multiprocessor,
        threads_per_multiprocessor=device.threads_per_multiprocessor,
    )


def _sheet_rates(device: Device) -> Rates:
    return Rates.of(
        _capability(device), device.multiprocessors, device.clock_mhz, device.memory_clock_mhz, device.l2_bytes
    )


@functools.lru_cache(maxsize=64)
def _rates(device: Device) -> Rates:
    sheet, factors = _sheet_rates(device), {figure.name: figure.factor for figure in device.figures}
    corrected = {name: factor for name, factor in factors.items() if factor != 1}
    if not corrected:
        return sheet
    clock = factors.get("clock_mhz", 1.0)
    direct = ("memory_bytes_per_ns", "l2_bytes_per_ns", "shared_bytes_per_ns", "multiply_adds_per_ns", "launch_ns")
    # Tensor rates are per cycle, so that the factor on the clock is in them already.
    tensor = ((each.name, factors.get(tensor_ceiling(each), 1.0) / clock) for each in INSTRUCTIONS)
    return dataclasses.replace(
        sheet,
        cycles_per_ns=sheet.cycles_per_ns * clock,
        tensor_factors=tuple((name, factor) for name, factor in tensor if factor != 1),
        **{name: getattr(sheet, name) * corrected[name] for name in direct if name in corrected},
    )


def _figures(sheet: Rates, ceilings: Ceilings) -> tuple[Figure, ...]:
    here, reference, known = _sheet_ceilings(sheet), _sheet_ceilings(REFERENCE), REFERENCE_CEILINGS.spec()
    return tuple(
        Figure(name, measured, here.get(name), known.get(name), reference.get(name))
        for name, measured in ceilings.spec().items()
    )


def _sheet_ceilings(rates: Rates) -> dict[str, float]:
    """Data-sheet rates by the field of `Ceilings` that measures them. No data sheet has a launch or a barrier."""
    tensor = {name: rates.tensor_multiply_adds_per_ns(each) for name, each in TENSOR_CEILINGS.items()}
    return {
        "memory_bytes_per_ns": rates.memory_bytes_per_ns,
        "l2_bytes_per_ns": rates.l2_bytes_per_ns,
        "shared_bytes_per_ns": rates.shared_bytes_per_ns,
        "multiply_adds_per_ns": rates.multiply_adds_per_ns,
        **{name: rate for name, rate in tensor.items() if rate > 0},
        "clock_mhz": 1000 * rates.cycles_per_ns,
    }
