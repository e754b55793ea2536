// warpsmith conv2d_winograd
// problem: conv2d pass=dgrad input=64x1024x12x12 weight=1024x1024x3x3 precision=ieee padding=1x1
//
// The weights transformed, as float16: at each point tiles as products read them, eight channels that are summed over
// side by side.
constexpr int kThreads = 192;
constexpr int kLargest = 1056;

constexpr int kWindow = 6;  // points along an axis: a warp each
constexpr int kSummed = 1024;  // channels that a result sums over
constexpr int kResults = 1024;  // and channels of the result
constexpr int kBlockColumns = 32;  // of them, of a block of threads
constexpr int kTileColumns = 128;  // and of a tile of products
constexpr int kTiles = 8;
constexpr int kChunks = 4;  // of eight channels, in a block of channels
constexpr int kChannelBlocks = 32;
constexpr int kBlocks = 32;  // of threads, for a chunk
constexpr int kParts = 2;

// The matrix G, a row for each point.
__constant__ float kRow[kWindow][3] = {
    {0.790123457f, 0.0f, 0.0f},
    {-0.263374486f, -0.197530864f, -0.148148148f},
    {-0.263374486f, 0.197530864f, -0.148148148f},
    {0.131687243f, 0.197530864f, 0.296296296f},
    {0.131687243f, -0.197530864f, 0.296296296f},
    {0.0f, 0.0f, 1.0f},
};

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

// The other dimension of G g G^T.
__device__ __forceinline__ void transform(const float (&d)[3], float (&v)[6]) {
    v[0] = 0.790123457f * d[0];
    v[1] = -0.263374486f * d[0] - 0.197530864f * d[1] - 0.148148148f * d[2];
    v[2] = -0.263374486f * d[0] + 0.197530864f * d[1] - 0.148148148f * d[2];
    v[3] = 0.131687243f * d[0] + 0.197530864f * d[1] + 0.296296296f * d[2];
    v[4] = 0.131687243f * d[0] - 0.197530864f * d[1] + 0.296296296f * d[2];
    v[5] = d[2];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_weights(const float* __restrict__ w, unsigned* __restrict__ largest, Eight* __restrict__ halves) {
    const int power = power_for(largest);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        largest[kLargest] = static_cast<unsigned>(power);
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    __shared__ float filters[8][kBlockColumns][9];  // [summed][result]
    const int chunk = blockIdx.x / kBlocks;
    const int first_column = blockIdx.x % kBlocks * kBlockColumns;
    // Neighbours read neighbouring weights.
    for (int i = threadIdx.x; i < 8 * kBlockColumns * 9; i += kThreads) {
        const int tap = i % 9;
        const int own = i / 9 % kBlockColumns, lane_channel = i / (9 * kBlockColumns);
        const int channel = 8 * chunk + lane_channel, result = first_column + own;
        const bool is_weight = channel < kSummed && result < kResults;
        // Turned by 180 degrees.
        const size_t from = (static_cast<size_t>(channel) * kResults + result) * 9 + (8 - tap);
        filters[lane_channel][own][tap] = is_weight ? w[from] * factor : 0.0f;
    }
    __syncthreads();
    const int own = threadIdx.x % kBlockColumns, point_row = threadIdx.x / kBlockColumns;
    const int column = first_column + own;
    if (column >= kTiles * kTileColumns) {
        return;
    }
    const float g[3] = {kRow[point_row][0], kRow[point_row][1], kRow[point_row][2]};
    float numbers[kWindow][8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        const float(&filter)[9] = filters[n][own];
        float half_way[3], points[kWindow];
#pragma unroll
        for (int s = 0; s < 3; ++s) {
            half_way[s] = g[0] * filter[s] + g[1] * filter[3 + s] + g[2] * filter[6 + s];
        }
        transform(half_way, points);
#pragma unroll
        for (int j = 0; j < kWindow; ++j) {
            numbers[j][n] = points[j];
        }
    }
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
        size_t tile = (point_row * kWindow + j) * kTiles + column / kTileColumns;
        tile = tile * kChannelBlocks + chunk / kChunks;
        Eight* high = halves + (tile * (kParts * kChunks) + chunk % kChunks) * kTileColumns + column % kTileColumns;
        store(numbers[j], high, high + kChunks * kTileColumns);
    }
}
