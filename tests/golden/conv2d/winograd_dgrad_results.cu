// warpsmith conv2d_winograd
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Products of each point transformed back to tiles of dx.
constexpr int kThreads = 128;  // a tile each
constexpr int kTile = 2;  // results along an axis
constexpr int kWindow = 4;  // and points
constexpr int kResults = 64;  // channels of dx
constexpr int kRows = 56;
constexpr int kColumns = 56;
constexpr int kTilesDown = 28;
constexpr int kTilesAcross = 28;
constexpr int kTiles = 32 * kTilesDown * kTilesAcross;
constexpr int kBlocks = 196;  // of a channel
constexpr size_t kPointLength = kResults * static_cast<size_t>(kTiles);

// One dimension of A^T M A.
__device__ __forceinline__ void transform(const float (&d)[4], float (&v)[2]) {
    v[0] = 2.0f * d[0] + 4.0f * d[1] + 4.0f * d[2];
    v[1] = 4.0f * d[1] - 4.0f * d[2] + 2.0f * d[3];
}

// A sum times two to a power that may be beyond a float's.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_results(const float* __restrict__ products, const int* __restrict__ pixel_powers, const int* __restrict__ filter_power, float* __restrict__ dx) {
    const int channel = blockIdx.x / kBlocks;
    const int tile = blockIdx.x % kBlocks * kThreads + threadIdx.x;
    if (tile >= kTiles) {
        return;
    }
    const float* source = products + channel * static_cast<size_t>(kTiles) + tile;
    float half_way[kWindow][kTile];  // transformed along columns: [point][row]
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
        float points[kWindow];
#pragma unroll
        for (int i = 0; i < kWindow; ++i) {
            points[i] = source[(i * kWindow + j) * kPointLength];
        }
        transform(points, half_way[j]);
    }
    const int image = tile / (kTilesDown * kTilesAcross), place = tile % (kTilesDown * kTilesAcross);
    const int row = place / kTilesAcross * kTile, column = place % kTilesAcross * kTile;
    float* target = dx + (static_cast<size_t>(image) * kResults + channel) * (kRows * kColumns) +
                    row * kColumns + column;
    const int power = -pixel_powers[image] - *filter_power;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
        if (row + i >= kRows) {
            break;
        }
        float points[kWindow], results[kTile];
#pragma unroll
        for (int j = 0; j < kWindow; ++j) {
            points[j] = half_way[j][i];
        }
        transform(points, results);
#pragma unroll
        for (int j = 0; j < kTile; ++j) {
            results[j] = scaled(results[j], power);
        }
#pragma unroll
        for (int j = 0; j < kTile; j += 2) {
            if (column + j < kColumns) {
                *reinterpret_cast<float2*>(target + i * kColumns + j) = make_float2(results[j], results[j + 1]);
            }
        }
    }
}
