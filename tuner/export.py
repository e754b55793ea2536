"""Writes bundles: tuned kernels as readable CUDA and machine code, for use without the tuner or a store."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from warpsmith.devices.base import Binary, BinaryKind
from warpsmith.devices.select import CompilerChoice, cuda_compiler
from warpsmith.errors import BundleError, CompileError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program
from warpsmith.generator.registry import family_named
from warpsmith.plans.bundle import FORMAT, MANIFEST, VERSION, binary_spec
from warpsmith.store.record import Record


@dataclasses.dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written and what was not."""

    folder: Path
    kernels: int
    cubins: int
    skipped: tuple[str, ...]
    """A line for each record or cubin left out, with the reason."""


def export(records: Iterable[Record], folder: Path, archs: tuple[str, ...] = ()) -> ExportReport:
    """Writes a bundle of `records` into `folder`, which is made where it is missing.

    Args:
        records: winners, as stored.
        folder: an empty or missing folder, or an earlier bundle, which is then replaced.
        archs: architectures to compile cubins for, such as `sm_90`; without any, those of the records' own GPUs.

    Raises BundleError where the folder cannot be written or holds something else.
    """
    skipped: list[str] = []
    kernels: list[dict[str, Any]] = []
    cubins = 0
    try:
        (folder / "kernels").mkdir(parents=True, exist_ok=True)
        if not (folder / MANIFEST).exists() and any(each.name != "kernels" for each in folder.iterdir()):
            raise BundleError(f"{folder} holds other files; export to an empty folder")
        for record in records:
            program = _program_of(record)
            if program is None:
                skipped.append(f"{record.problem.key()}: this version generates another kernel; tune again")
                continue
            binaries = list(_cubins(record, program, archs, skipped))
            cubins += len(binaries)
            kernels.append(_write_kernel(folder, record, program, binaries))
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "warpsmith": importlib.metadata.version("warpsmith"),
            "kernels": kernels,
        }
        _write(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    except OSError as error:
        raise BundleError(f"cannot write the bundle {folder}: {error.strerror}; choose another folder") from None
    return ExportReport(folder, len(kernels), cubins, tuple(skipped))


def _program_of(record: Record) -> Program | None:
    """The program whose time the record holds; None where this version would generate another text."""
    family = family_named(record.trial.family)
    if family is None or family.why_not(record.problem, record.device):
        return None
    if not family.space(record.problem, record.device).contains(record.trial.config):
        return None
    program = family.program(record.problem, record.trial.config)
    return program if program.fingerprint == record.trial.fingerprint else None


def _cubins(record: Record, program: Program, archs: tuple[str, ...], skipped: list[str]) -> Iterable[Binary]:
    own = (record.device.arch,) if record.device.kind is DeviceKind.CUDA else ()
    for arch in archs or own:
        errors: list[str] = []
        for choice in (CompilerChoice.NVRTC, CompilerChoice.NVCC):
            try:
                yield cuda_compiler(arch, choice).compile(program)
                break
            except CompileError as error:
                errors.append(str(error))
        else:
            skipped.append(f"{record.problem.key()}: no cubin for {arch}: {errors[-1]}")


def _write_kernel(folder: Path, record: Record, program: Program, binaries: list[Binary]) -> dict[str, Any]:
    words = re.sub(r"[^a-z0-9]+", "_", record.problem.key().lower()).strip("_")
    stem = f"{words[:80]}_{program.fingerprint[:8]}"
    source = _write_file(folder, f"kernels/{stem}.cu", program.source.encode())
    files = [
        _write_file(folder, f"kernels/{stem}.{binary.arch}.cubin", binary.image) | binary_spec(binary)
        for binary in binaries
        if binary.kind is BinaryKind.CUBIN
    ]
    return record.spec() | {"program": program.spec(), "source": source, "binaries": files}


def _write_file(folder: Path, name: str, content: bytes) -> dict[str, Any]:
    _write(folder / name, content)
    return {"path": name, "sha256": hashlib.sha256(content).hexdigest()}


def _write(path: Path, content: bytes) -> None:
    """Writes a whole file or none: an interrupted export leaves the earlier bundle's files as they were."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as target:
        try:
            target.write(content)
            target.flush()
        except OSError:
            Path(target.name).unlink()
            raise
    Path(target.name).chmod(0o644)
    os.replace(target.name, path)  # noqa: PTH105 - os.replace says what it does: atomic on one file system
