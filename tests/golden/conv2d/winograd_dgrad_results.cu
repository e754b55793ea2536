// warpsmith conv2d_winograd
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Winograd output transform A^T M A and epilogue. M is [point][channel][tile]; each thread computes one kOutputTile x
// kOutputTile tile of one channel of dx, and removes the power-of-two scales of the operands.
constexpr int kThreads = 128;  // one tile per thread
constexpr int kOutputTile = 2;  // m: results of a tile along an axis
constexpr int kAxisPoints = 4;  // m + 2: points along an axis
constexpr int kResultChannels = 64;  // channels of dx
constexpr int kRows = 56;  // size of an image of dx
constexpr int kColumns = 56;
constexpr int kTilesDown = 28;
constexpr int kTilesAcross = 28;
constexpr int kTiles = 32 * kTilesDown * kTilesAcross;
constexpr int kBlocks = 196;  // blocks per channel
constexpr size_t kPointStride = kResultChannels * static_cast<size_t>(kTiles);

// A^T M A along one dimension.
__device__ __forceinline__ void transform(const float (&d)[4], float (&v)[2]) {
    v[0] = 2.0f * d[0] + 4.0f * d[1] + 4.0f * d[2];
    v[1] = 4.0f * d[1] - 4.0f * d[2] + 2.0f * d[3];
}

// sum * 2^power; the power may lie beyond the range of a float, so it is applied in two factors.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_results(const float* __restrict__ products,
                        const int* __restrict__ pixel_powers, const int* __restrict__ filter_power,
                        float* __restrict__ dx) {
    const int channel = blockIdx.x / kBlocks;
    const int tile = blockIdx.x % kBlocks * kThreads + threadIdx.x;
    if (tile >= kTiles) {
        return;
    }
    const float* source = products + channel * static_cast<size_t>(kTiles) + tile;
    float column_transform[kAxisPoints][kOutputTile];  // after the transform along columns: [point][row]
#pragma unroll
    for (int j = 0; j < kAxisPoints; ++j) {
        float points[kAxisPoints];
#pragma unroll
        for (int i = 0; i < kAxisPoints; ++i) {
            points[i] = source[(i * kAxisPoints + j) * kPointStride];
        }
        transform(points, column_transform[j]);
    }
    const int image = tile / (kTilesDown * kTilesAcross), tile_in_image = tile % (kTilesDown * kTilesAcross);
    const int row = tile_in_image / kTilesAcross * kOutputTile, column = tile_in_image % kTilesAcross * kOutputTile;
    float* target = dx + (static_cast<size_t>(image) * kResultChannels + channel) * (kRows * kColumns) +
                    row * kColumns + column;
    const int power = -pixel_powers[image] - *filter_power;
#pragma unroll
    for (int i = 0; i < kOutputTile; ++i) {
        if (row + i >= kRows) {
            break;
        }
        float points[kAxisPoints], results[kOutputTile];
#pragma unroll
        for (int j = 0; j < kAxisPoints; ++j) {
            points[j] = column_transform[j][i];
        }
        transform(points, results);
#pragma unroll
        for (int j = 0; j < kOutputTile; ++j) {
            results[j] = scaled(results[j], power);
        }
#pragma unroll
        for (int j = 0; j < kOutputTile; j += 2) {
            if (column + j < kColumns) {
                *reinterpret_cast<float2*>(target + i * kColumns + j) = make_float2(results[j], results[j + 1]);
            }
        }
    }
}
