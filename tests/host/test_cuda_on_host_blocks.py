"""Grids, shared memory, barriers and atomics of the host device."""

from __future__ import annotations

import numpy as np
import pytest

RANDOM = np.random.default_rng(7)


def test_saxpy_over_many_blocks(run_kernel):
    n = 100_003
    x, y = RANDOM.random(n, np.float32), RANDOM.random(n, np.float32)
    expected = np.float32(2) * x + y
    run_kernel(
        """
        #include <cuda_runtime.h>
        extern "C" __global__ void __launch_bounds__(128)
        kernel(float a, const float* __restrict__ x, float* __restrict__ y, int n) {
            const int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            y[i] = fmaf(a, __ldg(x + i), y[i]);
        }
        """,
        np.float32(2),
        x,
        y,
        np.int32(n),
        grid=(-(-n // 128), 1, 1),
        block=(128, 1, 1),
    )
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize("barrier", ["", "__syncthreads();"], ids=["loop", "fibers"])
def test_every_thread_of_a_3d_grid_runs_once_at_its_place(run_kernel, barrier):
    grid, block = (3, 4, 5), (5, 3, 2)
    places = np.zeros((5, 4, 3, 2, 3, 5, 3), np.int32)
    run_kernel(
        f"""
        extern "C" __global__ void kernel(int* out) {{
            {barrier}
            int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
            int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
            int* mine = out + 3 * (b * blockDim.x * blockDim.y * blockDim.z + t);
            mine[0] += blockIdx.x + 10 * threadIdx.x + 1;
            mine[1] += blockIdx.y + 10 * threadIdx.y + 1;
            mine[2] += blockIdx.z + 10 * threadIdx.z + 1;
        }}
        """,
        places,
        grid=grid,
        block=block,
    )
    bz, by, bx, tz, ty, tx = np.indices(places.shape[:-1])
    expected = np.stack([bx + 10 * tx + 1, by + 10 * ty + 1, bz + 10 * tz + 1], axis=-1)
    np.testing.assert_array_equal(places, expected)


STATIC_REDUCTION = """
extern "C" __global__ void kernel(const float* x, float* sums) {
    __shared__ float part[256];
    part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
"""
DYNAMIC_REDUCTION = STATIC_REDUCTION.replace("__shared__ float part[256];", "extern __shared__ float part[];")
MIXED_REDUCTION = STATIC_REDUCTION.replace(
    "__shared__ float part[256];",
    """extern __shared__ alignas(16) unsigned char raw[];  // and `extern __shared__ int ignored[];` in a comment
    __shared__ __align__(16) float scratch[256]; scratch[threadIdx.x] = 0;
    float* part = reinterpret_cast<float*>(raw);""",
)


@pytest.mark.parametrize(
    ("source", "shared_bytes"), [(STATIC_REDUCTION, 0), (DYNAMIC_REDUCTION, 1024), (MIXED_REDUCTION, 1024)]
)
def test_reductions_in_shared_memory_over_several_os_threads(run_kernel, source, shared_bytes):
    blocks = 300
    x = RANDOM.integers(0, 100, blocks * 256).astype(np.float32)
    sums = np.zeros(blocks, np.float32)
    run_kernel(source, x, sums, grid=(blocks, 1, 1), block=(256, 1, 1), shared_bytes=shared_bytes)
    np.testing.assert_array_equal(sums, x.reshape(blocks, 256).sum(axis=1))


def test_dynamic_shared_arrays_are_one_memory(run_kernel):
    out = np.zeros(1, np.uint32)
    run_kernel(
        """
        extern __shared__ float floats[];
        extern "C" __global__ void kernel(unsigned* out) {
            extern __shared__ unsigned char bytes[];
            if (threadIdx.x == 0) floats[1] = 1.0f;
            __syncthreads();
            if (threadIdx.x == 1) *out = bytes[7] << 24 | bytes[6] << 16 | bytes[5] << 8 | bytes[4];
        }
        """,
        out,
        block=(2, 1, 1),
        shared_bytes=8,
    )
    assert out[0] == 0x3F800000


def test_threads_that_return_early_count_as_arrived(run_kernel):
    seen = np.zeros((20, 100), np.int32)
    run_kernel(
        """
        extern "C" __global__ void kernel(int* seen) {
            __shared__ int total;
            if (threadIdx.x == 0) total = 0;
            __syncthreads();
            if (threadIdx.x % 3 == 1) return;
            atomicAdd(&total, 1);
            __syncthreads();
            if (threadIdx.x >= 50) return;
            __syncthreads();
            seen[blockIdx.x * 100 + threadIdx.x] = total;
        }
        """,
        seen,
        grid=(20, 1, 1),
        block=(100, 1, 1),
    )
    threads = np.arange(100)
    expected = np.where((threads % 3 != 1) & (threads < 50), 67, 0)
    np.testing.assert_array_equal(seen, np.tile(expected, (20, 1)))


def test_barriers_that_vote(run_kernel):
    out = np.zeros((64, 5), np.int32)
    run_kernel(
        """
        extern "C" __global__ void kernel(int* out) {
            int t = threadIdx.x;
            int* mine = out + 5 * t;
            mine[0] = __syncthreads_count(t % 5 == 0);
            mine[1] = __syncthreads_or(t == 63);
            mine[2] = __syncthreads_or(t == 64);
            mine[3] = __syncthreads_and(t < 64);
            mine[4] = __syncthreads_and(t < 63);
        }
        """,
        out,
        block=(64, 1, 1),
    )
    np.testing.assert_array_equal(out, np.tile([13, 1, 0, 1, 0], (64, 1)))


def test_atomics_from_many_blocks(run_kernel):
    values = RANDOM.integers(0, 64, 64 * 256).astype(np.uint32)
    counts = np.zeros(64, np.uint32)
    ends = np.array([0, 1000, 0, 0xFF], np.int32)
    sums = np.zeros(1, np.float64)
    order = np.zeros(1, np.uint32)
    run_kernel(
        """
        extern "C" __global__ void kernel(
            const unsigned* values, unsigned* counts, int* ends, double* sum, unsigned* ring) {
            unsigned value = values[blockIdx.x * blockDim.x + threadIdx.x];
            atomicAdd(&counts[value], 1);
            atomicMax(&ends[0], int(value));
            atomicMin(&ends[1], int(value));
            atomicOr(&ends[2], 1 << (value % 8));
            atomicAnd(&ends[3], ~(1 << (value % 4)));
            atomicAdd(sum, double(value));
            atomicInc(ring, 6);
        }
        """,
        values,
        counts,
        ends,
        sums,
        order,
        grid=(64, 1, 1),
        block=(256, 1, 1),
    )
    np.testing.assert_array_equal(counts, np.bincount(values, minlength=64))
    assert ends.tolist() == [values.max(), values.min(), 0xFF, 0xF0]
    assert sums[0] == values.sum()
    assert order[0] == values.size % 7


def test_compare_and_swap_makes_a_lock_free_maximum(run_kernel):
    x = RANDOM.random(4096, np.float32)
    best = np.zeros(1, np.uint32)
    last = np.zeros(1, np.int32)
    run_kernel(
        """
        extern "C" __global__ void kernel(const float* x, unsigned* best, int* last) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            unsigned seen = *best, expected;
            do {
                expected = seen;
                if (__uint_as_float(expected) >= x[i]) break;
                seen = atomicCAS(best, expected, __float_as_uint(x[i]));
            } while (seen != expected);
            atomicExch(last, 5);
        }
        """,
        x,
        best,
        last,
        grid=(16, 1, 1),
        block=(256, 1, 1),
    )
    assert best.view(np.float32)[0] == x.max()
    assert last[0] == 5


def test_every_block_of_a_large_grid_runs(run_kernel):
    last = np.zeros(1, np.uint64)
    run_kernel(
        """
        extern "C" __global__ void kernel(unsigned long long* last) {
            if (blockIdx.x == gridDim.x - 1 && blockIdx.y == 1) atomicAdd(last, 1ull + blockIdx.x);
        }
        """,
        last,
        grid=(2**20 + 1, 2, 1),
    )
    assert last[0] == 2**20 + 1


def test_blocks_of_a_cluster_share_their_work(run_kernel):
    """1,001 clusters of three blocks on all cores: each share of the sums has the numbers of all three."""
    clusters = 1_001
    x, y = RANDOM.random((clusters, 3, 64), np.float32), np.zeros((clusters, 64), np.float32)
    run_kernel(
        """
        extern "C" __global__ void __launch_bounds__(64) __cluster_dims__(3, 1, 1)
        kernel(const float* __restrict__ x, float* __restrict__ y) {
            extern __shared__ float own[];
            const int rank = blockIdx.x % 3;
            if (threadIdx.x >= 32) return;
            own[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
            own[threadIdx.x + 32] = x[blockIdx.x * 64 + threadIdx.x + 32];
            __syncwarp();
            publish_to_cluster<3, 32>(own, 256, rank);
            const int end = first_of_share<3>(16, rank + 1);
            for (int i = first_of_share<3>(16, rank) + threadIdx.x; i < end; i += 32) {
                float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
                for (int other = 0; other < 3; ++other) {
                    const float4 part = load_from_block(own + 4 * i, other);
                    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
                }
                float* const to = y + blockIdx.x / 3 * 64 + 4 * i;
                to[0] = sum.x, to[1] = sum.y, to[2] = sum.z, to[3] = sum.w;
            }
            sync_cluster();
        }
        """,
        x,
        y,
        grid=(3 * clusters, 1, 1),
        block=(64, 1, 1),
        shared_bytes=256,
    )
    np.testing.assert_array_equal(y, x[:, 0] + x[:, 1] + x[:, 2])
