// warpsmith conv2d_warpgroup_groups
// problem: conv2d pass=fprop input=32x128x28x28 weight=128x4x3x3 precision=ieee dtype=bfloat16 padding=1x1 groups=32
//          layout=nhwc
//
// Writes filters that read the channels of 16 groups, with zeros for those of other groups than their own.
constexpr int kThreads = 256;
constexpr int kFilters = 4;  // per group
constexpr int kChannels = 4;  // per group
constexpr int kTaps = 9;
constexpr int kMerged = 16;  // groups that become one
constexpr int kTapVectors = kMerged * kChannels / 8;  // vectors of 8 channels per tap
constexpr int kVectors = 9216;  // of all filters

using Element = unsigned short;  // bits of a bfloat16

#ifndef WARPSMITH_ON_HOST  // the host device runs one launch after the other
// Lets the next launch begin once all blocks of this one have begun.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

// Waits until the launch before has ended and its results can be read.
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_groups_wide(const Element* __restrict__ w, uint4* __restrict__ wide) {
    let_next_launch_begin();
    const int vector = blockIdx.x * kThreads + threadIdx.x;
    if (vector >= kVectors) {
        return;
    }
    const int tap = vector / kTapVectors;  // of all filters
    const int before = tap / kTaps / kFilters % kMerged * kChannels;  // channels of the groups before the filter's own
    __align__(16) Element numbers[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int channel = vector % kTapVectors * 8 + i - before;
        numbers[i] = channel >= 0 && channel < kChannels ? w[tap * kChannels + channel] : Element{0};
    }
    wide[vector] = *reinterpret_cast<const uint4*>(numbers);
}
