"""Compile times of the default configs over a list of problems. It needs a compiler and no GPU.

    python benchmarks/compile_times.py [--arch sm_90] [--nvcc] [--slowest N]

Times are CPU times, so that other work on the machine hardly matters: of NVRTC in this process, or of nvcc with all
processes that it starts. The exit code is 1 if a default takes longer than LIMIT_S.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
from collections.abc import Iterator

import warpsmith as ws
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.cuda.compiler import NvccCompiler, NvrtcCompiler
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import families_for

LIMIT_S = 2.0
DEVICES = {
    "sm_90": H200,
    "sm_80": dataclasses.replace(
        H200,
        name="NVIDIA A100-SXM4-80GB",
        compute_capability=(8, 0),
        multiprocessors=108,
        l2_bytes=40 * 2**20,
        memory_bytes=80 * 2**30,
        shared_per_block_bytes=163 * 1024,
        shared_per_multiprocessor_bytes=164 * 1024,
        clock_mhz=1410,
    ),
}
FILTERS = ((2, 2), (3, 3), (4, 4), (5, 5), (7, 7), (9, 9), (11, 11), (13, 13), (15, 15), (21, 21), (25, 25), (31, 31))
IMAGES = ((480, 641), (2000, 3000), (9216, 9216))
LENGTHS = (8, 11, 16, 31, 64, 81, 100, 128, 250, 256, 343, 512, 625, 961, 1000, 1024, 2048, 3125, 4096, 8192, 12000)
SQUARES = ((8, 8), (16, 16), (27, 27), (31, 31), (32, 32), (64, 64), (100, 100), (128, 128), (200, 200), (256, 256))


def problems() -> Iterator[Problem]:
    """Every filter size with types, borders, banks and channels in turn, and transforms of many sizes."""
    for filter_, image in itertools.product(FILTERS, IMAGES):
        yield ws.Filter2d(image=image, filter=filter_)
        yield ws.Filter2d(image=image, filter=filter_, dtype="float16", border="symmetric")
        yield ws.Filter2d(image=image, filter=filter_, dtype="uint8", channels=3)
    for filter_ in FILTERS:
        ones = (1.0,) * (filter_[0] * filter_[1])
        uneven = tuple((7 * index * index % 19) / 10 for index in range(len(ones)))
        yield ws.Filter2d(image=(512, 512), filter=filter_, planes=64, border="wrap")
        yield ws.Filter2d(image=(2000, 3000), filter=filter_, border="constant", cval=1.0, channels=4)
        yield ws.Filter2d(image=(2000, 3000), filter=filter_, filters=4)
        yield ws.Filter2d(image=(2000, 3000), filter=filter_, weights=ones)
        yield ws.Filter2d(image=(2000, 3000), filter=filter_, weights=uneven)
        yield ws.Filter2d(image=(2000, 3000), filter=filter_, accuracy="normwise")
        yield ws.Filter2d(image=(64, 64), filter=filter_, border="nearest", planes=1000)
    yield ws.Filter2d(image=(2000, 3000), filter=(1, 250))
    yield ws.Filter2d(image=(2000, 3000), filter=(64, 64))
    for size, kind in itertools.product(((n,) for n in LENGTHS), ("r2c", "c2r", "c2c")):
        yield ws.Fft(size=size, batch=100_000 // size[0], kind=kind)
    for size, kind in itertools.product(SQUARES, ("r2c", "c2r", "c2c")):
        yield ws.Fft(size=size, batch=100, kind=kind)


def compile_s(compiler: Compiler, problem: Problem, device: Device, every: bool) -> Iterator[tuple[float, str, str]]:
    """Seconds, family and config of the default that answers `problem`, or of every family's default."""
    able = families_for(problem, device)
    defaults = [(each, each.default(problem, device)) for each in able] if every else [default_answer(problem, device)]
    for family, config in defaults:
        program = family.program(problem, config)
        before = os.times()
        compiler.compile_program(program)
        after = os.times()
        spent = sum(after[:4]) - sum(before[:4])
        yield spent, family.name, config.key()


def main() -> int:
    """Prints one line per default, then the slowest ones. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--arch", choices=sorted(DEVICES), default="sm_90")
    parser.add_argument("--nvcc", action="store_true", help="instead of NVRTC")
    parser.add_argument("--every", action="store_true", help="every family's default, not only the answer")
    parser.add_argument("--slowest", type=int, default=10, help="how many to name again at the end")
    arguments = parser.parse_args()
    device = DEVICES[arguments.arch]
    compiler = NvccCompiler(arguments.arch) if arguments.nvcc else NvrtcCompiler(arguments.arch)
    found = []
    for problem in problems():
        try:
            for spent, family, config in compile_s(compiler, problem, device, arguments.every):
                found.append((spent, problem.key(), family, config))
                print(f"{spent:6.2f} s  {family:19} {problem.key()}", flush=True)
        except BadArgument as error:
            print(f"     -    {error}")
    found.sort(reverse=True)
    print(f"\n{len(found)} defaults, {sum(each[0] for each in found):.0f} s; the slowest:")
    for spent, key, family, config in found[: arguments.slowest]:
        print(f"{spent:6.2f} s  {key}\n          {family} {config}")
    return 1 if found and found[0][0] > LIMIT_S else 0


if __name__ == "__main__":
    sys.exit(main())
