"""`warpsmith bench memory`: rates of a GPU's memories, as in table 2 of Iandola et al. 2013."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from warpsmith.cli.options import DeviceOption, JsonOption
from warpsmith.cli.output import print_facts, print_json, print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.memory_probe import Level, MemoryAccess
from warpsmith.tuner.evaluate.memory_probe import MemoryRate, MemoryRates, measure_memory


class PaperRates(NamedTuple):
    """Rates of table 2: GB/s, or Gtexels/s of the texture cache, which are the data sheet's there."""

    c2050: float
    gtx680: float


PAPER: Mapping[Level, PaperRates] = {
    Level.GLOBAL: PaperRates(90.4, 123),
    Level.TEXTURE: PaperRates(49.4, 129),
    Level.SHARED: PaperRates(931, 893),
}
HEADER = ("memory", "access", "bytes", "GB/s", "Gtexels/s", "bytes/cycle/SM", "data sheet GB/s", "share")
PAPER_HEADER = ("C2050", "GTX 680")


def bench_memory(device: DeviceOption = "auto", json: JsonOption = False) -> int:
    """Measure a GPU's memories: global by width and stride, L2, L1, textures, shared, constant, registers.

    Rows are those of table 2 of Iandola et al. 2013, and what its section 2.2 says beside them. Nothing is stored.
    """
    measured = measure_memory(DeviceRef.parse(device))
    if json:
        print_json(document(measured))
        return 0
    print_table((*HEADER, *PAPER_HEADER), (_cells(rate, measured) for rate in measured.rates))
    print_facts(
        [
            ("device", measured.device.key()),
            ("with", f"{measured.driver}, {measured.compiler}"),
            ("bytes", "of one thread in one instruction; GB/s count what threads ask for, at any stride"),
            ("paper", "GB/s measured with unit stride and without conflicts; Gtexels/s of the data sheet"),
        ]
    )
    return 0


def _cells(rate: MemoryRate, measured: MemoryRates) -> tuple[str, ...]:
    access, paper = rate.access, paper_rates(rate.access)
    texels, share = rate.texels_per_ns, rate.share(measured.device)
    peak = access.peak_bytes_per_ns(measured.device.rates)
    return (
        str(access.level),
        access.what,
        str(access.width_bytes),
        f"{rate.bytes_per_ns:.0f}",
        "-" if texels is None else f"{texels:.0f}",
        f"{rate.bytes_per_cycle(measured.device):.1f}",
        "-" if peak is None else f"{peak:.0f}",
        "-" if share is None else f"{share:.2f}",
        *(["-", "-"] if paper is None else [f"{each:g}" for each in paper]),
    )


def paper_rates(access: MemoryAccess) -> PaperRates | None:
    """The paper's rates beside an access; None with a stride or bank conflicts, for which it has none."""
    return PAPER.get(access.level) if access.stride == 1 else None


def document(measured: MemoryRates) -> dict[str, Any]:
    """JSON values."""
    return {
        "device_key": measured.device.key(),
        "device": measured.device.spec(),
        "rows": [_row(rate, measured) for rate in measured.rates],
        "driver": measured.driver,
        "compiler": measured.compiler,
    }


def _row(rate: MemoryRate, measured: MemoryRates) -> dict[str, Any]:
    access, paper = rate.access, paper_rates(rate.access)
    return {
        "name": access.name,
        "memory": str(access.level),
        "access": access.what,
        "bytes": access.width_bytes,
        "stride": access.stride,
        "bytes_per_ns": rate.bytes_per_ns,
        "texels_per_ns": rate.texels_per_ns,
        "bytes_per_cycle": rate.bytes_per_cycle(measured.device),
        "data_sheet": access.peak_bytes_per_ns(measured.device.rates),
        "clock_mhz": rate.clock_mhz,
        "paper": None if paper is None else paper._asdict(),
    }
