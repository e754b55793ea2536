// warpsmith conv2d_warpgroup
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Split-K reduction of wgrad: adds the partial sums in a fixed order, scales them back and transposes them to
// the layout of dw through shared memory.
constexpr int kThreads = 256;
constexpr int kSplits = 32;
constexpr int kGroups = 1;
constexpr int kChannels = 64;
constexpr int kFilters = 64;
constexpr int kTaps = 9;
constexpr size_t kWeights = 36864;
constexpr int kTileFilters = 32;  // filters per block
constexpr int kTileChannels = 1;
constexpr int kTileWeights = kTileChannels * kTaps;  // weights per filter and block, side by side in dw
constexpr int kFilterTiles = 2;  // tiles of filters per group
constexpr int kChannelTiles = 64;

// sum * 2^power; the power may lie beyond the range of a float, so it is applied in two factors.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_sum(const float* __restrict__ parts, const int* __restrict__ x_power, const int* __restrict__ dy_power,
                     float* __restrict__ dw) {
    __shared__ float sums[kTileFilters][kTileWeights + 1];  // padded against bank conflicts
    const int power = -*x_power - *dy_power;
    int tile = blockIdx.x;
    const int first_filter = tile % kFilterTiles * kTileFilters;
    tile /= kFilterTiles;
    const int first_channel = tile % kChannelTiles * kTileChannels, group = tile / kChannelTiles;
    const int channels = min(kTileChannels, kChannels - first_channel);
    for (int i = threadIdx.x; i < kTileFilters * kTileWeights; i += kThreads) {
        const int filter = i % kTileFilters, channel = i / kTileFilters % kTileChannels;
        const int tap = i / (kTileFilters * kTileChannels);
        if (first_filter + filter < kFilters && channel < channels) {
            const size_t own = ((tap * kGroups + group) * kChannels + first_channel + channel) *
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
        if (first_filter + filter < kFilters && weight < channels * kTaps) {
            const size_t own =
                (group * kFilters + first_filter + filter) * static_cast<size_t>(kChannels) + first_channel;
            dw[own * kTaps + weight] = sums[filter][weight];
        }
    }
}
