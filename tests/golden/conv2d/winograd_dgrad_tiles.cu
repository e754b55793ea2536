// warpsmith conv2d_winograd
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Winograd input transform V = B^T d B of the tiles of dy, to float16 high and low parts.
// Layout of V: [part][point][channel vector][tile], where an element is a vector of eight channels.
// A block transforms kBlockTiles tiles of eight channels, one tile and channel per thread. The points are exchanged
// through shared memory, so that a thread stores eight channels of a point as one vector.
constexpr int kThreads = 256;
constexpr int kImageMaxima = 33;  // partial maxima per image
constexpr int kBlockImages = 2;  // most images that the positions of a block belong to

constexpr int kTileStep = 2;  // pixels from one tile to the next, along each axis
constexpr int kInputTile = 4;  // pixels that a tile reads, along each axis
constexpr int kAxisPoints = 4;  // points along an axis
constexpr int kPoints = kAxisPoints * kAxisPoints;
constexpr int kBlockTiles = 32;  // tiles per block, with eight channels each
constexpr int kChannels = 64;
constexpr int kChannelVectors = 8;  // vectors of eight channels
constexpr int kRows = 56;  // size of an image of dy
constexpr int kColumns = 56;
constexpr int kPadTop = 1;  // rows of zero padding above an image; negative where rows are skipped
constexpr int kPadLeft = 1;
constexpr int kTilesDown = 28;
constexpr int kTilesAcross = 28;
constexpr int kImages = 32;
constexpr int kTiles = 32 * kTilesDown * kTilesAcross;
constexpr int kPaddedTiles = 25152;  // tiles per channel vector, padded with zeros
constexpr int kBlocks = 786;  // blocks per channel vector
constexpr size_t kLowOffset = 3219456;  // vectors from a high part to its low part

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

// Exponent of the power of two that scales `largest` into [2^14, 2^15); at most 126.
__device__ __forceinline__ int power_of(unsigned largest) {
    return min(14 + 127 - static_cast<int>(largest >> 23), 126);
}

// Computes the exponents of the images of a block's positions, from their partial maxima.
__device__ __forceinline__ void find_powers(const unsigned* __restrict__ largest, int first_image,
                                            int (&powers)[kBlockImages]) {
    for (int own = threadIdx.x / 32; own < kBlockImages; own += kThreads / 32) {
        unsigned maximum = 0;
        if (first_image + own < kImages) {
#pragma unroll
            for (int i = 0; i < kImageMaxima; i += 32) {
                if (i + threadIdx.x % 32 < kImageMaxima) {
                    maximum = max(maximum, largest[(first_image + own) * kImageMaxima + i + threadIdx.x % 32]);
                }
            }
        }
        maximum = __reduce_max_sync(0xffffffffu, maximum);
        if (threadIdx.x % 32 == 0) {
            powers[own] = power_of(maximum);
        }
    }
    __syncthreads();
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

// B^T d B along one dimension.
__device__ __forceinline__ void transform(const float (&d)[4], float (&v)[4]) {
    v[0] = -0.5f * d[0] + 0.5f * d[2];
    v[1] = 0.5f * d[1] + 0.5f * d[2];
    v[2] = -0.5f * d[1] + 0.5f * d[2];
    v[3] = -0.5f * d[1] + 0.5f * d[3];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_tiles_dy(const float* __restrict__ dy, const unsigned* __restrict__ largest,
                         int* __restrict__ powers, ChannelVector* __restrict__ packed) {
    __shared__ int own_powers[kBlockImages];
    const int block = blockIdx.x, first_image = block % kBlocks * kBlockTiles / (kTilesDown * kTilesAcross);
    find_powers(largest, first_image, own_powers);
    __shared__ float transformed[kPoints][8][kBlockTiles];
    const int channel_vector = blockIdx.x / kBlocks;
    const int first_tile = blockIdx.x % kBlocks * kBlockTiles;
    // A warp reads adjacent tiles of one channel, and so adjacent pixels.
    const int tile = threadIdx.x % kBlockTiles, lane_channel = threadIdx.x / kBlockTiles;
    const int tile_index = first_tile + tile, channel = channel_vector * 8 + lane_channel;
    const int image = tile_index / (kTilesDown * kTilesAcross),
              tile_in_image = tile_index % (kTilesDown * kTilesAcross);
    const int power = image < kImages ? own_powers[image - first_image] : 0;
    if (block < kBlocks && lane_channel == 0 && tile_in_image == 0 && image < kImages) {
        powers[image] = power;
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    const int row = tile_in_image / kTilesAcross * kTileStep - kPadTop,
              column = tile_in_image % kTilesAcross * kTileStep - kPadLeft;
    const bool is_tile = tile_index < kTiles && channel < kChannels;
    const float* source = dy + (static_cast<size_t>(image) * kChannels + channel) * (kRows * kColumns) +
                          row * kColumns + column;
    float column_transform[kInputTile][kAxisPoints];  // after the transform along columns: [column][point]
#pragma unroll
    for (int j = 0; j < kInputTile; ++j) {
        const bool is_column = is_tile && column + j >= 0 && column + j < kColumns;
        float pixels[kInputTile];
#pragma unroll
        for (int i = 0; i < kInputTile; ++i) {
            const bool is_pixel = is_column && row + i >= 0 && row + i < kRows;
            pixels[i] = is_pixel ? source[i * kColumns + j] * factor : 0.0f;
        }
        transform(pixels, column_transform[j]);
    }
#pragma unroll
    for (int i = 0; i < kAxisPoints; ++i) {
        float numbers[kInputTile], points[kAxisPoints];
#pragma unroll
        for (int j = 0; j < kInputTile; ++j) {
            numbers[j] = column_transform[j][i];
        }
        transform(numbers, points);
#pragma unroll
        for (int j = 0; j < kAxisPoints; ++j) {
            transformed[i * kAxisPoints + j][lane_channel][tile] = points[j];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kPoints * kBlockTiles; i += kThreads) {
        const int point = i / kBlockTiles, own = i % kBlockTiles;
        if (first_tile + own >= kPaddedTiles) {
            continue;
        }
        float numbers[8];
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            numbers[n] = transformed[point][n][own];
        }
        ChannelVector* high = packed + (static_cast<size_t>(point) * kChannelVectors + channel_vector) * kPaddedTiles +
                      first_tile + own;
        store(numbers, high, high + kLowOffset);
    }
}
