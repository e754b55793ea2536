"""Facts about this machine's CPU and memory."""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path

from warpsmith.generator.device import Device
from warpsmith.generator.presets import HOST

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CGROUP = Path("/sys/fs/cgroup")


def host_device() -> Device:
    """This machine's CPU. `l2_bytes` is its last-level cache; shared memory and registers are those of an H200."""
    return dataclasses.replace(
        HOST,
        name=cpu_name(),
        multiprocessors=cores(),
        l2_bytes=_last_level_cache() or HOST.l2_bytes,
        memory_bytes=memory_bytes(),
    )


def cores() -> int:
    """Number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cpu_name() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        field, _, value = line.partition(":")
        if field.strip() == "model name":  # absent on ARM
            return " ".join(value.split())
    return platform.processor() or platform.machine()


def available_memory() -> int | None:
    """Bytes that can still be allocated before the kernel kills processes; None if the machine does not tell."""
    limits = []
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            limits.append(int(line.split()[1]) * 1024)
    limit, used = (_read(_CGROUP / name).strip() for name in ("memory.max", "memory.current"))
    if limit.isdigit() and used.isdigit():
        limits.append(max(0, int(limit) - int(used)))
    return min(limits, default=None)


def _last_level_cache() -> int:
    sizes = [_read(index / "size").strip() for index in _CACHES.glob("index*")]
    return max((int(size[:-1]) * 1024 for size in sizes if size.endswith("K")), default=0)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
