"""Tables of single measurements: memories, twiddles, bases, saturation, the ladder."""

from __future__ import annotations

from collections.abc import Sequence

from conv2d_bench.lines import Row

from published.figures_of_papers import measured_by
from warpsmith.cli.output import table

SOURCES = ("table", "powers", "computed")
LIKELY = 3
"""Number of bases that could be reached before all could."""


def points_of(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if "key" in row]


def memory_table(rows: Sequence[Row]) -> str:
    """Table 2 of the filters' paper: the rate of each memory, by access."""
    header = ("memory", "access", "bytes", "GB/s", "Gtexels/s", "bytes a cycle and SM", "C2050", "GTX 680")
    cells = []
    for row in points_of(rows):
        texels, paper = row["texels_per_ns"], row["paper"] or {}
        cells.append(
            (
                row["memory"],
                row["access"],
                str(row["bytes"]),
                f"{row['bytes_per_ns']:.0f}",
                "" if texels is None else f"{texels:.0f}",
                f"{row['bytes_per_cycle']:.1f}",
                *(str(paper.get(name) or "") for name in ("c2050", "gtx680")),
            )
        )
    return f"{measured_by(rows)}\n\n{table(header, cells)}"


def saturation_table(rows: Sequence[Row]) -> str:
    """Time and rate of filters by the size of the image, with warm and with cold L2."""
    points = points_of(rows)
    cells = []
    for row in points:
        alike = [each for each in points if (each["filter"], each["cold"]) == (row["filter"], row["cold"])]
        largest = max(alike, key=lambda each: int(each["pixels"]))
        share = row["pixels_per_ns"] / largest["pixels_per_ns"]
        state = "cold" if row["cold"] else "warm"
        times = (f"{row['ours']['median_ns'] / 1e3:.2f}", f"{row['pixels_per_ns']:.1f}", f"{share:.0%}")
        cells.append((row["filter"], row["image"], state, row["answer"], *times))
    header = ("filter", "image", "L2", "answer", "us", "Gpixel/s", "of the rate of the largest image")
    return f"{measured_by(rows)}\n\n{table(header, cells)}"


def twiddles_table(rows: Sequence[Row]) -> str:
    """Best times with each source of twiddles, and what loading some gains over computing all."""
    cells = []
    for row in points_of(rows):
        times = {name: row["fastest"][name]["timing"]["median_ns"] / 1e3 for name in SOURCES if name in row["fastest"]}
        gain, paper = row["gain_percent"], row["paper_percent"]
        cells.append(
            (
                row["problem"].removeprefix("fft "),
                f"`{row['family']}`",
                *(f"{times[name]:.2f}" if name in times else "" for name in SOURCES),
                "" if gain is None else f"{gain:+.1f}%",
                "" if paper is None else f"{paper:.0f}%",
            )
        )
    header = ("transforms", "family", "table, us", "powers, us", "computed, us", "loaded over computed", "fbfft")
    return f"{measured_by(rows)}\n\n{table(header, cells)}"


def bases_table(rows: Sequence[Row]) -> str:
    """What the choice of the basis brings: the first, the best of the first three, and the best of all measured."""
    cells = []
    for row in points_of(rows):
        times = row["times_us"]
        first, three, best = times[0], min(times[:LIKELY], key=_time), min(times, key=_time)
        place = times.index(best) + 1
        ratios = (f"{first[1] / best[1]:.2f}", f"{three[1] / best[1]:.2f}")
        told = (f"{basis} {us:.1f} us" for basis, us in (first, three, best))
        cells.append((row["layer"], f"`{row['family']}`", *told, f"{place} of {len(times)}", *ratios))
    header = ("layer", "family", "first basis", "best of three", "best", "its place", "first / best", "three / best")
    return f"{measured_by(rows)}\n\n{table(header, cells)}"


def _time(each: list[object]) -> float:
    return float(str(each[1]))


def ladder_table(rows: Sequence[Row]) -> str:
    """The ladder of each kernel: time, speed-up over the baseline and over the rung before, registers."""
    points = points_of(rows)
    parts = [measured_by(rows)]
    for kernel, count in dict.fromkeys((row["kernel"], row["rows"]) for row in points):
        own = [row for row in points if (row["kernel"], row["rows"]) == (kernel, count)]
        parts.append(f"{kernel}, {count} rows a thread")
        header = ("rung", "us", "times the baseline's speed", "times the rung before", "registers")
        parts.append(table(header, map(_rung, own)))
    return "\n\n".join(parts)


def _rung(row: Row) -> tuple[str, ...]:
    ratios = ("" if row.get(name) is None else f"{row[name]:.2f}" for name in ("over_baseline", "over_before"))
    family = f" (`{row['family']}`)" if row.get("family") else ""
    registers = row.get("registers")
    time_us = "" if row["median_ns"] is None else f"{row['median_ns'] / 1e3:.1f}"
    return f"{row['name']}{family}", time_us, *ratios, "" if registers is None else str(registers)
