// warpsmith conv2d_winograd
// problem: conv2d pass=wgrad input=64x512x28x28 weight=512x512x3x3 precision=ieee padding=1x1
//
// Winograd wgrad F(3x3, 2x2), output transform A^T M A. Each thread computes the 3x3 taps of one filter and channel: it
// sums the split-K partial products of each point in a fixed order, transforms them and removes the power-of-two
// scales. A block computes kTileFilters x kTileChannels such pairs and stages the weights in shared memory for
// contiguous stores. Layout of the partial products: [split][point][channel][filter].
constexpr int kTileFilters = 32;  // filters and channels per block
constexpr int kTileChannels = 8;
constexpr int kThreads = kTileFilters * kTileChannels;
constexpr int kAxisPoints = 4;  // points along an axis
constexpr int kSplits = 2;
constexpr int kChannels = 512;
constexpr int kFilters = 512;
constexpr int kTilesAcross = 16;
constexpr size_t kPointStride = static_cast<size_t>(kChannels) * kFilters;
constexpr size_t kSplitStride = kAxisPoints * kAxisPoints * kPointStride;

// A^T M A along one dimension.
__device__ __forceinline__ void transform(const float (&d)[4], float (&v)[3]) {
    v[0] = 2.0f * d[0] + 2.0f * d[1] + 2.0f * d[2];
    v[1] = 2.0f * d[1] - 2.0f * d[2];
    v[2] = 2.0f * d[1] + 2.0f * d[2] + 2.0f * d[3];
}

// sum * 2^power; the power may lie beyond the range of a float, so it is applied in two factors.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_sum(const float* __restrict__ partials, const int* __restrict__ x_power,
                    const int* __restrict__ dy_power, float* __restrict__ dw) {
    __shared__ float weights[kTileFilters][kTileChannels * 9 + 1];  // + 1 float avoids bank conflicts
    const int power = -*x_power - *dy_power;
    const int first_filter = blockIdx.x % kTilesAcross * kTileFilters;
    const int first_channel = blockIdx.x / kTilesAcross * kTileChannels;
    const int own_filter = threadIdx.x % kTileFilters, own_channel = threadIdx.x / kTileFilters;
    if (first_filter + own_filter < kFilters && first_channel + own_channel < kChannels) {
        const float* source = partials + (first_channel + own_channel) * static_cast<size_t>(kFilters) +
                              first_filter + own_filter;
        float column_transform[kAxisPoints][3];  // after the transform along columns: [point][row]
#pragma unroll
        for (int j = 0; j < kAxisPoints; ++j) {
            float points[kAxisPoints];
#pragma unroll
            for (int i = 0; i < kAxisPoints; ++i) {
                points[i] = 0.0f;
            }
            for (int split = 0; split < kSplits; ++split) {
#pragma unroll
                for (int i = 0; i < kAxisPoints; ++i) {
                    points[i] += source[split * kSplitStride + (i * kAxisPoints + j) * kPointStride];
                }
            }
            transform(points, column_transform[j]);
        }
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            float points[kAxisPoints], taps[3];
#pragma unroll
            for (int j = 0; j < kAxisPoints; ++j) {
                points[j] = column_transform[j][r];
            }
            transform(points, taps);
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                weights[own_filter][9 * own_channel + 3 * r + s] = scaled(taps[s], power);
            }
        }
    }
    __syncthreads();
    // Consecutive threads store consecutive weights of a filter.
    const int count = 9 * min(kTileChannels, kChannels - first_channel);
    for (int i = threadIdx.x; i < kTileFilters * kTileChannels * 9; i += kThreads) {
        const int filter = i / (kTileChannels * 9), weight = i % (kTileChannels * 9);
        if (first_filter + filter < kFilters && weight < count) {
            const size_t first = (first_filter + filter) * static_cast<size_t>(kChannels) + first_channel;
            dw[first * 9 + weight] = weights[filter][weight];
        }
    }
}
