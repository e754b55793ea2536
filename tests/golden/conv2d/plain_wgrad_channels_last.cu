// warpsmith conv2d_plain
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee dtype=bfloat16 padding=1x1 layout=nhwc
// config:  threads=256 unroll=1
//
// One block computes kLanes consecutive weights. Of the kPartitionsK threads per weight, each accumulates every
// kPartitionsK-th output pixel; the block then reduces their sums in shared memory. Consecutive threads own consecutive
// channels, which are contiguous in memory.

constexpr int kGroups = 1;
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

constexpr unsigned kOutputPixels = 100352;  // pixels of y in all images
constexpr unsigned kWeights = 36864;
constexpr int kLanes = 8;  // weights of a block
constexpr int kThreads = 256;
constexpr int kPartitionsK = kThreads / kLanes;  // threads that share the reduction of one weight

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

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const Element* __restrict__ x, const Element* __restrict__ dy, Element* __restrict__ dw) {
    const unsigned unclamped_weight = blockIdx.x * kLanes + threadIdx.x % kLanes;
    const unsigned weight = min(unclamped_weight, kWeights - 1);  // [r][s][filter][channel]
    const int channel = weight % kChannels;  // within its group
    const int filter = weight / kChannels % (kGroups * kFilters);
    const int s = weight / (kChannels * kGroups * kFilters) % kFilterColumns;
    const int r = weight / (kChannels * kGroups * kFilters * kFilterColumns);
    const int source_channel = filter / kFilters * kChannels + channel;
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned output_pixel = threadIdx.x / kLanes; output_pixel < kOutputPixels;
         output_pixel += kPartitionsK) {
        const int q = output_pixel % kOutputColumns;
        const int p = output_pixel / kOutputColumns % kOutputRows;
        const int image = output_pixel / (kOutputColumns * kOutputRows);
        const int row = p * kStrideRows + r * kDilationRows - kPadTop;
        const int column = q * kStrideColumns + s * kDilationColumns - kPadLeft;
        if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
            continue;  // zero padding
        }
        const int pixel = (image * kRows + row) * kColumns + column;
        sum = fmaf(load(x + pixel * (kGroups * kChannels) + source_channel),
                   load(dy + output_pixel * (kGroups * kFilters) + filter), sum);
    }
    __shared__ float sums[kThreads];
    sums[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int threads = kThreads / 2; threads >= kLanes; threads /= 2) {
        if (threadIdx.x < threads) {
            sums[threadIdx.x] += sums[threadIdx.x + threads];
        }
        __syncthreads();
    }
    if (threadIdx.x < kLanes && unclamped_weight < kWeights) {
        dw[((filter * kFilterRows + r) * kFilterColumns + s) * kChannels + channel] = rounded(sums[threadIdx.x]);
    }
}
