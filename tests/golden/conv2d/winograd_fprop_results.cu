// warpsmith conv2d_winograd
// problem: conv2d pass=fprop input=64x1024x12x12 weight=1024x1024x3x3 precision=ieee padding=1x1 bias=yes relu=yes
//
// Products of each point transformed back to tiles of y.
constexpr int kThreads = 128;  // a tile each
constexpr int kTile = 4;  // results along an axis
constexpr int kWindow = 6;  // and points
constexpr int kResults = 1024;  // channels of y
constexpr int kRows = 12;
constexpr int kColumns = 12;
constexpr int kTilesDown = 3;
constexpr int kTilesAcross = 3;
constexpr int kTiles = 64 * kTilesDown * kTilesAcross;
constexpr int kBlocks = 5;  // of a channel
constexpr size_t kPointLength = kResults * static_cast<size_t>(kTiles);

// One dimension of A^T M A.
__device__ __forceinline__ void transform(const float (&d)[6], float (&v)[4]) {
    v[0] = 8.0f * d[0] + 16.0f * d[1] + 16.0f * d[2] + 4.0f * d[3] + 4.0f * d[4];
    v[1] = 12.0f * d[1] - 12.0f * d[2] + 6.0f * d[3] - 6.0f * d[4];
    v[2] = 9.0f * d[1] + 9.0f * d[2] + 9.0f * d[3] + 9.0f * d[4];
    v[3] = 6.75f * d[1] - 6.75f * d[2] + 13.5f * d[3] - 13.5f * d[4] + 8.0f * d[5];
}

// A sum times two to a power that may be beyond a float's.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

// The ReLU of a NaN is a NaN, as in PyTorch; fmaxf would make it 0.
__device__ __forceinline__ float finished(float sum) { return sum < 0.0f ? 0.0f : sum; }

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_results(const float* __restrict__ products, const int* __restrict__ pixel_powers, const int* __restrict__ filter_power, const float* __restrict__ b, float* __restrict__ y) {
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
    float* target = y + (static_cast<size_t>(image) * kResults + channel) * (kRows * kColumns) +
                    row * kColumns + column;
    const int power = -pixel_powers[image] - *filter_power;
    const float bias = __ldg(b + channel);
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
            results[j] = finished(scaled(results[j], power) + bias);
        }
#pragma unroll
        for (int j = 0; j < kTile; j += 4) {
            if (column + j < kColumns) {
                *reinterpret_cast<float4*>(target + i * kColumns + j) =
                    make_float4(results[j], results[j + 1], results[j + 2], results[j + 3]);
            }
        }
    }
}
