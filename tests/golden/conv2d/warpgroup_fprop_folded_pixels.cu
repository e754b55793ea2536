// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=128x3x227x227 weight=96x3x11x11 precision=ieee stride=4x4
//
// The images of x as float16, on a line of positions with zeros between them; eight channels side by side.
constexpr int kThreads = 256;
constexpr int kLargest = 1056;

constexpr int kImages = 128;
constexpr int kChannels = 33;  // of a group
constexpr int kChunks = 6;  // of eight channels, in a group
constexpr int kRows = 227;
constexpr int kColumns = 55;
constexpr int kFolded = 11;  // columns of a filter that are channels, those of one channel side by side
constexpr int kFoldedStep = 4;  // columns of the image from column to column of the result
constexpr int kFoldedSpread = 1;  // and of a filter
constexpr int kFoldedLeft = 0;  // of zeros
constexpr int kImageColumns = 227;
constexpr size_t kImageStride = 154587;  // elements of x
constexpr int kChannelStride = 51529;
constexpr int kRowStride = 227;
constexpr int kColumnStride = 1;
constexpr int kRowPitch = 57;  // positions of an image, in rows
constexpr int kColumnPitch = 55;  // and of a row
constexpr int kAbove = 0;  // where the first row is
constexpr int kLeft = 0;
constexpr int kLength = 401500;  // positions
constexpr int kBlocks = 1569;  // of threads, for them
constexpr int kRowStep = 4;  // from row to row of a plane
constexpr int kColumnStep = 1;
constexpr int kPlanes = 4;
__constant__ int kFirstRow[kPlanes] = {0, 1, 2, 3};
__constant__ int kFirstColumn[kPlanes] = {0, 0, 0, 0};
constexpr size_t kLow = 9636000;  // from high parts to low ones

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

// The column of the image that a folded channel reads for a column of the result.
__device__ __forceinline__ int folded_column(int channel, int column) {
    return column * kFoldedStep + channel % kFolded * kFoldedSpread - kFoldedLeft;
}

__device__ __forceinline__ bool is_folded(int channel, int column) {
    const int own = folded_column(channel, column);
    return channel < kChannels && own >= 0 && own < kImageColumns;
}

__device__ __forceinline__ int folded_pixel(int channel, int column) {
    return channel / kFolded * kChannelStride + folded_column(channel, column) * kColumnStride;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_halve_x(const float* __restrict__ x, unsigned* __restrict__ largest, Eight* __restrict__ halves) {
    const int power = power_for(largest);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        largest[kLargest] = static_cast<unsigned>(power);
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    int line = blockIdx.x / kBlocks;
    const int position = blockIdx.x % kBlocks * kThreads + threadIdx.x;
    if (position >= kLength) {
        return;
    }
    Eight* own = halves + line * static_cast<size_t>(kLength) + position;
    const int plane = line % kPlanes;
    line /= kPlanes;
    const int channel = line % kChunks * 8;
    const int image = position / (kRowPitch * kColumnPitch);
    const int place = position % (kRowPitch * kColumnPitch);
    const int row = (place / kColumnPitch - kAbove) * kRowStep + kFirstRow[plane];
    const int column = (place % kColumnPitch - kLeft) * kColumnStep + kFirstColumn[plane];
    const bool is_pixel = image < kImages && row >= 0 && row < kRows && column >= 0 && column < kColumns;
    const auto* source = x + image * kImageStride + row * kRowStride;
    float numbers[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        numbers[i] = is_pixel && is_folded(channel + i, column) ? source[folded_pixel(channel + i, column)] * factor : 0.0f;
    }
    store(numbers, own, own + kLow);
}
