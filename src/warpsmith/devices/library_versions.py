"""Versions of vendors' libraries, on which the results and times of programs that call them depend."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from warpsmith.errors import LaunchError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.library_calls import Library


@functools.cache
def library_version(kind: DeviceKind, library: Library) -> str:
    """Name and version of a library on a kind of device, such as `cufft 12.0.0`; `cufft missing` if it is not
    installed.

    It becomes part of the identity of measurements. No device is opened for it.
    """
    match kind, library:
        case DeviceKind.CUDA, Library.CUFFT:
            from warpsmith.devices.cuda import cufft

            return cufft.version()
        case DeviceKind.HOST, Library.CUFFT:
            from warpsmith.devices.host import cufft as stand_in

            return stand_in.version()
        case DeviceKind.CUDA, Library.CUBLAS:
            from warpsmith.devices.cuda import cublas

            return cublas.version()
        case DeviceKind.HOST, Library.CUBLAS:
            from warpsmith.devices.host import cublas as blas_stand_in

            return blas_stand_in.version()
    raise AssertionError(f"{library} on {kind}")


def installed_version(library: Library) -> str:
    """Name and version of a library for GPUs. Raises LaunchError with the remedy if it is missing."""
    from warpsmith.devices.cuda import cublas, cufft

    version = library_version(DeviceKind.CUDA, library)
    if version == f"{library} missing":
        raise LaunchError({Library.CUFFT: cufft.MISSING, Library.CUBLAS: cublas.MISSING}[library])
    return version


_BETWEEN = "; "


def identity_with_libraries(compiler: str, libraries: Iterable[Library], kind: DeviceKind) -> str:
    """Identity of a program's machine code: the compiler's identity, and the version of each library that it calls.

    An example is `nvrtc 13.0 -std=c++17; cufft 12.0.0`. For a program that calls no library it is the compiler's own.
    """
    return _BETWEEN.join([compiler, *(library_version(kind, library) for library in libraries)])


def versions_in(identity: str) -> tuple[str, ...]:
    """The library versions in an identity that `identity_with_libraries` made."""
    return tuple(identity.split(_BETWEEN)[1:])


def is_of_today(identity: str, compiler: str, kind: DeviceKind) -> bool:
    """True if an identity that `identity_with_libraries` made has this compiler and the installed library versions."""
    versions = versions_in(identity)
    named = (library for library in Library if any(version.startswith(f"{library} ") for version in versions))
    known = {library_version(kind, library) for library in named}
    return identity.split(_BETWEEN)[0] == compiler and set(versions) <= known
