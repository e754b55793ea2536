// warpsmith conv2d_winograd
// problem: conv2d pass=wgrad input=64x512x28x28 weight=512x512x3x3 precision=ieee padding=1x1
//
// Adds up the parts of the sums of each point, always in the same order, and transforms them back to weights.
constexpr int kTileFilters = 32;  // of a block, a thread for each of them and each channel
constexpr int kTileChannels = 8;
constexpr int kThreads = kTileFilters * kTileChannels;
constexpr int kWindow = 4;  // points along an axis
constexpr int kSplits = 2;
constexpr int kChannels = 512;
constexpr int kFilters = 512;
constexpr int kTilesAcross = 16;
constexpr size_t kPointLength = static_cast<size_t>(kChannels) * kFilters;
constexpr size_t kSplitLength = kWindow * kWindow * kPointLength;

// One dimension of A^T M A.
__device__ __forceinline__ void transform(const float (&d)[4], float (&v)[3]) {
    v[0] = 2.0f * d[0] + 2.0f * d[1] + 2.0f * d[2];
    v[1] = 2.0f * d[1] - 2.0f * d[2];
    v[2] = 2.0f * d[1] + 2.0f * d[2] + 2.0f * d[3];
}

// A sum times two to a power that may be beyond a float's.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_winograd_sum(const float* __restrict__ parts, const int* __restrict__ x_power, const int* __restrict__ dy_power,
                    float* __restrict__ dw) {
    __shared__ float weights[kTileFilters][kTileChannels * 9 + 1];  // one more, so that a column lies in different banks
    const int power = -*x_power - *dy_power;
    const int first_filter = blockIdx.x % kTilesAcross * kTileFilters;
    const int first_channel = blockIdx.x / kTilesAcross * kTileChannels;
    const int own_filter = threadIdx.x % kTileFilters, own_channel = threadIdx.x / kTileFilters;
    if (first_filter + own_filter < kFilters && first_channel + own_channel < kChannels) {
        const float* source = parts + (first_channel + own_channel) * static_cast<size_t>(kFilters) +
                              first_filter + own_filter;
        float half_way[kWindow][3];  // transformed along columns: [point][row]
#pragma unroll
        for (int j = 0; j < kWindow; ++j) {
            float points[kWindow];
#pragma unroll
            for (int i = 0; i < kWindow; ++i) {
                points[i] = 0.0f;
            }
            for (int split = 0; split < kSplits; ++split) {
#pragma unroll
                for (int i = 0; i < kWindow; ++i) {
                    points[i] += source[split * kSplitLength + (i * kWindow + j) * kPointLength];
                }
            }
            transform(points, half_way[j]);
        }
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            float points[kWindow], taps[3];
#pragma unroll
            for (int j = 0; j < kWindow; ++j) {
                points[j] = half_way[j][r];
            }
            transform(points, taps);
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                weights[own_filter][9 * own_channel + 3 * r + s] = scaled(taps[s], power);
            }
        }
    }
    __syncthreads();
    // Neighbours write neighbouring weights: those of a filter lie side by side.
    const int count = 9 * min(kTileChannels, kChannels - first_channel);
    for (int i = threadIdx.x; i < kTileFilters * kTileChannels * 9; i += kThreads) {
        const int filter = i / (kTileChannels * 9), weight = i % (kTileChannels * 9);
        if (first_filter + filter < kFilters && weight < count) {
            const size_t first = (first_filter + filter) * static_cast<size_t>(kChannels) + first_channel;
            dw[first * 9 + weight] = weights[filter][weight];
        }
    }
}
