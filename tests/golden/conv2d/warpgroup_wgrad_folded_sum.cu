// warpsmith conv2d_warpgroup
// problem: conv2d pass=wgrad input=128x3x227x227 weight=96x3x11x11 precision=ieee stride=4x4
//
// Adds up the parts of the sums, always in the same order, and scales them back.
constexpr int kThreads = 256;
constexpr int kSplits = 128;
constexpr int kChannels = 48;
constexpr int kFilters = 96;
constexpr int kTaps = 9;
constexpr int kFoldedRows = 4;  // that are channels
constexpr int kFoldedColumns = 4;
constexpr int kFolded = kFoldedRows * kFoldedColumns;  // those of one channel side by side
constexpr int kOwnRows = 11;  // of a filter that is not folded
constexpr int kOwnColumns = 11;
constexpr int kFilterColumns = 3;  // that are not
constexpr int kFilterStride = 363;  // elements of dw
constexpr int kChannelStride = 121;
constexpr int kRowStride = 11;
constexpr int kColumnStride = 1;
constexpr size_t kWeights = 41472;
constexpr int kTileFilters = 32;  // of a block
constexpr int kTileChannels = 1;
constexpr int kTileWeights = kTileChannels * kTaps;  // of a filter, side by side in memory
constexpr int kTilesAcross = 3;  // of a group
constexpr int kTilesDown = 48;

// A sum times two to a power that may be beyond a float's.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}
// The row and the column of a filter that are a folded channel's tap.
__device__ __forceinline__ int filter_row(int channel, int tap) {
    return tap / kFilterColumns * kFoldedRows + channel / kFoldedColumns % kFoldedRows;
}

__device__ __forceinline__ int filter_column(int channel, int tap) {
    return tap % kFilterColumns * kFoldedColumns + channel % kFoldedColumns;
}

__device__ __forceinline__ bool is_weight(int channel, int tap) {
    return filter_row(channel, tap) < kOwnRows && filter_column(channel, tap) < kOwnColumns;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_sum(const float* __restrict__ parts, const int* __restrict__ x_power, const int* __restrict__ dy_power,
                     float* __restrict__ dw) {
    __shared__ float sums[kTileFilters][kTileWeights + 1];  // one more, so that a column lies in different banks
    const int power = -*x_power - *dy_power;
    int tile = blockIdx.x;
    const int first_filter = tile % kTilesAcross * kTileFilters;
    tile /= kTilesAcross;
    const int first_channel = tile % kTilesDown * kTileChannels;
    const int channels = min(kTileChannels, kChannels - first_channel);
    for (int i = threadIdx.x; i < kTileFilters * kTileWeights; i += kThreads) {
        const int filter = i % kTileFilters, channel = i / kTileFilters % kTileChannels;
        const int tap = i / (kTileFilters * kTileChannels);
        if (first_filter + filter < kFilters && channel < channels) {
            const size_t own = (tap * kChannels + first_channel + channel) *
                               static_cast<size_t>(kFilters) + first_filter + filter;
            float sum = 0.0f;
#pragma unroll 8
            for (int split = 0; split < kSplits; ++split) {
                sum += parts[split * kWeights + own];
            }
            sums[filter][channel * kTaps + tap] = scaled(sum, power);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kTileFilters * kTileWeights; i += kThreads) {
        const int filter = i / kTileWeights, weight = i % kTileWeights;
        const int channel = first_channel + weight / kTaps, tap = weight % kTaps;
        if (first_filter + filter < kFilters && weight < channels * kTaps && is_weight(channel, tap)) {
            dw[(first_filter + filter) * kFilterStride + channel / kFolded * kChannelStride +
               filter_row(channel, tap) * kRowStride + filter_column(channel, tap) * kColumnStride] = sums[filter][weight];
        }
    }
}
