"""Versions of vendors' libraries, which decide the results and the times of programs that call them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from warpsmith.errors import LaunchError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.library import Library


@functools.cache
def library_version(kind: DeviceKind, library: Library) -> str:
    """A library's name and version on devices of a kind, such as `cufft 12.0.0`; `cufft missing` where it is not there.

    It enters the identity of what was measured. No device is opened for it.
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
    """A library's name and version for GPUs. Raises LaunchError with the remedy where it is missing."""
    from warpsmith.devices.cuda import cublas, cufft

    version = library_version(DeviceKind.CUDA, library)
    if version == f"{library} missing":
        raise LaunchError({Library.CUFFT: cufft.MISSING, Library.CUBLAS: cublas.MISSING}[library])
    return version


_BETWEEN = "; "


def identity_with_libraries(compiler: str, libraries: Iterable[Library], kind: DeviceKind) -> str:
    """What decides a program's machine code: the compiler's identity, and the version of each library that it calls.

    Such as `nvrtc 13.0 -std=c++17; cufft 12.0.0`. Of a program that calls none it is the compiler's own.
    """
    return _BETWEEN.join([compiler, *(library_version(kind, library) for library in libraries)])


def versions_in(identity: str) -> tuple[str, ...]:
    """The versions of libraries in what `identity_with_libraries` wrote."""
    return tuple(identity.split(_BETWEEN)[1:])


def is_of_today(identity: str, compiler: str, kind: DeviceKind) -> bool:
    """Whether what `identity_with_libraries` wrote for some program is of this compiler and of today's libraries."""
    told = versions_in(identity)
    named = (library for library in Library if any(version.startswith(f"{library} ") for version in told))
    known = {library_version(kind, library) for library in named}
    return identity.split(_BETWEEN)[0] == compiler and set(told) <= known
