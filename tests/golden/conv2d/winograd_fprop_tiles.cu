// warpsmith conv2d_winograd
// problem: conv2d pass=fprop input=64x1024x12x12 weight=1024x1024x3x3 precision=ieee padding=1x1
//
// Tiles of x transformed, as float16: at each point a line of tiles, eight channels side by side.
constexpr int kThreads = 256;
constexpr int kShares = 16;  // of an image, whose largest numbers were found
constexpr int kBlockImages = 5;  // that a block of threads has positions of, at the most

constexpr int kStep = 4;  // rows, and columns, from tile to tile
constexpr int kRead = 6;  // that a tile has
constexpr int kWindow = 6;  // points along an axis
constexpr int kPoints = kWindow * kWindow;
constexpr int kBlockTiles = 32;  // of a block, with eight channels each
constexpr int kChannels = 1024;
constexpr int kChunks = 128;  // of eight channels
constexpr int kRows = 12;  // of x
constexpr int kColumns = 12;
constexpr int kAbove = 1;  // rows of zeros
constexpr int kLeft = 1;
constexpr int kTilesDown = 3;
constexpr int kTilesAcross = 3;
constexpr int kImages = 64;
constexpr int kTiles = 64 * kTilesDown * kTilesAcross;
constexpr int kLength = 576;  // positions of a line: tiles, and zeros
constexpr int kBlocks = 18;  // of threads, for a line
constexpr size_t kLow = 2654208;  // from high parts to low ones

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

// 2 to which power brings `largest` to [2^14, 2^15), as far as floats go.
__device__ __forceinline__ int power_of(unsigned largest) {
    return min(14 + 127 - static_cast<int>(largest >> 23), 126);
}

// The power of each image that a block has positions of, of what its blocks have found.
__device__ __forceinline__ void find_powers(const unsigned* __restrict__ largest, int first_image, int (&powers)[kBlockImages]) {
    for (int own = threadIdx.x / 32; own < kBlockImages; own += kThreads / 32) {
        unsigned most = 0;
        if (first_image + own < kImages) {
#pragma unroll
            for (int i = 0; i < kShares; i += 32) {
                if (i + threadIdx.x % 32 < kShares) {
                    most = max(most, largest[(first_image + own) * kShares + i + threadIdx.x % 32]);
                }
            }
        }
        most = __reduce_max_sync(0xffffffffu, most);
        if (threadIdx.x % 32 == 0) {
            powers[own] = power_of(most);
        }
    }
    __syncthreads();
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

// One dimension of B^T d B.
__device__ __forceinline__ void transform(const float (&d)[6], float (&v)[6]) {
    v[0] = 0.158203125f * d[0] - 0.3515625f * d[2] + 0.125f * d[4];
    v[1] = -0.2109375f * d[1] - 0.28125f * d[2] + 0.09375f * d[3] + 0.125f * d[4];
    v[2] = 0.2109375f * d[1] - 0.28125f * d[2] - 0.09375f * d[3] + 0.125f * d[4];
    v[3] = -0.2109375f * d[1] - 0.140625f * d[2] + 0.375f * d[3] + 0.25f * d[4];
    v[4] = 0.2109375f * d[1] - 0.140625f * d[2] - 0.375f * d[3] + 0.25f * d[4];
    v[5] = 0.158203125f * d[1] - 0.3515625f * d[3] + 0.125f * d[5];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_tiles_x(const float* __restrict__ x, const unsigned* __restrict__ largest, int* __restrict__ powers,
              Eight* __restrict__ halves) {
    __shared__ int own_powers[kBlockImages];
    const int block = blockIdx.x, first_image = block % kBlocks * kBlockTiles / (kTilesDown * kTilesAcross);
    find_powers(largest, first_image, own_powers);
    __shared__ float transformed[kPoints][8][kBlockTiles];
    const int chunk = blockIdx.x / kBlocks;
    const int first_position = blockIdx.x % kBlocks * kBlockTiles;
    // A warp reads neighbouring tiles of a channel, and so neighbouring pixels.
    const int tile = threadIdx.x % kBlockTiles, lane_channel = threadIdx.x / kBlockTiles;
    const int position = first_position + tile, channel = chunk * 8 + lane_channel;
    const int image = position / (kTilesDown * kTilesAcross), place = position % (kTilesDown * kTilesAcross);
    const int power = image < kImages ? own_powers[image - first_image] : 0;
    if (block < kBlocks && lane_channel == 0 && place == 0 && image < kImages) {
        powers[image] = power;
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    const int row = place / kTilesAcross * kStep - kAbove, column = place % kTilesAcross * kStep - kLeft;
    const bool is_tile = position < kTiles && channel < kChannels;
    const float* source = x + (static_cast<size_t>(image) * kChannels + channel) * (kRows * kColumns) +
                          row * kColumns + column;
    float half_way[kRead][kWindow];  // transformed along columns: [column][point]
#pragma unroll
    for (int j = 0; j < kRead; ++j) {
        const bool is_column = is_tile && column + j >= 0 && column + j < kColumns;
        float pixels[kRead];
#pragma unroll
        for (int i = 0; i < kRead; ++i) {
            const bool is_pixel = is_column && row + i >= 0 && row + i < kRows;
            pixels[i] = is_pixel ? source[i * kColumns + j] * factor : 0.0f;
        }
        transform(pixels, half_way[j]);
    }
#pragma unroll
    for (int i = 0; i < kWindow; ++i) {
        float numbers[kRead], points[kWindow];
#pragma unroll
        for (int j = 0; j < kRead; ++j) {
            numbers[j] = half_way[j][i];
        }
        transform(numbers, points);
#pragma unroll
        for (int j = 0; j < kWindow; ++j) {
            transformed[i * kWindow + j][lane_channel][tile] = points[j];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kPoints * kBlockTiles; i += kThreads) {
        const int point = i / kBlockTiles, own = i % kBlockTiles;
        if (first_position + own >= kLength) {
            continue;
        }
        float numbers[8];
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            numbers[n] = transformed[point][n][own];
        }
        Eight* high = halves + (static_cast<size_t>(point) * kChunks + chunk) * kLength + first_position + own;
        store(numbers, high, high + kLow);
    }
}
