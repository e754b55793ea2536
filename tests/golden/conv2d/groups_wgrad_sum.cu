// warpsmith conv2d_warpgroup_groups
// problem: conv2d pass=wgrad input=32x128x28x28 weight=128x4x3x3 precision=ieee dtype=bfloat16 padding=1x1 groups=32
//          layout=nhwc
//
// Split-K reduction of wgrad: adds the partial sums of filters and channels of one group in a fixed order. There are
// sums for all pairs within 16 merged groups.
constexpr int kThreads = 256;
constexpr int kSplits = 20;
constexpr int kFilters = 4;  // per group
constexpr int kChannels = 4;  // per group
constexpr int kTaps = 9;
constexpr int kMerged = 16;  // groups that became one
constexpr int kMergedGroups = 2;
constexpr int kWeights = 32 * kFilters * kTaps * kChannels;
constexpr size_t kWideWeights = 73728;  // partial sums of a split

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

#ifndef WARPSMITH_ON_HOST  // the host device runs one launch after the other
// Lets the next launch begin once all blocks of this one have begun.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

// Waits until the launch before has ended and its results can be read.
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_groups_sum(const float* __restrict__ parts, Element* __restrict__ dw) {
    wait_for_launch_before();
    const int weight = blockIdx.x * kThreads + threadIdx.x;
    if (weight >= kWeights) {
        return;
    }
    // Filters of a group are adjacent in the partial sums.
    const int filter = weight % kFilters, channel = weight / kFilters % kChannels;
    const int tap = weight / (kFilters * kChannels) % kTaps, group = weight / (kFilters * kChannels * kTaps);
    const int place = group % kMerged;  // in its merged group
    const size_t row = ((tap * kMergedGroups + group / kMerged) * kMerged + place) * kChannels + channel;
    const size_t own = (row * kMerged + place) * kFilters + filter;
    float sum = 0.0f;
#pragma unroll 8
    for (int split = 0; split < kSplits; ++split) {
        sum += parts[split * kWideWeights + own];
    }
    dw[((group * kFilters + filter) * kTaps + tap) * kChannels + channel] = rounded(sum);
}
