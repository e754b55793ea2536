"""Measures this GPU's float32 rate with independent chains of fused multiply-adds in registers.

usage: python benchmarks/fp32_rate.py [DEVICE]
"""

from __future__ import annotations

import statistics
import sys

import numpy as np

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.space import Config

CHAINS, TURNS, THREADS, BLOCKS_PER_MULTIPROCESSOR = 16, 4096, 256, 8

SOURCE = f"""
extern "C" __global__ void __launch_bounds__({THREADS}) chains(float* __restrict__ data) {{
    float sums[{CHAINS}];
    const float factor = data[0], addend = data[1];
#pragma unroll
    for (int i = 0; i < {CHAINS}; ++i) {{
        sums[i] = data[i];
    }}
#pragma unroll 8
    for (int turn = 0; turn < {TURNS}; ++turn) {{
#pragma unroll
        for (int i = 0; i < {CHAINS}; ++i) {{
            sums[i] = fmaf(sums[i], factor, addend);
        }}
    }}
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < {CHAINS}; ++i) {{
        total += sums[i];
    }}
    if (total == 12345.0f) {{
        data[0] = total;  // never: so that nothing is left out
    }}
}}
"""


def main() -> None:
    ref = DeviceRef.parse(sys.argv[1] if len(sys.argv) > 1 else "auto")
    runtime = ref.open()
    blocks = runtime.device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    launch = Launch("chains", (blocks, 1, 1), (THREADS, 1, 1), (Pointer("data"),))
    program = Program.of_source("fp32_rate", Config.of({}), SOURCE, (launch,))
    module = runtime.load(ref.compiler(CompilerChoice.AUTO).compile(program.compilation()))
    data = np.random.default_rng(0).uniform(0.1, 0.9, CHAINS).astype(np.float32)
    allocation = runtime.allocate(data.nbytes)
    runtime.upload(allocation.address, data)
    run = module.bind(launch, {"data": allocation.address}, {})
    samples = [runtime.elapsed_ns(lambda: run(None)) for _ in range(30)]
    flops, median_ns = 2 * CHAINS * TURNS * THREADS * blocks, statistics.median(samples[5:])
    print(f"{runtime.device.name}: {flops / median_ns / 1000:.1f} TFLOP/s float32, median of {len(samples) - 5}")
    runtime.close()


if __name__ == "__main__":
    main()
