"""Times of layers by transforms on each of the likeliest bases, as fbfft's section 3.4 explores them.

usage: python benchmarks/basis_sizes.py [LAYER ...] [--device cuda:0] [--bases 16] [--starts 2] [--within 280]
                                        [--families NAME ...] [--each]

A layer is PLANE:TAPS:IMAGES:FILTERS:CHANNELS or PLANE:TAPS, with 64 images, filters and channels: `13:3:64:128:128`.
A layer is taken on the first BASES bases of each family, in the order of their expected times, with the default on each
and the first STARTS of its starts. Without FAMILIES these are the family on whole planes whose expected time is the
least, and the one on tiles. The best time on each basis counts; results are verified. A row of the table has the first
basis, the best of the first three, and the best of all. With `--each` a line for each basis follows. After WITHIN
seconds no further layer is started.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.plane_transforms import LIKELY, TILES, Basis
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.device import Device
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.workers.compile_pool import CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines

USUAL = ("13:3", "13:5", "27:3", "27:5", "65:3", "65:5", "33:3", "14:3", "56:3", "13:3:128:384:384", "27:5:128:256:96")


@dataclasses.dataclass(frozen=True, slots=True)
class BasisTime:
    """The best time of a family on one basis."""

    basis: Basis
    place: int
    """Place among the bases in the order of their expected times, from 1."""
    median_ns: float

    def told(self) -> str:
        return f"{self.basis.word} {self.median_ns / 1e3:.1f} us"


def layer_of(word: str) -> Conv2d:
    """The layer of a word. Raises ValueError for a word with another number of parts."""
    plane, taps, *rest = map(int, word.split(":"))
    images, filters, channels = rest or (64, 64, 64)
    return Conv2d((images, channels, plane, plane), (filters, channels, taps, taps))


def families_of(problem: Conv2d, device: Device, names: Sequence[str]) -> list[Conv2dFft]:
    """The families of these names that solve a layer; without names the best expected on whole planes and on tiles."""
    able = [each for each in FOURIER.values() if each.why_not(problem, device) is None]
    if names:
        return [each for each in able if each.name in names]
    found = []
    for is_tiled in (False, True):
        kind = [each for each in able if each.may_answer and (each.variant.transforms is TILES) is is_tiled]
        likely = [each for each in kind if each.is_likely(problem, device)]
        found += sorted(likely or kind, key=lambda each: each.expected_ns(problem, device))[:1]
    return found


def programs(
    problem: Conv2d, family: Conv2dFft, device: Device, most: int, starts: int
) -> Iterator[tuple[int, Program]]:
    """The default and some starts on each of the first bases, with the number of the basis from 0."""
    for number, basis in enumerate(family.variant.bases(problem)[:most]):
        pipeline = family.on(basis)
        if pipeline.why_not(problem, device) is not None:
            continue
        configs = (pipeline.default(problem, device), *pipeline.starts(problem, device)[: 1 + starts])
        yield from ((number, family.program(problem, config)) for config in dict.fromkeys(configs))


def times(
    problem: Conv2d, family: Conv2dFft, device: Device, bench: Bench, pool: CompilePool, most: int, starts: int
) -> list[BasisTime]:
    """The best verified time on each basis, in the order of their expected times."""
    compiling = {pool.submit(each): (number, each) for number, each in programs(problem, family, device, most, starts)}
    best: dict[int, float] = {}
    for done in as_completed(compiling):
        number, program = compiling[done]
        compiled = done.result()
        if isinstance(compiled, Failure):
            continue
        outcome = bench.evaluate(program, compiled).outcome
        if isinstance(outcome, Measurement):
            best[number] = min(outcome.timing.median_ns, best.get(number, outcome.timing.median_ns))
    bases = family.variant.bases(problem)
    return [BasisTime(bases[number], number + 1, best[number]) for number in sorted(best)]


def row(word: str, family: str, found: Sequence[BasisTime], offered: int) -> str:
    """A line of the table."""
    first = found[0]
    before = min((each for each in found if each.place <= LIKELY), key=lambda each: each.median_ns, default=first)
    best = min(found, key=lambda each: each.median_ns)
    gains = " | ".join(f"{each.median_ns / best.median_ns:.2f}x" for each in (first, before))
    bases = f"{first.told()} | {before.told()} | {best.told()}, number {best.place} of {offered}"
    return f"| {word} | `{family}` | {bases} | {gains} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=USUAL)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--bases", type=int, default=16)
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--within", type=float, default=280.0)
    parser.add_argument("--families", nargs="+", default=[])
    parser.add_argument("--each", action="store_true")
    given = parser.parse_args()
    begun, ref = time.monotonic(), DeviceRef.parse(given.device)
    device, deadlines = ref.device(), Deadlines()
    print(f"{device.name}, forward, best of {1 + given.starts} configs on each of the first {given.bases} bases\n")
    print(f"| layer | family | first basis | best of {LIKELY} | best of all | first / best | best of {LIKELY} / best |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with contextlib.closing(CompilePool(ref.compiler(), deadlines)) as pool:
        for word in given.layers:
            if time.monotonic() - begun > given.within:
                print(f"\n{word} and what follows: not started after {given.within:.0f} s")
                return
            problem = layer_of(word)
            policy = TimingPolicy.for_kind(ref.kind)
            bench = Bench(ref, ref.compiler(), problem, 1, policy, deadlines, sanitize=False)
            with contextlib.closing(bench):
                for family in families_of(problem, device, given.families):
                    found = times(problem, family, device, bench, pool, given.bases, given.starts)
                    if not found:
                        print(f"| {word} | `{family.name}` | nothing is right | | | | |", flush=True)
                        continue
                    print(row(word, family.name, found, len(family.variant.bases(problem))), flush=True)
                    if given.each:
                        print("\n".join(f"<!-- {each.place}: {each.told()} -->" for each in found), flush=True)


if __name__ == "__main__":
    main()
