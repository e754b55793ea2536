"""Bundles: exported kernels, run without optuna, sqlalchemy or jinja2."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from warpsmith.devices.compiler import Binaries
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BundleError, CompileError, LaunchError, NothingStored, WarpsmithError
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem, checked_problem
from warpsmith.generator.program import Program
from warpsmith.plans.bundle_files import MANIFEST as MANIFEST
from warpsmith.plans.bundle_files import BundleFiles, folder_of
from warpsmith.plans.bundle_program import (
    UnitBinary,
    binary_of,
    check_program,
    checked_binary,
    checked_text,
    sources_of,
    unit_of,
)
from warpsmith.plans.loaded import EXEMPT, TUNED_ELSEWHERE
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan, open_runtime
from warpsmith.store.record import Record, was_wrong
from warpsmith.store.rows import checked_record

FORMAT = "warpsmith-bundle"
ONE_TEXT, UNITS = 1, 2
"""Formats. The first has programs of one text and launches of it; one that is more than that (`Program.is_plain`) makes
a manifest of the second, whose other entries are as before."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Kernel:
    record: Record
    program: Program
    binaries: tuple[UnitBinary, ...]


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
        compiled. Of several kernels for the problem, that of this very device is asked first, then those of its
        architecture; one that cannot be compiled or loaded here is passed over for the next.

        A search on the device of its record has verified each program, its fingerprint covers text and launches, and
        a stored winner is exempt from the check of first use: `plan.verified` says so where it was tuned on this
        device. No family's space is asked whether the config is legal: a program of an earlier version stays right
        where a later one's space has other parameters, and reading a bundle loads neither families nor templates.

        Args:
            problem: what is to be computed.
            device: `auto` (the first GPU, or the host where there is none), `cuda:I` or `host`.

        Raises:
            BadArgument: an unknown device.
            BundleError: the bundle has no machine code for this architecture, and no compiler is available; or a later
                look found its kernel for this problem wrong.
            DeviceError: the device is not available.
            NothingStored: the bundle has no kernel for this problem on this kind of device.
        """
        ref = DeviceRef.parse(device)
        target = ref.device()
        first_error, reasons = None, list[str]()
        for kernel in self._ranked(checked_problem(problem), target):
            try:
                return self._planned(kernel, ref, reasons)
            except (BundleError, CompileError, LaunchError) as error:
                reasons.append(f"exported for {kernel.record.device.key()}: {error}")
                first_error = first_error or error
        assert first_error is not None  # `_ranked` has one kernel at the least
        raise first_error

    def _planned(self, kernel: _Kernel, ref: DeviceRef, passed_over: list[str]) -> Plan:
        """The plan of a kernel, if it suits the device."""
        record, target = kernel.record, ref.device()
        if was_wrong(record):
            wrong = f"the kernel for {record.problem.key()} was not right when it was last looked at"
            raise BundleError(f"{wrong}: tune again, and export the bundle {self.folder} again")
        exact = record.device.key() == target.key()
        unlike = () if exact else (f"exact: exported for {record.device.key()}, this is {target.key()}",)
        kind = MatchKind.EXACT if exact else MatchKind.DEVICE
        match = Match(kind, kernel.program, record, (*unlike, *passed_over))
        plan = Plan.load(record.problem, match, self._binaries(kernel, ref, target), open_runtime(ref))
        plan.program.verified = EXEMPT if exact else TUNED_ELSEWHERE
        return plan

    def _ranked(self, problem: Problem, device: Device) -> list[_Kernel]:
        fitting = [
            kernel
            for kernel in self._kernels
            if kernel.record.problem == problem and kernel.record.device.kind is device.kind
        ]
        if not fitting:
            raise NothingStored(f"the bundle {self.folder} has no kernel for {problem.key()} on a {device.kind} device")
        return sorted(
            fitting,
            key=lambda kernel: (kernel.record.device.key() != device.key(), kernel.record.device.arch != device.arch),
        )

    def _binaries(self, kernel: _Kernel, ref: DeviceRef, device: Device) -> Binaries:
        ready = {each.unit: each.binary for each in kernel.binaries if each.binary.arch == device.arch}
        if ready.keys() == {unit.name for unit in kernel.program.units}:
            return ready
        try:
            return ref.compiler(CompilerChoice.AUTO).compile_program(kernel.program)
        except CompileError as error:
            lacks = f"the bundle {self.folder} has no {device.arch} code"
            raise BundleError(f"{lacks}, and none can be made: {error}") from None


def load_bundle(folder: str | Path) -> Bundle:
    """Opens an exported folder and checks every file in it against its checksum.

    Nothing outside the folder is read, and no shared library is loaded: on the host device the bundle's CUDA text is
    compiled. Its kernels are programs all the same, and run with the rights of this process, on the host above all:
    checksums show damage and not who made a bundle, so load those of people whose code you would run.

    Raises BundleError where it is not a bundle, has another format version, is incomplete or was altered.
    """
    files = BundleFiles(folder_of(folder))
    try:
        entries = _entries(files)
        # All paths before the first file, so that nothing is read of a bundle that reaches out of its folder.
        for entry in entries:
            for file in (*sources_of(entry), *map(_machine_code, entry["binaries"])):
                files.check(file)
        return Bundle(files.folder, tuple(_kernel(files, entry) for entry in entries))
    except BundleError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, WarpsmithError) as error:
        raise files.damaged(" ".join(f"{type(error).__name__}: {error}".split())) from None


def _entries(files: BundleFiles) -> list[Any]:
    manifest = files.manifest()
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{files.manifest_path} is not of a warpsmith bundle")
    if (version := manifest.get("version")) not in (ONE_TEXT, UNITS):
        known = f"{ONE_TEXT} and {UNITS}"
        raise BundleError(f"{files.folder} has bundle format {version}; this version reads {known}: upgrade warpsmith")
    if not isinstance(entries := manifest.get("kernels"), list):
        raise files.damaged("it lists no kernels")
    if version == ONE_TEXT and any("sources" in entry for entry in entries):
        raise files.damaged(f"a program of several units stands in format {ONE_TEXT}")
    return entries


def _machine_code(spec: dict[str, Any]) -> dict[str, Any]:
    checked_binary(spec)
    return spec


def _kernel(files: BundleFiles, entry: dict[str, Any]) -> _Kernel:
    """One kernel with its files. Raises BundleError, or anything that a value of a wrong kind gives rise to."""
    record = checked_record(entry)
    texts = {unit_of(each): checked_text(files.read(each).decode()) for each in sources_of(entry)}
    program = Program.from_spec(entry["program"], texts)
    check_program(program, record.problem)
    # The launches are in no file with a checksum: with a wrong grid a right kernel writes out of bounds.
    if not program.has_fingerprint(record.trial.fingerprint):
        raise ValueError(f"the launches of {record.problem.key()} are not those that were tuned")
    binaries = tuple(binary_of(spec, files.read(spec), program) for spec in entry["binaries"])
    return _Kernel(record, program, binaries)
