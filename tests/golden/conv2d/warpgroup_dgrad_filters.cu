// warpsmith conv2d_warpgroup
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// The weights as float16, tile by tile as products read them; eight channels that are summed over side by side.
constexpr int kThreads = 256;
constexpr int kLargest = 9;

constexpr int kSummed = 64;  // channels of a group that a result sums over
constexpr int kResults = 64;  // and channels of the result
constexpr int kFilterColumns = 3;
constexpr int kTaps = 9;
constexpr int kGroupStride = 36864;  // from group to group, in elements of w
constexpr int kSummedStride = 576;  // elements of w
constexpr int kResultStride = 9;
constexpr int kRowStride = 3;
constexpr int kColumnStride = 1;
constexpr int kTileColumns = 64;  // of a tile: channels of the result
constexpr int kTiles = 1;
constexpr int kChunks = 8;  // of eight channels, in a block
constexpr int kBlocks = 1;  // of channels
constexpr int kParts = 2;
constexpr int kAll = 4608;

// Eight numbers of 16 bits side by side.
struct __align__(16) Eight {
    unsigned short of[8];
};

#ifndef WARPSMITH_ON_HOST  // the host device has its own
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

// 2 to which power brings the largest number to [2^14, 2^15), as far as floats go: of what each block has found.
__device__ __forceinline__ int power_for(const unsigned* __restrict__ largest) {
    __shared__ unsigned of_warps[kThreads / 32];
    unsigned most = 0;
    for (int i = threadIdx.x; i < kLargest; i += kThreads) {
        most = max(most, largest[i]);
    }
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = most;
    }
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        most = max(most, of_warps[warp]);
    }
    return min(14 + 127 - static_cast<int>(most >> 23), 126);
}

// Stores the halves of eight numbers that are scaled already: what each half leaves is the low one. An infinity leaves nothing.
__device__ __forceinline__ void store(const float (&numbers)[8], Eight* high, Eight* low) {
    Eight above, below;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        above.of[i] = float_to_half(numbers[i]);
        const float left = numbers[i] - half_to_float(above.of[i]);
        below.of[i] = float_to_half(fabsf(left) <= 16.0f ? left : 0.0f);
    }
    *high = above;
    *low = below;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_halve_w(const float* __restrict__ w, unsigned* __restrict__ largest, Eight* __restrict__ halves) {
    const int power = power_for(largest);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        largest[kLargest] = static_cast<unsigned>(power);
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    int thread = blockIdx.x * kThreads + threadIdx.x;
    if (thread >= kAll) {
        return;
    }
    // Neighbours read neighbouring weights: taps first, then what lies next to them.
    const int tap = thread % kTaps;
    thread /= kTaps;
    const int column = thread % (kTiles * kTileColumns);
    thread /= kTiles * kTileColumns;
    const int chunk = thread % (kBlocks * kChunks), group = thread / (kBlocks * kChunks);
    const int channel = 8 * chunk;
    size_t tile = group * kTiles + column / kTileColumns;
    tile = (tile * kBlocks + chunk / kChunks) * kTaps + tap;
    Eight* own = halves + (tile * (kParts * kChunks) + chunk % kChunks) * kTileColumns + column % kTileColumns;
    const auto* source = w + group * kGroupStride + channel * kSummedStride + column * kResultStride +
                         tap / kFilterColumns * kRowStride + tap % kFilterColumns * kColumnStride;
    float numbers[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        numbers[i] = column < kResults && channel + i < kSummed ? source[i * kSummedStride] * factor : 0.0f;
    }
    store(numbers, own, own + kChunks * kTileColumns);

}
