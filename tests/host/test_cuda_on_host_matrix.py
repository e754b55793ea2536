"""Matrix products on the host device, against NumPy: which elements each thread holds, and which bits of a number
count.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

RANDOM = np.random.default_rng(41)

OF_A_WARPGROUP = """
extern "C" __global__ void kernel(const float* a, const float* b, float* begun, float* added) {
    constexpr int kSums = kColumns / 2;
    __shared__ __align__(128) float factors[2 * 8 * kColumns];
    const int thread = threadIdx.y * 128 + threadIdx.x, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
    for (int i = thread; i < 2 * 8 * kColumns; i += 256) {
        const int column = i / 4 % kColumns, k = i / (4 * kColumns) * 4 + i % 4;
        factors[i] = b[k * kColumns + column];
    }
    fence_proxy_async();
    __syncthreads();
    float sums[kSums], pixels[2][4];
    for (int i = 0; i < 8; ++i) pixels[i / 4][i % 4] = a[(row + i % 2 * 8) * 16 + i / 2 * 4 + lane % 4];
    for (int i = 0; i < kSums; ++i) sums[i] = __uint_as_float(0x7fc00000u);
    const SmemDescriptorB first = smem_descriptor_b(factors);
    for (int step = 0; step < 2; ++step) {
        wgmma_fence();
        if (step == 0) multiply<false>(sums, pixels[0], first);
        if (step == 1) multiply<true>(sums, pixels[1], behind(first, 8 * kColumns));
        wgmma_commit_group();
        wgmma_wait_all(sums);
        for (int i = 0; i < kSums; ++i) {
            const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            (step == 0 ? begun : added)[(row + i % 4 / 2 * 8) * kColumns + column] = sums[i];
        }
    }
}
"""

OF_A_WARP = """
extern "C" __global__ void kernel(const unsigned* a, const unsigned* b, float* sums) {
    const int row = threadIdx.x / 4, pair = threadIdx.x % 4;
    unsigned left[4], right[2];
    for (int i = 0; i < 4; ++i) left[i] = a[(row + i % 2 * 8) * 8 + i / 2 * 4 + pair];
    for (int i = 0; i < 2; ++i) right[i] = b[row * 8 + i * 4 + pair];  // row is a column of b
    float mine[4];
    for (int i = 0; i < 4; ++i) mine[i] = sums[(row + i / 2 * 8) * 8 + pair * 2 + i % 2];
    __syncwarp();  // tells the host device that threads work together
    mma_f16(mine, left, right);
    for (int i = 0; i < 4; ++i) sums[(row + i / 2 * 8) * 8 + pair * 2 + i % 2] = mine[i];
}
"""


OF_TF32 = """
extern "C" __global__ void kernel(const unsigned* a, const unsigned* b, float* sums) {
    const int group = threadIdx.x / 4, member = threadIdx.x % 4;
    unsigned left[4], right[2];
    for (int i = 0; i < 4; ++i) left[i] = a[(group + i % 2 * 8) * 8 + i / 2 * 4 + member];
    for (int i = 0; i < 2; ++i) right[i] = b[(i * 4 + member) * 8 + group];
    float mine[4];
    for (int i = 0; i < 4; ++i) mine[i] = sums[(group + i / 2 * 8) * 8 + member * 2 + i % 2];
    __syncwarp();  // tells the host device that threads work together
    mma_tf32(mine, left, right);
    for (int i = 0; i < 4; ++i) sums[(group + i / 2 * 8) * 8 + member * 2 + i % 2] = mine[i];
}
"""


OF_HALVES = """
extern "C" __global__ void kernel(const unsigned* a, const unsigned* b, float* sums, const int* add) {
    __shared__ __align__(128) unsigned left[kBytesA / 4], right[kBytesB / 4];
    const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
    for (int i = thread; i < kBytesA / 4; i += 128) left[i] = a[i];
    for (int i = thread; i < kBytesB / 4; i += 128) right[i] = b[i];
    fence_proxy_async();
    __syncthreads();
    float mine[kColumns / 2];
    for (int i = 0; i < kColumns / 2; ++i) {
        mine[i] = sums[(row + i % 4 / 2 * 8) * kColumns + i / 4 * 8 + lane % 4 * 2 + i % 2];
    }
    wgmma_fence();
    wgmma_f16<kNegated, kTurnedA, kTurnedB>(mine, smem_descriptor<kLeadingA, kStrideA>(left),
                                            behind(smem_descriptor<kLeadingB, kStrideB>(right), kSkipped), *add != 0);
    wgmma_commit_group();
    wgmma_wait_all(mine);
    for (int i = 0; i < kColumns / 2; ++i) {
        sums[(row + i % 4 / 2 * 8) * kColumns + i / 4 * 8 + lane % 4 * 2 + i % 2] = mine[i];
    }
}
"""


def drawn(*shape: int) -> NDArray[np.float32]:
    """Numbers of 24 bits and either sign. Their products are exact if summed in double precision."""
    signs = RANDOM.choice(np.array([-1, 1], np.float32), shape)
    return signs * (1 + RANDOM.integers(0, 1 << 23, shape) / 2**23).astype(np.float32)


def cut(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Upper 19 bits of each number, which make a tf32 number."""
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("columns", [8, 72, 256])
def test_two_warpgroups_multiply_what_tf32_holds_of_their_matrices(run_kernel, columns):
    a, b = drawn(128, 16), drawn(16, columns)
    begun, added = (np.zeros((128, columns), np.float32) for _ in range(2))
    source = OF_A_WARPGROUP.replace("kColumns", str(columns))
    run_kernel(source, a, b, begun, added, block=(128, 2, 1))
    first = (cut(a[:, :8]) @ cut(b[:8])).astype(np.float32)
    np.testing.assert_array_equal(begun, first)  # whatever the accumulators held before
    np.testing.assert_array_equal(added, (first + cut(a[:, 8:]) @ cut(b[8:])).astype(np.float32))
    whole = a[:, :8].astype(np.float64) @ b[:8].astype(np.float64)
    assert (np.abs(begun - whole) > 1e-5).mean() > 0.9


@pytest.mark.parametrize("cut_away", [0x0001, 0x1000, 0x1FFF])
def test_lower_13_bits_of_a_number_are_not_read(run_kernel, cut_away):
    a, b = cut(drawn(128, 16)).astype(np.float32), cut(drawn(16, 8)).astype(np.float32)
    more_a, more_b = ((each.view(np.uint32) | np.uint32(cut_away)).view(np.float32) for each in (a, b))
    results = []
    for left, right in ((a, b), (more_a, b), (a, more_b)):
        begun, added = (np.zeros((128, 8), np.float32) for _ in range(2))
        run_kernel(OF_A_WARPGROUP.replace("kColumns", "8"), left, right, begun, added, block=(128, 2, 1))
        results.append((begun, added))
    for begun, added in results[1:]:
        np.testing.assert_array_equal(begun, results[0][0])
        np.testing.assert_array_equal(added, results[0][1])
    assert (results[0][0] != 0).any()


def test_a_warp_multiplies_halves(run_kernel):
    a, b = RANDOM.standard_normal((16, 16)).astype(np.float16), RANDOM.standard_normal((16, 8)).astype(np.float16)
    before = RANDOM.standard_normal((16, 8)).astype(np.float32)
    sums = before.copy()
    run_kernel(OF_A_WARP, a.view(np.uint32), np.ascontiguousarray(b.T).view(np.uint32), sums, block=(32, 1, 1))
    exact = before + a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(sums, exact, rtol=1e-7, atol=1e-7)


def laid_out(matrix: NDArray[np.float16], turned: bool, leading: int, stride: int) -> NDArray[np.uint32]:
    """(places, terms) in shared memory without a swizzle, where a descriptor has these offsets in bytes: CUTLASS's
    canonical layouts in units of 16 bytes are ((8,n),2):((1,SBO),LBO) where terms lie side by side (K-major), and
    ((1,n),(8,k)):((X,SBO),(1,LBO)) where places do (MN-major). What lies between is not a number.
    """
    places, terms = matrix.shape
    memory = np.full((stride * (places // 8) + leading * (terms // 8) + 128) // 2, np.nan, np.float16)
    for place, term in np.ndindex(places, terms):
        if turned:
            unit, inside = term % 8 + term // 8 * (leading // 16) + place // 8 * (stride // 16), place % 8
        else:
            unit, inside = place % 8 + place // 8 * (stride // 16) + term // 8 * (leading // 16), term % 8
        memory[8 * unit + inside] = matrix[place, term]
    return memory.view(np.uint32)


@pytest.mark.parametrize(
    ("turned_a", "turned_b", "columns", "negated", "add"),
    [
        (False, False, 8, False, True),
        (True, False, 32, True, True),
        (False, True, 128, False, False),
        (True, True, 64, True, False),
    ],
)
def test_a_warpgroup_multiplies_halves_that_lie_either_way(run_kernel, turned_a, turned_b, columns, negated, add):
    """Covers offsets that leave gaps, and a matrix that begins behind another one."""
    a = RANDOM.standard_normal((64, 16)).astype(np.float16)
    b = RANDOM.standard_normal((columns, 16)).astype(np.float16)
    sums = RANDOM.standard_normal((64, columns)).astype(np.float32)
    (leading_a, stride_a), (leading_b, stride_b) = (64 // 8 * 128 + 64, 128), (128, 2 * 128 + 16)
    left, right = laid_out(a, turned_a, leading_a, stride_a), laid_out(b, turned_b, leading_b, stride_b)
    right = np.concatenate([np.full(12, 0x7E007E00, np.uint32), right])
    given = {
        "kBytesA": left.nbytes, "kBytesB": right.nbytes, "kColumns": columns, "kSkipped": 48,
        "kNegated": str(negated).lower(), "kTurnedA": str(turned_a).lower(), "kTurnedB": str(turned_b).lower(),
        "kLeadingA": leading_a, "kStrideA": stride_a, "kLeadingB": leading_b, "kStrideB": stride_b,
    }  # fmt: skip
    source = OF_HALVES
    for name, value in given.items():
        source = source.replace(name, str(value))
    product = a.astype(np.float64) @ b.astype(np.float64).T
    exact = (sums.astype(np.float64) if add else 0.0) + (-product if negated else product)
    run_kernel(source, left, right, sums, np.array([add], np.int32), block=(128, 1, 1))
    step = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    assert (np.abs(sums) <= np.abs(exact) + 1e-15).all()  # cut off, not rounded
    assert (np.abs(sums - exact) <= step).all()
    assert (np.abs(sums - exact) > step / 2).any()


def test_a_warp_multiplies_what_tf32_holds_of_its_matrices(run_kernel):
    a, b, before = drawn(16, 8), drawn(8, 8), drawn(16, 8)
    sums = before.copy()
    run_kernel(OF_TF32, a.view(np.uint32), b.view(np.uint32), sums, block=(32, 1, 1))
    np.testing.assert_array_equal(sums, (before + cut(a) @ cut(b)).astype(np.float32))
    assert (np.abs(sums - before - a.astype(np.float64) @ b) > 1e-5).mean() > 0.9


def test_sums_here_are_rounded_once(run_kernel):
    x = RANDOM.standard_normal((3, 64)).astype(np.float32)
    out = np.zeros((2, 64), np.float32)
    run_kernel(
        """
        extern "C" __global__ void kernel(const float* x, float* out) {
            const int i = threadIdx.x;
            __syncwarp();  // tells the host device that threads work together
            out[i] = add_in_order(mov_in_order(x[i]), x[64 + i]);
            out[64 + i] = fma_in_order(x[i], x[64 + i], x[128 + i]);
        }
        """,
        x,
        out,
        block=(64, 1, 1),
    )
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(out[0], x[0] + x[1])
    np.testing.assert_array_equal(out[1], (wide[0] * wide[1] + wide[2]).astype(np.float32))
