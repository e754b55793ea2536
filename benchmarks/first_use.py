"""Cost and findings of the check of an untuned answer, for about thirty problems of all operations and types.

    python benchmarks/first_use.py --device cuda:0

Each problem has one line: the check alone, once its kernels are compiled; `ws.plan` without and with the check, once
its program is compiled; the number of checked results, how many were wrong, and the largest error over the bound.
Programs that were wrong are listed below their line, with their replacement.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.problem import Problem
from warpsmith.plans.first_use.check import check_on_random_data
from warpsmith.plans.first_use.verdicts import VERDICTS
from warpsmith.plans.make import forget_plans
from warpsmith.plans.poisoned import WRONG_HERE, WrongProgram

SQUARE = (56, 56)
PROBLEMS: tuple[Problem, ...] = (
    ws.Filter2d(image=(2048, 2048), filter=(3, 3)),
    ws.Filter2d(image=(2048, 2048), filter=(5, 5), dtype="float16", border="mirror"),
    ws.Filter2d(image=(2048, 2048), filter=(7, 7), dtype="uint8", border="symmetric", channels=3),
    ws.Filter2d(image=(2400, 1920), filter=(11, 5), dtype="uint8"),
    ws.Filter2d(image=(3000, 1920), filter=(13, 5), dtype="uint8"),
    ws.Filter2d(image=(2161, 477), filter=(11, 1), dtype="uint8", channels=4),
    ws.Filter2d(image=(1024, 1000), filter=(5, 5), accuracy="normwise", planes=4, filters=3, border="wrap"),
    ws.Filter2d(image=(2048, 2048), filter=(25, 25), accuracy="imagewise"),
    ws.Filter2d(image=(1000, 1000), filter=(3, 3), weights=(1, 2, 1, 2, 4, 2, 1, 2, 1), border="nearest"),
    ws.Filter2d(image=(500, 700), filter=(31, 17), result_dtype="uint8", border="constant", cval=9, convolve=True),
    ws.Filter2d(image=(9216, 9216), filter=(5, 5)),
    ws.Conv2d(input=(16, 64, *SQUARE), weight=(64, 64, 3, 3), padding=1),
    ws.Conv2d(input=(16, 64, *SQUARE), weight=(64, 64, 3, 3), padding=1, pass_="dgrad"),
    ws.Conv2d(input=(16, 64, *SQUARE), weight=(64, 64, 3, 3), padding=1, pass_="wgrad"),
    ws.Conv2d(input=(16, 64, *SQUARE), weight=(64, 64, 3, 3), padding=1, precision="tf32"),
    ws.Conv2d(input=(32, 3, 224, 224), weight=(64, 3, 7, 7), stride=2, padding=3, bias=True, relu=True),
    ws.Conv2d(
        input=(32, 128, 28, 28),
        weight=(128, 128, 3, 3),
        padding=1,
        dtype="float16",
        precision="f16",
        layout="nhwc",
    ),
    ws.Conv2d(
        input=(32, 128, 28, 28),
        weight=(128, 128, 3, 3),
        padding=1,
        dtype="bfloat16",
        precision="bf16",
        layout="nhwc",
        pass_="wgrad",
    ),
    ws.Conv2d(input=(16, 96, *SQUARE), weight=(96, 1, 3, 3), padding=1, groups=96),
    ws.Conv2d(input=(8, 32, 60, 60), weight=(48, 16, 5, 5), padding=2, groups=2, padding_mode="reflect", pass_="dgrad"),
    ws.Conv2d(input=(8, 32, 60, 60), weight=(48, 32, 3, 3), padding=2, dilation=2, stride=2, accuracy="elementwise"),
    ws.Conv2d(input=(1, 128, 256, 256), weight=(128, 128, 3, 3), padding=1),
    ws.Fft(size=1024, batch=4096),
    ws.Fft(size=(256, 256), batch=64),
    ws.Fft(size=(256, 256), batch=64, kind="c2r", norm="ortho"),
    ws.Fft(size=(1024, 1024), kind="c2c", inverse=True),
    ws.Fft(size=(32, 32), batch=4096, valid=(28, 28), start=(2, 2), layout="frequency"),
    ws.Fft(size=(32, 32), batch=512, border="mirror:2+1x3", valid=(24, 24), order="reversed"),
    ws.Cgemm(batch=544, m=64, n=64, k=64),
    ws.Cgemm(batch=64, m=300, n=200, k=500, a="c", b="t", accuracy="normwise"),
)


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def forget(folder: Path) -> None:
    """Drops cached plans and verdicts; compiled programs stay."""
    forget_plans()
    VERDICTS.forget()
    shutil.rmtree(folder / "verified", ignore_errors=True)


def line(problem: Problem, device: str, folder: Path) -> str:
    ref = DeviceRef.parse(device)
    ws.plan(problem, device, verify="never")  # compiles
    forget_plans()
    before = milliseconds(lambda: ws.plan(problem, device, verify="never"))
    plan = ws.plan(problem, device, verify="never")
    compiler = ref.compiler()
    finding = check_on_random_data(plan.loaded, compiler, 1)
    if finding is None:
        return f"{'':24} operands do not fit: the first call is checked  {plan.match.program.family}  {problem.key()}"
    alone = min(milliseconds(lambda: check_on_random_data(plan.loaded, compiler, 2)) for _ in range(3))
    forget(folder)
    after = milliseconds(lambda: ws.plan(problem, device, verify="first"))
    answer = ws.plan(problem, device, verify="first")
    told = [] if answer.match == plan.match else [f"answered by {answer.match.program.family}: {answer.verified}"]
    share = finding.largest_error / problem.error_bound
    first = (
        f"{alone:7.2f} {before:8.2f} {after:8.2f} {finding.samples:6} {finding.wrong:6} {share:8.3f}  "
        f"{plan.match.program.family:22} {problem.key()}"
    )
    return "\n".join([first, *(f"        {each}" for each in [finding.message, *told] if each)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["WARPSMITH_CACHE_DIR"], os.environ["XDG_DATA_HOME"] = str(folder), str(folder / "data")
        print(" check  without     with  looked  wrong   of bound  (ms; results; largest error)")
        for problem in PROBLEMS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WrongProgram)
                try:
                    print(line(problem, arguments.device, folder), flush=True)
                except WarpsmithError as error:
                    print(f"{type(error).__name__}: {error}", flush=True)
        for program in WRONG_HERE.of(DeviceRef.parse(arguments.device).device()).values():
            print(f"wrong: {program}")


if __name__ == "__main__":
    main()
