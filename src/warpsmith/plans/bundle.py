"""Bundles: exported kernels, run without optuna, sqlalchemy or jinja2."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from warpsmith.devices.base import Binary, BinaryKind
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BundleError, CompileError, NothingStored, WarpsmithError
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan, open_runtime
from warpsmith.store.record import Record
from warpsmith.store.rows import checked_record

FORMAT = "warpsmith-bundle"
VERSION = 1
MANIFEST = "manifest.json"


def binary_spec(binary: Binary) -> dict[str, Any]:
    """What a manifest says of a binary beside its file."""
    spec = dataclasses.asdict(binary)
    del spec["image"]
    return spec


@dataclasses.dataclass(frozen=True, slots=True)
class _Kernel:
    record: Record
    program: Program
    binaries: tuple[Binary, ...]


class Bundle:
    """An exported bundle whose files have been checked. `plan` makes its kernels callable."""

    def __init__(self, folder: Path, kernels: tuple[_Kernel, ...]) -> None:
        self.folder = folder
        self._kernels = kernels

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that the bundle has kernels for."""
        return tuple(kernel.record.problem for kernel in self._kernels)

    def plan(self, problem: Problem, device: str = "auto") -> Plan:
        """The bundle's kernel for exactly `problem`, ready to be called.

        The machine code of the bundle is used if it was made for the device's architecture; otherwise the CUDA text is
        compiled.

        Args:
            problem: what is to be computed.
            device: `auto` (the first GPU, or the host where there is none), `cuda:I` or `host`.

        Raises:
            BadArgument: an unknown device.
            BundleError: the bundle has no machine code for this architecture, and no compiler is available.
            DeviceError: the device is not available.
            NothingStored: the bundle has no kernel for this problem on this kind of device.
        """
        ref = DeviceRef.parse(device)
        target = ref.device()
        kernel = self._best(problem, target)
        exact = kernel.record.device.key() == target.key()
        reasons = () if exact else (f"exact: exported for {kernel.record.device.key()}, this is {target.key()}",)
        match = Match(MatchKind.EXACT if exact else MatchKind.DEVICE, kernel.program, kernel.record, reasons)
        return Plan(problem, match, self._binary(kernel, ref, target), open_runtime(ref))

    def _best(self, problem: Problem, device: Device) -> _Kernel:
        fitting = [
            kernel
            for kernel in self._kernels
            if kernel.record.problem == problem and kernel.record.device.kind is device.kind
        ]
        if not fitting:
            raise NothingStored(f"the bundle {self.folder} has no kernel for {problem.key()} on a {device.kind} device")
        return max(
            fitting,
            key=lambda kernel: (kernel.record.device.key() == device.key(), kernel.record.device.arch == device.arch),
        )

    def _binary(self, kernel: _Kernel, ref: DeviceRef, device: Device) -> Binary:
        for binary in kernel.binaries:
            if binary.arch == device.arch:
                return binary
        try:
            return ref.compiler(CompilerChoice.AUTO).compile(kernel.program)
        except CompileError as error:
            lacks = f"the bundle {self.folder} has no {device.arch} code"
            raise BundleError(f"{lacks}, and none can be made: {error}") from None


def load_bundle(folder: str | Path) -> Bundle:
    """Opens an exported folder and checks every file in it against its checksum.

    Raises BundleError where it is not a bundle, has another format version, is incomplete or was altered.
    """
    path = Path(folder)
    entries = _entries(path)
    try:
        return Bundle(path, tuple(_kernel(path, entry) for entry in entries))
    except BundleError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, WarpsmithError) as error:
        told = f"{type(error).__name__}: {error}"
        raise BundleError(f"{path / MANIFEST} is damaged ({told}); export the bundle again") from None


def _entries(folder: Path) -> list[Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BundleError(f"{folder} is not a bundle: it has no {MANIFEST}") from None
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is damaged ({error}); export the bundle again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{path} is not of a warpsmith bundle")
    if (told := manifest.get("version")) != VERSION:
        raise BundleError(f"{folder} has bundle format {told}; this version reads {VERSION}: upgrade warpsmith")
    if not isinstance(entries := manifest.get("kernels"), list):
        raise BundleError(f"{path} is damaged (it lists no kernels); export the bundle again")
    return entries


def _kernel(folder: Path, entry: dict[str, Any]) -> _Kernel:
    """One kernel with its files. Raises BundleError, or anything that a value of a wrong kind gives rise to."""
    record = checked_record(entry)
    program = Program.from_spec(entry["program"], _read(folder, entry["source"]).decode())
    # The launches are in no file with a checksum: with a wrong grid a right kernel writes out of bounds.
    if program.fingerprint != record.trial.fingerprint:
        raise ValueError(f"the launches of {record.problem.key()} are not those that were tuned")
    return _Kernel(record, program, tuple(_load_binary(folder, spec) for spec in entry["binaries"]))


def _load_binary(folder: Path, spec: dict[str, Any]) -> Binary:
    fields = {name: value for name, value in spec.items() if name not in ("path", "sha256")}
    return Binary(**{**fields, "kind": BinaryKind(fields["kind"])}, image=_read(folder, spec))


def _read(folder: Path, file: dict[str, Any]) -> bytes:
    path: Path = folder / file["path"]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}; export the bundle again") from None
    if hashlib.sha256(content).hexdigest() != file["sha256"]:
        raise BundleError(f"{path} was altered since its export; export the bundle again")
    return content
