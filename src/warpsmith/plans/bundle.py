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
    entry: dict[str, Any]


class Bundle:
    """An exported folder, open for reading. `plan` makes its kernels callable."""

    def __init__(self, folder: Path, kernels: tuple[_Kernel, ...]) -> None:
        self.folder = folder
        self._kernels = kernels

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that the bundle has a kernel for."""
        return tuple(kernel.record.problem for kernel in self._kernels)

    def plan(self, problem: Problem, device: str = "auto") -> Plan:
        """The bundle's kernel for exactly `problem`, ready to be called.

        The machine code of the bundle is used where it fits the device, else its CUDA text is compiled.

        Raises:
            NothingStored: the bundle has no kernel for this problem on this kind of device.
            BundleError: a file of the bundle is missing or was altered.
        """
        ref = DeviceRef.parse(device)
        target = ref.device()
        kernel = self._best(problem, target)
        source = self._read(kernel.entry["source"]).decode()
        program = Program.from_spec(kernel.entry["program"], source)
        exact = kernel.record.device.key() == target.key()
        reasons = () if exact else (f"exact: exported for {kernel.record.device.key()}, this is {target.key()}",)
        match = Match(MatchKind.EXACT if exact else MatchKind.DEVICE, program, kernel.record, reasons)
        return Plan(problem, match, self._binary(kernel, program, ref, target), open_runtime(ref))

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

    def _binary(self, kernel: _Kernel, program: Program, ref: DeviceRef, device: Device) -> Binary:
        for spec in kernel.entry["binaries"]:
            if spec["arch"] == device.arch:
                fields = {name: value for name, value in spec.items() if name not in ("path", "sha256")}
                return Binary(**fields | {"kind": BinaryKind(spec["kind"]), "image": self._read(spec)})
        try:
            return ref.compiler(CompilerChoice.AUTO).compile(program)
        except CompileError as error:
            lacks = f"the bundle {self.folder} has no {device.arch} code"
            raise BundleError(f"{lacks}, and none can be made: {error}") from None

    def _read(self, file: dict[str, Any]) -> bytes:
        path = self.folder / file["path"]
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BundleError(f"cannot read {path}: {error.strerror}; export the bundle again") from None
        if hashlib.sha256(content).hexdigest() != file["sha256"]:
            raise BundleError(f"{path} was altered since its export; export the bundle again")
        return content


def load_bundle(folder: str | Path) -> Bundle:
    """Opens an exported folder and checks every file in it against its checksum.

    Raises BundleError where it is no bundle, of a newer format, incomplete or altered.
    """
    path = Path(folder)
    try:
        manifest = json.loads((path / MANIFEST).read_text())
    except FileNotFoundError:
        raise BundleError(f"{path} is not a bundle: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise BundleError(f"cannot read {path / MANIFEST}: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{path / MANIFEST} is not of a warpsmith bundle")
    if manifest.get("version") != VERSION:
        told = manifest.get("version")
        raise BundleError(f"{path} has bundle format {told}; this version reads {VERSION}: upgrade warpsmith")
    try:
        kernels = tuple(_Kernel(Record.from_spec(entry), entry) for entry in manifest["kernels"])
        files = [file for entry in manifest["kernels"] for file in (entry["source"], *entry["binaries"])]
    except (KeyError, TypeError, ValueError, WarpsmithError) as error:
        raise BundleError(f"{path / MANIFEST} is damaged: {error}") from None
    bundle = Bundle(path, kernels)
    for file in files:
        bundle._read(file)
    return bundle
