"""The host device's replacements for PTX: 16-bit floats against NumPy's, and asynchronous copies."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

RANDOM = np.random.default_rng(23)
EVERY_HALF = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)

TO_FLOAT = """
extern "C" __global__ void kernel(const unsigned short* x, unsigned* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float_as_uint(half_to_float(x[i]));
}
"""
TO_HALF = """
extern "C" __global__ void kernel(const float* x, unsigned short* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = float_to_half(x[i]);
}
"""


def to_halves(run_kernel, x: NDArray[np.float32]) -> NDArray[np.uint16]:
    y = np.zeros(x.size, np.uint16)
    run_kernel(TO_HALF, x, y, np.int32(x.size), grid=(-(-x.size // 256), 1, 1), block=(256, 1, 1))
    return y


def of_numpy(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    with np.errstate(over="ignore", under="ignore"):
        return x.astype(np.float16).view(np.uint16)


def test_the_host_is_told_apart(run_kernel):
    out = np.zeros(1, np.int32)
    run_kernel('extern "C" __global__ void kernel(int* out) { out[0] = WARPSMITH_ON_HOST + 6; }', out)
    assert out[0] == 7


def test_every_half_becomes_the_same_float_as_numpys(run_kernel):
    bits = np.zeros(EVERY_HALF.size, np.uint32)
    run_kernel(TO_FLOAT, EVERY_HALF, bits, np.int32(bits.size), grid=(256, 1, 1), block=(256, 1, 1))
    np.testing.assert_array_equal(bits, EVERY_HALF.view(np.float16).astype(np.float32).view(np.uint32))


def test_every_half_comes_back_from_its_float(run_kernel):
    halves = EVERY_HALF.view(np.float16)
    back = to_halves(run_kernel, halves.astype(np.float32))
    numbers = ~np.isnan(halves)
    np.testing.assert_array_equal(back[numbers], EVERY_HALF[numbers])
    assert np.isnan(back[~numbers].view(np.float16)).all()


def test_the_middle_between_two_halves_goes_to_the_even_one(run_kernel):
    positive = np.arange(0x7BFF, dtype=np.uint16)  # up to the second largest finite number
    low, high = (each.view(np.float16).astype(np.float64) for each in (positive, positive + np.uint16(1)))
    middle = ((low + high) / 2).astype(np.float32)
    for sign in (1, -1):
        ties = sign * middle
        even = (positive + (positive & 1)).astype(np.uint16) | np.uint16(0x8000 if sign < 0 else 0)
        np.testing.assert_array_equal(to_halves(run_kernel, ties), even)
        for towards in (-np.inf, np.inf):
            beside = np.nextafter(ties, np.float32(towards))
            np.testing.assert_array_equal(to_halves(run_kernel, beside), of_numpy(beside))


def test_random_floats_of_every_magnitude(run_kernel):
    any_bits = RANDOM.integers(0, 1 << 32, 1_000_000, np.uint32).view(np.float32)
    near = (RANDOM.standard_normal(1_000_000) * 10.0 ** RANDOM.uniform(-9, 6, 1_000_000)).astype(np.float32)
    values = np.concatenate([any_bits, near])
    halves, numbers = to_halves(run_kernel, values), ~np.isnan(values)
    np.testing.assert_array_equal(halves[numbers], of_numpy(values[numbers]))
    assert np.isnan(halves[~numbers].view(np.float16)).all()
    assert not numbers.all()


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (65504.0, 0x7BFF),
        (65519.996, 0x7BFF),
        (65520.0, 0x7C00),
        (-65520.0, 0xFC00),
        (np.finfo(np.float32).max, 0x7C00),
        (np.inf, 0x7C00),
        (2.0**-14, 0x0400),
        (2.0**-24, 0x0001),
        (2.0**-25, 0x0000),
        (-(2.0**-25) * 1.0001, 0x8001),
        (np.finfo(np.float32).smallest_subnormal, 0x0000),
        (-0.0, 0x8000),
    ],
)
def test_the_ends_of_the_range(run_kernel, value, bits):
    assert hex(to_halves(run_kernel, np.array([value], np.float32))[0]) == hex(bits)


def test_two_halves_in_a_word(run_kernel):
    x = RANDOM.standard_normal((64, 2)).astype(np.float32)
    y = np.zeros(64, np.uint32)
    run_kernel(
        """
        extern "C" __global__ void kernel(const float* x, unsigned* y) {
            y[threadIdx.x] = floats_to_half2(x[2 * threadIdx.x], x[2 * threadIdx.x + 1]);
        }
        """,
        x,
        y,
        block=(64, 1, 1),
    )
    np.testing.assert_array_equal(y.view(np.float16).reshape(64, 2), x.astype(np.float16))


@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_to_shared_memory(run_kernel, size):
    x = RANDOM.random(64 * size // 4, np.float32)
    out = np.zeros_like(x)
    source = """
        extern "C" __global__ void kernel(const float* x, float* out) {
            __shared__ __align__(16) float tile[kFloats * 64];
            cp_async<kFloats * 4>(tile + kFloats * threadIdx.x, x + kFloats * threadIdx.x);
            cp_async_commit_group();
            cp_async_wait_group<0>();
            __syncthreads();
            for (int i = threadIdx.x; i < kFloats * 64; i += 64) out[i] = tile[kFloats * 64 - 1 - i];
        }
    """.replace("kFloats", str(size // 4))
    run_kernel(source, x, out, block=(64, 1, 1))
    np.testing.assert_array_equal(out, x[::-1])


@pytest.mark.parametrize("size", [4, 8, 16])
def test_only_threads_that_want_a_copy_make_one(run_kernel, size):
    x = RANDOM.random(64 * size // 4, np.float32)
    out = np.zeros_like(x)
    source = """
        extern "C" __global__ void kernel(const float* x, float* out) {
            __shared__ __align__(16) float tile[kFloats * 64];
            for (int i = threadIdx.x; i < kFloats * 64; i += 64) tile[i] = -1.0f;
            __syncthreads();
            const int first = kFloats * threadIdx.x;
            cp_async_if<kFloats * 4>(threadIdx.x % 3 == 1, tile + first, x + first);
            cp_async_commit_group();
            cp_async_wait_group<0>();
            __syncthreads();
            for (int i = threadIdx.x; i < kFloats * 64; i += 64) out[i] = tile[i];
        }
    """.replace("kFloats", str(size // 4))
    run_kernel(source, x, out, block=(64, 1, 1))
    wanted = np.repeat(np.arange(64) % 3 == 1, size // 4)
    np.testing.assert_array_equal(out, np.where(wanted, x, np.float32(-1)))


@pytest.mark.parametrize("size", [4, 16])
def test_a_copy_without_a_source_makes_zeros(run_kernel, size):
    x = RANDOM.random(64 * size // 4, np.float32)
    out = np.zeros_like(x)
    source = """
        extern "C" __global__ void kernel(const float* x, float* out) {
            __shared__ __align__(16) float tile[kFloats * 64];
            for (int i = threadIdx.x; i < kFloats * 64; i += 64) tile[i] = -1.0f;
            __syncthreads();
            const int first = kFloats * threadIdx.x;
            const bool has_source = threadIdx.x < 20;
            const float* from = has_source ? x + first : x - (1 << 20);
            cp_async_or_zero<kFloats * 4>(threadIdx.x % 3 != 1, has_source, tile + first, from);
            cp_async_commit_group();
            cp_async_wait_group<0>();
            __syncthreads();
            for (int i = threadIdx.x; i < kFloats * 64; i += 64) out[i] = tile[i];
        }
    """.replace("kFloats", str(size // 4))
    run_kernel(source, x, out, block=(64, 1, 1))
    thread = np.repeat(np.arange(64), size // 4)
    np.testing.assert_array_equal(out, np.where(thread % 3 == 1, np.float32(-1), np.where(thread < 20, x, 0)))


def test_bulk_copies_to_shared_memory_and_back(run_kernel):
    x = RANDOM.random(64, np.float32)
    out = np.zeros_like(x)
    source = """
        extern "C" __global__ void kernel(const float* x, float* out) {
            __shared__ __align__(16) float tile[4 + 64];
            if (threadIdx.x == 0) bulk_load_begin(tile + 4, x, 256, tile);
            __syncthreads();
            bulk_load_wait(tile);
            tile[4 + threadIdx.x] *= 2.0f;
            fence_proxy_async();
            __syncthreads();
            if (threadIdx.x == 0) bulk_store(out + 4, tile + 8, 240);
        }
    """
    run_kernel(source, x, out, block=(64, 1, 1))
    np.testing.assert_array_equal(out[4:], 2 * x[4:])
    assert not out[:4].any()
