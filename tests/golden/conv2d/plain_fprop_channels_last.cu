// warpsmith conv2d_plain
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee dtype=bfloat16 padding=1x1 layout=nhwc
//          bias=yes relu=yes
// config:  threads=256 unroll=1
//
// One thread computes one element of y and reads every tap from global memory, without staging.
// Consecutive threads own consecutive channels, which are contiguous in memory.

constexpr int kChannels = 64;  // C: channels of x
constexpr int kRows = 56;  // H, W: size of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 64;  // K: filters, the channels of y
constexpr int kFilterRows = 3;  // R, S: taps of a filter
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // P, Q: size of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kPadTop = 1;  // rows of zero padding above an image of x
constexpr int kPadLeft = 1;

constexpr unsigned kResults = 6422528;
constexpr int kThreads = 256;

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

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const Element* __restrict__ x,
             const Element* __restrict__ w,
             const Element* __restrict__ b,
             Element* __restrict__ y) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= kResults) {
        return;
    }
    const int filter = index % kFilters;
    const unsigned output_pixel = index / kFilters;
    const int q = output_pixel % kOutputColumns;
    const int p = output_pixel / kOutputColumns % kOutputRows;
    const int image = output_pixel / (kOutputColumns * kOutputRows);
    const Element* pixels = x + image * (kRows * kColumns * kChannels);
    const Element* weights = w + filter * (kFilterRows * kFilterColumns * kChannels);
    float sum = load(b + filter);
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
        const int row = p * kStrideRows + r * kDilationRows - kPadTop;
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            const int column = q * kStrideColumns + s * kDilationColumns - kPadLeft;
            if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
                continue;  // zero padding
            }
            const Element* pixel = pixels + (row * kColumns + column) * kChannels;
            const Element* weight = weights + (r * kFilterColumns + s) * kChannels;
#pragma unroll 1
            for (int c = 0; c < kChannels; ++c) {
                sum = fmaf(load(weight + c), load(pixel + c), sum);
            }
        }
    }
    y[index] = rounded(relu(sum));
}
