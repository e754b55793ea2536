"""Export of bundles: tuned kernels as readable CUDA and machine code, for use without the tuner or a store."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from warpsmith.devices.select import CompilerChoice, cuda_compiler
from warpsmith.errors import BundleError, CompileError, NothingStored
from warpsmith.files import write_whole
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program, Unit
from warpsmith.plans.bundle import FORMAT, ONE_TEXT, UNITS
from warpsmith.plans.bundle_files import MANIFEST, BundleFiles
from warpsmith.plans.bundle_program import UnitBinary, binary_spec, sources_of
from warpsmith.plans.lookup import regenerate
from warpsmith.store.record import Record

KERNELS = "kernels"
"""Folder of the CUDA sources and machine code in a bundle."""


@dataclasses.dataclass(frozen=True, slots=True)
class ExportReport:
    """Counts of what an export wrote, and what it left out."""

    folder: Path
    kernels: int
    """Number of kernels written."""
    cubins: int
    """Number of machine code files written."""
    skipped: tuple[str, ...]
    """One line for each record or cubin left out, with the reason."""


def export(records: Iterable[Record], folder: Path, archs: tuple[str, ...] = ()) -> ExportReport:
    """Writes a bundle of `records` into `folder`, which is created if it is missing.

    The manifest is written last and names files by their content. An export that fails leaves an earlier bundle
    unchanged and no files of its own.

    Args:
        records: winners, as stored.
        folder: an empty or missing folder, or an earlier bundle, which is then replaced.
        archs: architectures to compile cubins for, such as `sm_90`; if empty, those of the records' own GPUs.

    Raises:
        BadArgument: an architecture does not exist.
        BundleError: the folder cannot be written or holds something else.
        NothingStored: this version would generate another kernel for every one of `records`.
    """
    for arch in archs:
        cuda_compiler(arch)  # refuses an unknown architecture even if there is nothing to compile
    try:
        earlier = _earlier_files(folder)
        kernels, skipped = _kernels(records, archs)
        if not kernels:
            raise NothingStored(f"there is nothing to export: {'; '.join(skipped) or 'no winner was given'}")
        _write_bundle(folder, kernels, earlier)
    except OSError as error:
        reason = error.strerror or error
        raise BundleError(f"cannot write the bundle {folder}: {reason}; choose another folder") from None
    return ExportReport(folder, len(kernels), sum(len(kernel.cubins) for kernel in kernels), tuple(skipped))


@dataclasses.dataclass(frozen=True, slots=True)
class _Kernel:
    """One winner with everything that is written for it."""

    record: Record
    program: Program
    cubins: tuple[UnitBinary, ...]

    def files(self) -> dict[str, bytes]:
        """Contents of the kernel's files by path in the bundle; the manifest's entry names the same paths."""
        cubins = {self._cubin_path(cubin): cubin.binary.image for cubin in self.cubins}
        return {self._source_path(unit): unit.source.encode() for unit in self.program.units} | cubins

    def entry(self) -> dict[str, Any]:
        """The kernel's entry in the manifest."""
        texts = [_file_spec(self._source_path(unit), unit.source.encode()) for unit in self.program.units]
        codes = [_file_spec(self._cubin_path(each), each.binary.image) for each in self.cubins]
        codes = [code | binary_spec(each.binary) for code, each in zip(codes, self.cubins, strict=True)]
        spec = self.record.spec() | {"program": self.program.spec()}
        if self.program.is_plain:
            return spec | {"source": texts[0], "binaries": codes}
        named = [{"unit": unit.name} | text for unit, text in zip(self.program.units, texts, strict=True)]
        of_units = [{"unit": each.unit} | code for each, code in zip(self.cubins, codes, strict=True)]
        return spec | {"sources": named, "binaries": of_units}

    @property
    def _stem(self) -> str:
        words = re.sub(r"[^a-z0-9]+", "_", self.record.problem.key().lower()).strip("_")
        return f"{KERNELS}/{words[:80]}_{self.program.fingerprint[:8]}"

    def _source_path(self, unit: Unit) -> str:
        return f"{self._of_unit(unit.name)}.cu"

    def _cubin_path(self, cubin: UnitBinary) -> str:
        # Another compiler's code for the same source gets another file name, so that the earlier manifest stays valid.
        digest = hashlib.sha256(cubin.binary.image).hexdigest()[:8]
        return f"{self._of_unit(cubin.unit)}.{cubin.binary.arch}.{digest}.cubin"

    def _of_unit(self, name: str) -> str:
        return f"{self._stem}_{name}" if name else self._stem


def _file_spec(path: str, content: bytes) -> dict[str, Any]:
    return {"path": path, "sha256": hashlib.sha256(content).hexdigest()}


def _earlier_files(folder: Path) -> frozenset[str]:
    """Files of the bundle that `folder` holds; none if it is empty or missing.

    Raises BundleError if it holds something else.
    """
    if not folder.exists():
        return frozenset()
    names = {each.name for each in folder.iterdir()}
    # A link prepared by an attacker would make the export overwrite and remove files elsewhere.
    if not any((folder / name).is_symlink() for name in (MANIFEST, KERNELS)):
        # An export that was killed leaves a kernels folder alone.
        listed = _listed_files(folder) if MANIFEST in names else frozenset() if names <= {KERNELS} else None
        if listed is not None:
            return listed
    raise BundleError(f"{folder} holds other files; export to an empty folder")


def _listed_files(folder: Path) -> frozenset[str] | None:
    """Kernel files that a bundle's manifest names; None if it is damaged or of another program."""
    try:
        content = BundleFiles(folder).manifest()
        if content["format"] != FORMAT:
            return None
        files = [file["path"] for entry in content["kernels"] for file in (*sources_of(entry), *entry["binaries"])]
        # Files of an older bundle are removed, so a path that leads elsewhere must be ignored.
        return frozenset(path for path in files if re.fullmatch(rf"{KERNELS}/[^/]+", path))
    except (BundleError, LookupError, TypeError, ValueError, AttributeError):
        return None


def _kernels(records: Iterable[Record], archs: tuple[str, ...]) -> tuple[list[_Kernel], list[str]]:
    """The kernels that can be exported, and a line for each record or cubin that cannot."""
    skipped: list[str] = []
    kernels = []
    for record in records:
        if program := regenerate(record):
            kernels.append(_Kernel(record, program, tuple(_cubins(record, program, archs, skipped))))
        else:
            skipped.append(f"{record.problem.key()}: this version generates another kernel; tune again")
    return kernels, skipped


def _cubins(record: Record, program: Program, archs: tuple[str, ...], skipped: list[str]) -> Iterable[UnitBinary]:
    own = (record.device.arch,) if record.device.kind is DeviceKind.CUDA else ()
    for arch in archs or own:
        errors: list[str] = []
        for choice in (CompilerChoice.NVRTC, CompilerChoice.NVCC):
            try:
                binaries = cuda_compiler(arch, choice).compile_program(program)
                yield from (UnitBinary(unit, binary) for unit, binary in binaries.items())
                break
            except CompileError as error:
                errors.append(str(error))
        else:
            skipped.append(f"{record.problem.key()}: no cubin for {arch}: {errors[-1]}")


def _write_bundle(folder: Path, kernels: list[_Kernel], earlier: frozenset[str]) -> None:
    """Writes the kernels, then the manifest, then removes the earlier bundle's files. If a write fails, the new files
    are removed.
    """
    files = {path: content for kernel in kernels for path, content in kernel.files().items()}
    manifest = {
        "format": FORMAT,
        "version": ONE_TEXT if all(kernel.program.is_plain for kernel in kernels) else UNITS,
        "warpsmith": importlib.metadata.version("warpsmith"),
        "kernels": [kernel.entry() for kernel in kernels],
    }
    made = [each for each in (folder / KERNELS, folder, *folder.parents) if not each.exists()]
    try:
        (folder / KERNELS).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            write_whole(folder / path, content)
        write_whole(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    except BaseException:
        _remove(folder, files.keys() - earlier)
        with contextlib.suppress(OSError):
            for each in made:
                each.rmdir()
        raise
    _remove(folder, earlier - files.keys())


def _remove(folder: Path, paths: AbstractSet[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # a file that stays does no harm
            (folder / path).unlink()
