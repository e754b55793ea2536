"""Arguments, vector types, copies and arithmetic of the host device."""

from __future__ import annotations

import numpy as np

RANDOM = np.random.default_rng(17)


def test_struct_by_value_beside_other_arguments(run_kernel):
    weights = RANDOM.random(9, np.float32)
    out = np.zeros(9, np.float64)
    run_kernel(
        """
        struct Weights { float value[9]; };
        extern "C" __global__ void kernel(char c, const __grid_constant__ Weights weights, double scale, double* out) {
            out[threadIdx.x] = weights.value[threadIdx.x] * scale + c;
        }
        """,
        np.int8(3),
        np.void(weights.tobytes()),
        np.float64(0.5),
        out,
        block=(9, 1, 1),
    )
    np.testing.assert_array_equal(out, weights.astype(np.float64) * 0.5 + 3)


def test_vector_types(run_kernel):
    x = RANDOM.random((32, 4), np.float32)
    out = np.zeros((32, 4), np.float32)
    halves = np.zeros((32, 2), np.uint16)
    run_kernel(
        """
        static_assert(sizeof(float3) == 12 && alignof(int2) == 8 && alignof(longlong2) == 16 && alignof(uchar4) == 4);
        __device__ __forceinline__ float4 reversed(float4 v) { return make_float4(v.w, v.z, v.y, v.x); }
        extern "C" __global__ void kernel(const float* x, float* out, ushort2* halves) {
            const float4 v = __ldcs(reinterpret_cast<const float4*>(x) + threadIdx.x);
            __stcs(reinterpret_cast<float4*>(out) + threadIdx.x, reversed(v));
            halves[threadIdx.x] = make_ushort2(threadIdx.x, 65535);
        }
        """,
        x,
        out,
        halves,
        block=(32, 1, 1),
    )
    np.testing.assert_array_equal(out, x[:, ::-1])
    np.testing.assert_array_equal(halves, np.stack([np.arange(32), np.full(32, 65535)], axis=1))


def test_async_copies(run_kernel):
    x = RANDOM.random(256, np.float32)
    out = np.full(256, -1, np.float32)
    run_kernel(
        """
        #include <cuda_pipeline.h>
        extern "C" __global__ void kernel(const float* x, float* out) {
            __shared__ __align__(16) float tile[2][128];
            int t = threadIdx.x;
            for (int stage = 0; stage < 2; ++stage) {
                __pipeline_memcpy_async(&tile[stage][4 * t], x + 128 * stage + 4 * t, 16, t == 31 ? 12 : 0);
                __pipeline_commit();
            }
            for (int stage = 0; stage < 2; ++stage) {
                __pipeline_wait_prior(1 - stage);
                __syncthreads();
                for (int i = t; i < 128; i += 32) out[128 * stage + i] = tile[stage][127 - i];
            }
        }
        """,
        x,
        out,
        block=(32, 1, 1),
    )
    tiles = x.reshape(2, 128).copy()
    tiles[:, 125:] = 0  # the last 12 bytes of each stage are zero-filled
    np.testing.assert_array_equal(out.reshape(2, 128), tiles[:, ::-1])


def test_arithmetic_of_cuda(run_kernel):
    floats = np.zeros(8, np.float32)
    integers = np.zeros(12, np.int32)
    run_kernel(
        """
        extern "C" __global__ void kernel(float* f, int* i, float one_third, int big) {
            f[0] = __fadd_rn(__fmul_rn(one_third, 3.0f), -1.0f);  // exactly 0 unless contracted
            f[1] = __fmaf_rn(one_third, 3.0f, -1.0f);
            sincospif(0.25f + 1.0e6f * 2, &f[2], &f[3]);
            f[4] = rsqrtf(16.0f);
            f[5] = max(__int_as_float(0x7fc00000), 2.0f);
            f[6] = min(3, 2.5f);
            f[7] = cospif(0.5f);
            i[0] = __float2int_rn(2.5f);
            i[1] = __float2int_rn(1e20f);
            i[2] = __popc(0xf0f0u);
            i[3] = __clz(0) * 100 + __clz(1);
            i[4] = __ffs(8);
            i[5] = __byte_perm(0x03020100, 0x07060504, 0x7531);
            i[6] = __umulhi(0xffffffffu, 16u);
            i[7] = max(-1, 7u) == 0xffffffffu;
            i[8] = min(big, big - 1);
            i[9] = __float_as_int(1.0f);
            i[10] = warpSize;
            i[11] = __float2int_rz(-2.9f);
        }
        """,
        floats,
        integers,
        np.float32(1 / 3),
        np.int32(2**31 - 1),
    )
    residue = np.float64(np.float32(1 / 3)) * 3 - 1
    root = np.sqrt(0.5)
    np.testing.assert_allclose(floats, [0, residue, root, root, 0.25, 2, 2.5, 0], rtol=1e-6)
    perm, one = 0x07050301, 0x3F800000
    assert integers.tolist() == [2, 2**31 - 1, 8, 3231, 4, perm, 15, 1, 2**31 - 2, one, 32, -2]
