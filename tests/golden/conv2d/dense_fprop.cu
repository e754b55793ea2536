// warpsmith conv2d_dense
// problem: conv2d pass=fprop input=24x888x1x1 weight=222x888x1x1 precision=ieee dtype=bfloat16 layout=nhwc bias=yes
//          relu=yes
// config:  columns=2 lanes=32 rows=2 threads=256
//
// A layer whose filters cover the image, as a matrix product. kLanes neighbouring threads share the sums of kRows
// images
// and kColumns filters: each adds up every kLanes-th vector of pixels, and shuffles add up their sums.

constexpr int kImages = 24;
constexpr int kFilters = 222;
constexpr int kPixels = 888;  // of all channels of an image: the terms of a sum
constexpr int kVector = 8;  // pixels per load
constexpr int kRows = 2;
constexpr int kColumns = 2;
constexpr int kLanes = 32;
constexpr int kSteps = kPixels / (kLanes * kVector);  // that all lanes have
constexpr int kThreads = 256;
constexpr int kColumnTiles = 111;

using Element = unsigned short;  // bits of a bfloat16

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ float load(const Element* from) { return bfloat_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_bfloat(value); }

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float sum) { return sum < 0.0f ? 0.0f : sum; }
using Vector = uint4;  // kVector adjacent channels as stored in memory

__device__ __forceinline__ void unpack(uint4 vector, float* pixels) {
    pixels[0] = __uint_as_float(vector.x << 16);
    pixels[1] = __uint_as_float(vector.x & 0xffff0000u);
    pixels[2] = __uint_as_float(vector.y << 16);
    pixels[3] = __uint_as_float(vector.y & 0xffff0000u);
    pixels[4] = __uint_as_float(vector.z << 16);
    pixels[5] = __uint_as_float(vector.z & 0xffff0000u);
    pixels[6] = __uint_as_float(vector.w << 16);
    pixels[7] = __uint_as_float(vector.w & 0xffff0000u);
}

__device__ __forceinline__ Vector read(const Element* from) {
    return __ldg(reinterpret_cast<const Vector*>(from));
}

// One block at least: for more, ptxas saves registers and has fewer loads in flight.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_dense(const Element* __restrict__ x,
             const Element* __restrict__ w,
             const Element* __restrict__ b,
             Element* __restrict__ y) {
    const int tile = (blockIdx.x * kThreads + threadIdx.x) / kLanes, lane = threadIdx.x % kLanes;
    const int first_image = tile / kColumnTiles * kRows, first_filter = tile % kColumnTiles * kColumns;
    // Beyond the last image or filter, threads repeat it: all lanes take part in the shuffles.
    const Element* images[kRows];
    const Element* filters[kColumns];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        images[r] = x + min(first_image + r, kImages - 1) * kPixels;
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
        filters[c] = w + min(first_filter + c, kFilters - 1) * kPixels;
    }
    float sums[kRows][kColumns] = {};
    const auto add = [&](int first) {
        float pixels[kRows][kVector], weights[kVector];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            unpack(read(images[r] + first), pixels[r]);
        }
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
            unpack(read(filters[c] + first), weights);
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    sums[r][c] = fmaf(pixels[r][v], weights[v], sums[r][c]);
                }
            }
        }
    };
#pragma unroll 4
    for (int step = 0; step < kSteps; ++step) {
        add((step * kLanes + lane) * kVector);
    }
    if ((kSteps * kLanes + lane) * kVector < kPixels) {
        add((kSteps * kLanes + lane) * kVector);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
            float sum = sums[r][c];
#pragma unroll
            for (int mask = kLanes / 2; mask > 0; mask /= 2) {
                sum += __shfl_xor_sync(0xffffffffu, sum, mask);
            }
            const int image = first_image + r, filter = first_filter + c;
            if (lane == (r * kColumns + c) % kLanes && image < kImages && filter < kFilters) {
                y[image * kFilters + filter] = rounded(relu(sum + load(b + filter)));
            }
        }
    }
}
