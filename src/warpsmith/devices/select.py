"""Choosing a device and a compiler by name."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import re

from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import BadArgument, CompileError
from warpsmith.generator.device import Device, DeviceKind


class CompilerChoice(enum.StrEnum):
    """The compiler that makes binaries."""

    AUTO = "auto"
    """NVRTC for GPUs, else nvcc; the C++ compiler for the host. PyCUDA is never chosen, because it runs an nvcc
    itself.
    """
    NVRTC = "nvrtc"
    """NVIDIA's compiler library: the fastest, and it needs no toolkit."""
    NVCC = "nvcc"
    """NVIDIA's compiler of the toolkit."""
    PYCUDA = "pycuda"
    """nvcc run by PyCUDA, which needs the extra `pycuda` and an NVIDIA driver beside the toolkit."""
    HOST = "host"
    """The machine's C++ compiler."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRef:
    """Names a device. It is cheap to pickle, and nothing is opened before `open`."""

    kind: DeviceKind
    ordinal: int = 0
    """GPU number, as CUDA_VISIBLE_DEVICES numbers them; 0 for the host."""

    @classmethod
    def parse(cls, text: str) -> DeviceRef:
        """The device that `auto`, `cuda`, `cuda:I` or `host` names.

        `auto` is cuda:0 if the driver, a GPU and the extra `cuda` are there, else the host. Any other device is looked
        for only when it is used.

        Raises:
            BadArgument: any other text.
            DeviceError: `auto` in a forked child of a process that has used a GPU.
        """
        match = re.fullmatch(r"auto|host|cuda(?::(\d{1,4}))?", text) if isinstance(text, str) else None
        if match is None:
            raise BadArgument(f"unknown device {text!r}; choose auto, host, cuda or cuda:I such as cuda:0")
        if text == "auto":
            from warpsmith.devices.cuda.available import cuda_device_count

            return cls(DeviceKind.CUDA if cuda_device_count() else DeviceKind.HOST)
        return cls(DeviceKind.HOST) if text == "host" else cls(DeviceKind.CUDA, int(match[1] or 0))

    @classmethod
    def parse_all(cls, text: str) -> tuple[DeviceRef, ...]:
        """The devices that `text` names: every GPU of this machine for `all`, else the one of `parse`.

        Raises:
            BadArgument: any other text.
            DeviceError: `all`, and there is no GPU; the message names the remedy.
        """
        if text != "all":
            return (cls.parse(text),)
        from warpsmith.devices.cuda.available import gpu_count

        return tuple(cls(DeviceKind.CUDA, ordinal) for ordinal in range(gpu_count()))

    def __str__(self) -> str:
        return f"cuda:{self.ordinal}" if self.kind is DeviceKind.CUDA else "host"

    def device(self) -> Device:
        """Facts about the device for the generator. Raises DeviceError if it does not exist, naming the remedy."""
        if self.kind is DeviceKind.HOST:
            from warpsmith.devices.host.machine import host_device

            return host_device()
        from warpsmith.devices.cuda.runtime import cuda_device

        return cuda_device(self.ordinal)

    def bus_id(self) -> str | None:
        """PCI address, which names the GPU to every process of the machine; None for the host.

        Raises DeviceError if the GPU does not exist, naming the remedy.
        """
        if self.kind is DeviceKind.HOST:
            return None
        from warpsmith.devices.cuda.runtime import cuda_bus_id

        return cuda_bus_id(self.ordinal)

    def open(self) -> Runtime:
        """Opens the device; the caller closes it. Raises DeviceError if it does not exist, naming the remedy."""
        if self.kind is DeviceKind.HOST:
            from warpsmith.devices.host.runtime import HostRuntime

            return HostRuntime()
        from warpsmith.devices.cuda.runtime import CudaRuntime

        return CudaRuntime(self.ordinal)

    def compiler(self, choice: CompilerChoice = CompilerChoice.AUTO, sanitize: bool = False) -> Compiler:
        """A compiler for the device, with a disk cache.

        Args:
            choice: the compiler.
            sanitize: build for AddressSanitizer and UndefinedBehaviorSanitizer; on the host only.

        Raises:
            BadArgument: a compiler that does not compile for this device, or sanitizers on a GPU.
            DeviceError: the GPU does not exist, so its architecture is not known.
        """
        if self.kind is DeviceKind.HOST:
            return host_compiler(choice, sanitize)
        if sanitize:
            raise BadArgument("sanitizers run on the host only; choose the device host")
        return cuda_compiler(self.device().arch, choice)


def cuda_compiler(arch: str, choice: CompilerChoice = CompilerChoice.AUTO) -> Compiler:
    """A compiler for GPUs of an architecture such as `sm_90`, which need not be on this machine.

    If the chosen compiler is missing, it raises its own errors when it is used. For AUTO those are NVRTC's if nvcc is
    missing too.

    Raises:
        BadArgument: an architecture of another form, or the host's compiler.
    """
    from warpsmith.devices.cuda.compiler import NvccCompiler, NvrtcCompiler
    from warpsmith.devices.cuda.pycuda_compiler import PyCudaCompiler

    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise BadArgument(f"unknown architecture {arch!r}; name it as in sm_90")
    match choice:
        case CompilerChoice.HOST:
            raise BadArgument("the host's compiler makes no GPU code; choose nvrtc, nvcc or pycuda")
        case CompilerChoice.NVCC:
            return CachedCompiler(NvccCompiler(arch))
        case CompilerChoice.PYCUDA:
            return CachedCompiler(PyCudaCompiler(arch))
        case CompilerChoice.NVRTC:
            return CachedCompiler(NvrtcCompiler(arch))
        case CompilerChoice.AUTO:
            return CachedCompiler(_first_there(NvrtcCompiler(arch), NvccCompiler(arch)))


def _first_there(*compilers: Compiler) -> Compiler:
    for compiler in compilers:
        with contextlib.suppress(CompileError):
            _ = compiler.identity
            return compiler
    return compilers[0]


def host_compiler(choice: CompilerChoice = CompilerChoice.AUTO, sanitize: bool = False) -> Compiler:
    """The compiler for the host. Raises BadArgument for a compiler that only makes GPU code."""
    from warpsmith.devices.host.compiler import HostCompiler

    if choice not in (CompilerChoice.AUTO, CompilerChoice.HOST):
        raise BadArgument(f"{choice} does not compile for the host; choose host")
    return CachedCompiler(HostCompiler(sanitize=sanitize))
