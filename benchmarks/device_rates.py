"""Measures this GPU's rates beside those of the tables (docs/guide/adding-a-gpu.md).

usage: python benchmarks/device_rates.py [DEVICE]
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Iterator, Mapping

import numpy as np

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.space import Config
from warpsmith.generator.tensor_cores import TensorType

CHAINS, TURNS, THREADS, BLOCKS_PER_MULTIPROCESSOR = 16, 4096, 256, 8
COPIED_BYTES = 2**29
SHARED_TURNS, MMA_TURNS, L2_TURNS, LAUNCHES = 4096, 4096, 32, 200

SOURCE = f"""
#define KERNEL extern "C" __global__ void __launch_bounds__({THREADS})

KERNEL float32_chains(float* __restrict__ data) {{
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

KERNEL memory_copy(float4* __restrict__ data) {{
    const size_t count = {COPIED_BYTES // 32}ull, threads = size_t(gridDim.x) * {THREADS};
    for (size_t i = blockIdx.x * {THREADS} + threadIdx.x; i < count; i += threads) {{
        data[count + i] = data[i];
    }}
}}

KERNEL l2_read(float4* __restrict__ data) {{
    const unsigned count = L2_BYTES / 16, threads = gridDim.x * {THREADS};
    float total = 0.0f;
    for (int turn = 0; turn < {L2_TURNS}; ++turn) {{
#pragma unroll 8
        for (unsigned i = blockIdx.x * {THREADS} + threadIdx.x; i < count; i += threads) {{
            const float4 read = __ldcg(data + i);
            total += read.x + read.y + read.z + read.w;
        }}
    }}
    if (total == 12345.0f) {{
        data[0].x = total;
    }}
}}

KERNEL shared_read(float* __restrict__ data) {{
    __shared__ float4 numbers[{2 * THREADS}];
    numbers[threadIdx.x] = numbers[threadIdx.x + {THREADS}] = make_float4(data[0], data[1], data[2], data[3]);
    __syncthreads();
    float total = 0.0f;
#pragma unroll 16
    for (int turn = 0; turn < {SHARED_TURNS}; ++turn) {{
        const float4 read = numbers[threadIdx.x + (turn & {THREADS - 1})];
        total += read.x + read.y + read.z + read.w;
    }}
    if (total == 12345.0f) {{
        data[0] = total;
    }}
}}

#if __CUDA_ARCH__ >= 800
KERNEL mma_f16(float* __restrict__ data) {{
    float sums[8][4] = {{}};
    const unsigned a = __float_as_uint(data[0]) & 0x3c003c00u, b = __float_as_uint(data[1]) & 0x3c003c00u;
    for (int turn = 0; turn < {MMA_TURNS}; ++turn) {{
#pragma unroll
        for (int i = 0; i < 8; ++i) {{
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{ %0, %1, %2, %3 }}, "
                         "{{ %4, %4, %4, %4 }}, {{ %5, %5 }}, {{ %0, %1, %2, %3 }};"
                         : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])
                         : "r"(a), "r"(b));
        }}
    }}
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {{
        total += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
    }}
    if (total == 12345.0f) {{
        data[0] = total;
    }}
}}
#endif

KERNEL empty(float*) {{}}
"""


@dataclasses.dataclass(frozen=True)
class Rate:
    """One kernel: what it does in all, and what the tables expect of it per ns."""

    entry: str
    unit: str
    amount: float
    table: float


def rates(device: Device, blocks: int, l2_bytes: int) -> Iterator[Rate]:
    """What is measured, in the order of the report."""
    threads, table = blocks * THREADS, device.rates
    yield Rate("float32_chains", "multiply-adds", CHAINS * TURNS * threads, table.multiply_adds_per_ns)
    yield Rate("memory_copy", "bytes", COPIED_BYTES, table.memory_bytes_per_ns)
    yield Rate("l2_read", "bytes", L2_TURNS * l2_bytes, table.l2_bytes_per_ns)
    yield Rate("shared_read", "bytes", 16 * SHARED_TURNS * threads, table.shared_bytes_per_ns)
    if (mma := device.tensor_instruction(TensorType.F16)) is not None:
        products = 8 * MMA_TURNS * (threads // 32) * 16 * 8 * 16
        yield Rate("mma_f16", "multiply-adds", products, table.tensor_multiply_adds_per_ns(mma))


def main() -> None:
    ref = DeviceRef.parse(sys.argv[1] if len(sys.argv) > 1 else "auto")
    runtime = ref.open()
    device, compiler = runtime.device, ref.compiler(CompilerChoice.AUTO)
    blocks = device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    l2_bytes = device.l2_bytes // 4  # with room for what the other half of a split cache keeps too
    source = SOURCE.replace("L2_BYTES", str(l2_bytes))
    allocation = runtime.allocate(COPIED_BYTES)
    runtime.upload(allocation.address, np.random.default_rng(0).uniform(0.1, 0.9, 2**20).astype(np.float32))

    def median_ns(entry: str, count: int = 1) -> float:
        launch = Launch(entry, (blocks, 1, 1), (THREADS, 1, 1), (Pointer("data"),))
        program = Program.of_source("device_rates", Config.of({}), source, (launch,))
        module = runtime.load(compiler.compile(program.compilation()))
        buffers: Mapping[str, int] = {"data": allocation.address}
        run = module.bind(launch, buffers, {})
        samples = [runtime.elapsed_ns(lambda: [run(None) for _ in range(count)]) for _ in range(30)]
        return statistics.median(samples[5:]) / count

    clock = device.rates.cycles_per_ns
    print(f"{device.name}, {device.arch}: {device.multiprocessors} multiprocessors, {clock:.3f} GHz")
    print(f"{'kernel':15} {'per ns':>10} {'table':>10} {'share':>6}  per cycle of a multiprocessor")
    for each in rates(device, blocks, l2_bytes):
        per_ns = each.amount / median_ns(each.entry)
        per_cycle = per_ns / clock / device.multiprocessors
        print(
            f"{each.entry:15} {per_ns:10.0f} {each.table:10.0f} {per_ns / each.table:6.2f}  {per_cycle:.1f} {each.unit}"
        )
    print(f"a launch behind another: {median_ns('empty', LAUNCHES):.0f} ns; the table has {device.rates.launch_ns:.0f}")
    runtime.close()


if __name__ == "__main__":
    main()
