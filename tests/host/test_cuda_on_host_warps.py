"""Shuffles, votes, and threads that wait forever."""

from __future__ import annotations

import numpy as np
import pytest

RANDOM = np.random.default_rng(11)


def test_warp_reduction_by_shuffles(run_kernel):
    x = RANDOM.integers(0, 1000, (40, 96)).astype(np.float32)
    sums = np.zeros((40, 3), np.float32)
    run_kernel(
        """
        extern "C" __global__ void kernel(const float* x, float* sums) {
            float value = x[blockIdx.x * 96 + threadIdx.x];
            for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
            if (threadIdx.x % 32 == 0) sums[blockIdx.x * 3 + threadIdx.x / 32] = value;
        }
        """,
        x,
        sums,
        grid=(40, 1, 1),
        block=(96, 1, 1),
    )
    np.testing.assert_array_equal(sums, x.reshape(40, 3, 32).sum(axis=2))


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float64])
def test_inclusive_scan_in_segments(run_kernel, dtype):
    x = RANDOM.integers(0, 1000, 64).astype(dtype)
    out = np.zeros_like(x)
    word = {np.int32: "int", np.uint64: "unsigned long long", np.float64: "double"}[dtype]
    run_kernel(
        """
        extern "C" __global__ void kernel(const T* x, T* out) {
            T value = x[threadIdx.x];
            for (int step = 1; step < 8; step *= 2) {
                const T left = __shfl_up_sync(0xffffffffu, value, step, 8);
                if (threadIdx.x % 8 >= step) value += left;
            }
            out[threadIdx.x] = value;
        }
        """.replace("T*", word + "*").replace(" T ", f" {word} "),
        x,
        out,
        block=(64, 1, 1),
    )
    np.testing.assert_array_equal(out, x.reshape(8, 8).cumsum(axis=1).ravel())


def test_every_shuffle_reads_the_lane_that_cuda_says(run_kernel):
    out = np.zeros((32, 8), np.int32)
    run_kernel(
        """
        extern "C" __global__ void kernel(int* out) {
            const int lane = threadIdx.x, all = 0xffffffff;
            int* mine = out + 8 * lane;
            mine[0] = __shfl_sync(all, lane, 5);
            mine[1] = __shfl_sync(all, lane, 5, 4);
            mine[2] = __shfl_sync(all, lane, lane + 1);
            mine[3] = __shfl_up_sync(all, lane, 3);
            mine[4] = __shfl_down_sync(all, lane, 3, 16);
            mine[5] = __shfl_xor_sync(all, lane, 1);
            mine[6] = __shfl_xor_sync(all, lane, 8, 8);
            mine[7] = __shfl_xor_sync(all, lane, 31);
        }
        """,
        out,
        block=(32, 1, 1),
    )
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:, 0], 5)
    np.testing.assert_array_equal(out[:, 1], lane // 4 * 4 + 1)
    np.testing.assert_array_equal(out[:, 2], (lane + 1) % 32)
    np.testing.assert_array_equal(out[:, 3], np.where(lane < 3, lane, lane - 3))
    np.testing.assert_array_equal(out[:, 4], np.where(lane % 16 < 13, lane + 3, lane))
    np.testing.assert_array_equal(out[:, 5], lane ^ 1)
    np.testing.assert_array_equal(out[:, 6], np.where(lane & 8, lane ^ 8, lane))
    np.testing.assert_array_equal(out[:, 7], 31 - lane)


def test_votes_of_whole_and_partial_warps(run_kernel):
    out = np.zeros((48, 5), np.uint32)
    run_kernel(
        """
        extern "C" __global__ void kernel(unsigned* out) {
            const int t = threadIdx.x;
            unsigned* mine = out + 5 * t;
            mine[0] = __ballot_sync(0xffffffffu, t % 3 == 0);
            mine[1] = __any_sync(0xffffffffu, t == 40);
            mine[2] = __all_sync(0xffffffffu, t >= 32);
            const unsigned half = t % 32 < 8 ? 0x000000ffu : 0xffffff00u;
            if (t % 32 < 8) mine[3] = __ballot_sync(half, t % 2);
            else mine[3] = __ballot_sync(half, 1);
            __syncwarp();
            mine[4] = __activemask();
        }
        """,
        out,
        block=(48, 1, 1),
    )
    for warp, lanes in ((0, 32), (1, 16)):
        threads = np.arange(32 * warp, 32 * warp + lanes)
        rows = out[threads]
        full = (1 << lanes) - 1
        assert set(rows[:, 0]) == {sum(1 << (t % 32) for t in threads if t % 3 == 0)}
        assert set(rows[:, 1]) == {warp}
        assert set(rows[:, 2]) == {warp}
        assert rows[:, 3].tolist() == [0xAA if t % 32 < 8 else full & 0xFFFFFF00 for t in threads]
        assert set(rows[:, 4]) == {full}


def test_the_largest_of_a_warp(run_kernel):
    x = np.random.default_rng(3).integers(0, 1 << 32, 64, np.uint32)
    out = np.zeros(64, np.uint32)
    run_kernel(
        """
        extern "C" __global__ void kernel(const unsigned* x, unsigned* out) {
            out[threadIdx.x] = __reduce_max_sync(0xffffffffu, x[threadIdx.x]);
        }
        """,
        x,
        out,
        block=(64, 1, 1),
    )
    np.testing.assert_array_equal(out, np.repeat(x.reshape(2, 32).max(1), 32))


def test_a_diverged_branch_sees_its_own_active_mask(run_kernel):
    out = np.zeros(32, np.uint32)
    counter = np.zeros(1, np.uint32)
    run_kernel(
        """
        extern "C" __global__ void kernel(unsigned* out, unsigned* counter) {
            const unsigned lane = threadIdx.x;
            if (lane % 4 == 0) {
                const unsigned mask = __activemask();
                if (__ffs(mask) - 1 == lane) atomicAdd(counter, __popc(mask));
                out[lane] = mask;
            } else {
                out[lane] = __activemask();
            }
        }
        """,
        out,
        counter,
        block=(32, 1, 1),
    )
    assert counter[0] == 8
    assert out.tolist() == [0x11111111 if lane % 4 == 0 else 0xEEEEEEEE for lane in range(32)]


def test_exited_lanes_do_not_hold_up_a_full_mask(run_kernel):
    out = np.zeros(32, np.int32)
    run_kernel(
        """
        extern "C" __global__ void kernel(int* out) {
            if (threadIdx.x >= 20) return;
            out[threadIdx.x] = __popc(__ballot_sync(0xffffffffu, 1));
        }
        """,
        out,
        block=(32, 1, 1),
    )
    assert out.tolist() == [20] * 20 + [0] * 12


def test_1024_threads_with_deep_frames_and_many_barriers(run_kernel):
    out = np.zeros(1024, np.int32)
    run_kernel(
        """
        __device__ __noinline__ int depth(int n, volatile int* scratch) {
            volatile int mine[64];
            mine[n % 64] = n;
            __syncthreads();
            return n == 0 ? 0 * scratch[0] : mine[n % 64] + depth(n - 1, mine);
        }
        extern "C" __global__ void kernel(int* out) {
            volatile int zero[1] = {0};
            zero[0] = 0;
            out[threadIdx.x] = depth(20, zero) - 210;
            for (int i = 0; i < 50; ++i) {
                __syncthreads();
                const int next = out[(threadIdx.x + 1) % 1024] + 1;
                __syncthreads();
                out[threadIdx.x] = next;
            }
        }
        """,
        out,
        block=(1024, 1, 1),
    )
    assert set(out.tolist()) == {50}
