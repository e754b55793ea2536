// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=128x3x227x227 weight=96x3x11x11 precision=ieee stride=4x4
//
// The weights as float16, tile by tile as products read them; eight channels that are summed over side by side.
constexpr int kThreads = 256;
constexpr int kLargest = 8;

constexpr int kSummed = 48;  // channels of a group that a result sums over
constexpr int kResults = 96;  // and channels of the result
constexpr int kFilterColumns = 3;
constexpr int kTaps = 9;
constexpr int kSummedStride = 121;  // elements of w
constexpr int kResultStride = 363;
constexpr int kRowStride = 11;
constexpr int kColumnStride = 1;
constexpr int kFoldedRows = 4;  // that are channels
constexpr int kFoldedColumns = 4;
constexpr int kFolded = kFoldedRows * kFoldedColumns;  // those of one channel side by side
constexpr int kOwnRows = 11;  // of a filter that is not folded
constexpr int kOwnColumns = 11;
constexpr int kTileColumns = 96;  // of a tile: channels of the result
constexpr int kTiles = 1;
constexpr int kChunks = 2;  // of eight channels, in a block
constexpr int kBlocks = 3;  // of channels
constexpr int kParts = 2;
constexpr int kAll = 5184;

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

// The row and the column of a filter that are a folded channel's tap.
__device__ __forceinline__ int filter_row(int channel, int tap) {
    return tap / kFilterColumns * kFoldedRows + channel / kFoldedColumns % kFoldedRows;
}

__device__ __forceinline__ int filter_column(int channel, int tap) {
    return tap % kFilterColumns * kFoldedColumns + channel % kFoldedColumns;
}

__device__ __forceinline__ bool is_weight(int channel, int tap) {
    return filter_row(channel, tap) < kOwnRows && filter_column(channel, tap) < kOwnColumns;
}

__device__ __forceinline__ int folded_weight(int channel, int tap) {
    return channel / kFolded * kSummedStride + filter_row(channel, tap) * kRowStride +
           filter_column(channel, tap) * kColumnStride;
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
    const int chunk = thread % (kBlocks * kChunks);
    thread /= kBlocks * kChunks;
    const int column = thread % (kTiles * kTileColumns);
    const int channel = 8 * chunk;
    size_t tile = column / kTileColumns;
    tile = (tile * kBlocks + chunk / kChunks) * kTaps + tap;
    Eight* own = halves + (tile * (kParts * kChunks) + chunk % kChunks) * kTileColumns + column % kTileColumns;
    const auto* source = w + column * kResultStride;
    float numbers[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        numbers[i] = column < kResults && channel + i < kSummed && is_weight(channel + i, tap) ? source[folded_weight(channel + i, tap)] * factor : 0.0f;
    }
    store(numbers, own, own + kChunks * kTileColumns);

}
