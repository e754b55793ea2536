// warpsmith conv2d_warpgroup
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Packs the weights as float16 in the order in which the GEMM's mainloop reads them as B:
// [group][tile of N][channel block][tap][part][channel vector][column][channel].
// A channel vector is eight channels that are summed over; each thread packs one.
constexpr int kThreads = 256;
constexpr int kMaxima = 9;  // partial maxima

constexpr int kSummed = 64;  // channels per group that a result sums over
constexpr int kN = 64;  // channels of the result per group
constexpr int kFilterColumns = 3;
constexpr int kTaps = 9;
constexpr int kGroupStride = 36864;  // elements of w
constexpr int kSummedStride = 576;  // strides of w, in elements
constexpr int kResultStride = 9;
constexpr int kRowStride = 3;
constexpr int kColumnStride = 1;
constexpr int kTileN = 64;  // channels of the result per tile
constexpr int kTilesN = 1;
constexpr int kVectors = 8;  // channel vectors (eight channels) per channel block
constexpr int kBlocks = 1;  // channel blocks per group
constexpr int kParts = 2;
constexpr int kAllThreads = 4608;

// Eight channels of 16 bits.
struct __align__(16) ChannelVector {
    unsigned short values[8];
};

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_half2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

// Exponent of the power of two that scales the largest of the partial maxima into [2^14, 2^15), at most 126.
__device__ __forceinline__ int power_for(const unsigned* __restrict__ largest) {
    __shared__ unsigned warp_maxima[kThreads / 32];
    unsigned maximum = 0;
    for (int i = threadIdx.x; i < kMaxima; i += kThreads) {
        maximum = max(maximum, largest[i]);
    }
    maximum = __reduce_max_sync(0xffffffffu, maximum);
    if (threadIdx.x % 32 == 0) {
        warp_maxima[threadIdx.x / 32] = maximum;
    }
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        maximum = max(maximum, warp_maxima[warp]);
    }
    return min(14 + 127 - static_cast<int>(maximum >> 23), 126);
}

// Stores eight scaled numbers as high + low: high is the nearest fp16 number, low the fp16 rest, or 0 if high is not
// finite.
__device__ __forceinline__ void store(const float (&numbers)[8], ChannelVector* high, ChannelVector* low) {
    ChannelVector above, below;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        above.values[i] = float_to_half(numbers[i]);
        const float left = numbers[i] - half_to_float(above.values[i]);
        below.values[i] = float_to_half(fabsf(left) <= 16.0f ? left : 0.0f);
    }
    *high = above;
    *low = below;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_pack_w(const float* __restrict__ w, unsigned* __restrict__ largest,
                        ChannelVector* __restrict__ packed) {
    const int power = power_for(largest);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        largest[kMaxima] = static_cast<unsigned>(power);
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    int thread = blockIdx.x * kThreads + threadIdx.x;
    if (thread >= kAllThreads) {
        return;
    }
    // Adjacent threads read adjacent weights: taps vary fastest, then the next inner dimension of w.
    const int tap = thread % kTaps;
    thread /= kTaps;
    const int column = thread % (kTilesN * kTileN);
    thread /= kTilesN * kTileN;
    const int vector = thread % (kBlocks * kVectors), group = thread / (kBlocks * kVectors);
    const int channel = 8 * vector;
    size_t tile = group * kTilesN + column / kTileN;
    tile = (tile * kBlocks + vector / kVectors) * kTaps + tap;
    ChannelVector* own = packed + (tile * (kParts * kVectors) + vector % kVectors) * kTileN + column % kTileN;
    const auto* source = w + group * kGroupStride + channel * kSummedStride + column * kResultStride +
                         tap / kFilterColumns * kRowStride + tap % kFilterColumns * kColumnStride;
    float numbers[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        numbers[i] = column < kN && channel + i < kSummed
                         ? source[i * kSummedStride] * factor
                         : 0.0f;
    }
    store(numbers, own, own + kVectors * kTileN);

}
