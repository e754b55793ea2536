// warpsmith conv2d_winograd
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Winograd weight transform U = G g G^T, to float16 high and low parts.
// Layout of U: [point][tile of the products][channel block][part][channel vector][column], where an element is a vector
// of eight reduced channels and a column is a channel of the result. A block transforms kBlockColumns columns of one
// channel vector; each warp computes one row of points.
constexpr int kThreads = 128;
constexpr int kMaxima = 9;  // partial maxima

constexpr int kAxisPoints = 4;  // points along an axis; one warp per row of points
constexpr int kReducedChannels = 64;  // channels of the reduction (K of the products)
constexpr int kResultChannels = 64;  // channels of the result
constexpr int kBlockColumns = 32;  // columns per block: channels of the result
constexpr int kTileColumns = 64;  // columns per tile of the products
constexpr int kTiles = 1;
constexpr int kBlockChannelVectors = 4;  // vectors of eight channels per channel block
constexpr int kChannelBlocks = 2;
constexpr int kBlocks = 2;  // blocks per channel vector
constexpr int kParts = 2;  // fp16 parts of a number: high and low

// The matrix G, one row per point.
__constant__ float kG[kAxisPoints][3] = {
    {-1.0f, 0.0f, 0.0f},
    {0.25f, 0.25f, 0.25f},
    {0.25f, -0.25f, 0.25f},
    {0.0f, 0.0f, 1.0f},
};

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

// G along the columns of a filter; along the rows, each warp applies its own row of G.
__device__ __forceinline__ void transform(const float (&d)[3], float (&v)[4]) {
    v[0] = -d[0];
    v[1] = 0.25f * d[0] + 0.25f * d[1] + 0.25f * d[2];
    v[2] = 0.25f * d[0] - 0.25f * d[1] + 0.25f * d[2];
    v[3] = d[2];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_weights(const float* __restrict__ w, unsigned* __restrict__ largest,
                        ChannelVector* __restrict__ packed) {
    const int power = power_for(largest);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        largest[kMaxima] = static_cast<unsigned>(power);
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    __shared__ float filters[8][kBlockColumns][9];  // [reduced channel][column][tap]
    const int channel_vector = blockIdx.x / kBlocks;
    const int first_column = blockIdx.x % kBlocks * kBlockColumns;
    // Consecutive threads read consecutive weights.
    for (int i = threadIdx.x; i < 8 * kBlockColumns * 9; i += kThreads) {
        const int tap = i % 9;
        const int lane_channel = i / 9 % 8, own = i / 72;
        const int channel = 8 * channel_vector + lane_channel, result = first_column + own;
        const bool is_weight = channel < kReducedChannels && result < kResultChannels;
        const size_t from = (static_cast<size_t>(result) * kReducedChannels + channel) * 9 + tap;
        filters[lane_channel][own][tap] = is_weight ? w[from] * factor : 0.0f;
    }
    __syncthreads();
    const int own = threadIdx.x % kBlockColumns, point_row = threadIdx.x / kBlockColumns;
    const int column = first_column + own;
    if (column >= kTiles * kTileColumns) {
        return;
    }
    const float g[3] = {kG[point_row][0], kG[point_row][1], kG[point_row][2]};
    float numbers[kAxisPoints][8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        const float(&filter)[9] = filters[n][own];
        float row_transform[3], points[kAxisPoints];
#pragma unroll
        for (int s = 0; s < 3; ++s) {
            row_transform[s] = g[0] * filter[s] + g[1] * filter[3 + s] + g[2] * filter[6 + s];
        }
        transform(row_transform, points);
#pragma unroll
        for (int j = 0; j < kAxisPoints; ++j) {
            numbers[j][n] = points[j];
        }
    }
#pragma unroll
    for (int j = 0; j < kAxisPoints; ++j) {
        size_t tile = (point_row * kAxisPoints + j) * kTiles + column / kTileColumns;
        tile = tile * kChannelBlocks + channel_vector / kBlockChannelVectors;
        ChannelVector* high = packed +
                      (tile * (kParts * kBlockChannelVectors) + channel_vector % kBlockChannelVectors) * kTileColumns +
                      column % kTileColumns;
        store(numbers[j], high, high + kBlockChannelVectors * kTileColumns);
    }
}
