// warpsmith conv2d_direct
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  channels=1 columns=1 filters=4 tap_columns=3 tap_rows=3 threads=256 unroll=1
//
// A block computes kBlockFilters filters by kBlockChannels channels by kTapRows x kTapColumns taps of dw. Each thread
// accumulates all of them in registers over every kThreads-th strip of kStripColumns adjacent pixels of y, the K
// dimension of the implicit GEMM. Warp shuffles and shared memory then reduce the threads' accumulators.

constexpr int kGroups = 1;
constexpr int kChannels = 64;  // C: channels of x
constexpr int kRows = 56;  // H, W: size of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 64;  // K: filters, the channels of y
constexpr int kFilterRows = 3;  // R, S: taps of a filter
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // P, Q: size of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kPadTop = 1;  // rows of zero padding above an image of x
constexpr int kPadLeft = 1;

constexpr int kBlockFilters = 4;  // filters per block, which reuse each pixel
constexpr int kBlockChannels = 1;
constexpr int kTapRows = 3;  // taps per block
constexpr int kTapColumns = 3;
constexpr int kFilterBlocks = 16;
constexpr int kChannelBlocks = 64;
constexpr int kStripColumns = 1;  // adjacent pixels of y that a thread loads at once
constexpr int kStripsPerRow = kOutputColumns / kStripColumns;
constexpr unsigned kStrips = 100352;  // strips of all images
constexpr int kWindow = 3;  // columns of x from the first pixel's first tap to the last pixel's last tap
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSums = kBlockFilters * kBlockChannels * kTapRows * kTapColumns;

// One thread's accumulators, one for each weight of the block.
struct Accumulators {
    float weight[kBlockFilters][kBlockChannels][kTapRows][kTapColumns];
};

// Sum over a warp's 32 lanes, returned in every lane. The order is fixed, so equal inputs give equal bits.
__device__ __forceinline__ float warp_sum(float sum) {
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lane_mask);
    }
    return sum;
}

// Loads a pixel of one channel of x; returns 0 in the padding.
__device__ __forceinline__ float pixel_at(const float* channel, int row, int column) {
    if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
        return 0.0f;
    }
    return __ldg(channel + row * kColumns + column);
}

// Accumulates one strip, which begins at pixel (p, q) of y. `x` and `dy` point to the strip's image and the block's
// group; (r, s) is the block's first tap.
__device__ __forceinline__ void accumulate(const float* x, const float* dy, int first_filter,
                                           int first_channel, int p, int q, int r, int s, Accumulators& sums) {
    float gradients[kBlockFilters][kStripColumns];
#pragma unroll
    for (int f = 0; f < kBlockFilters; ++f) {
        const float* plane = dy + (first_filter + f) * (kOutputRows * kOutputColumns);
#pragma unroll
        for (int j = 0; j < kStripColumns; ++j) {
            gradients[f][j] = __ldg(plane + p * kOutputColumns + q + j);
        }
    }
#pragma unroll
    for (int c = 0; c < kBlockChannels; ++c) {
        const float* plane = x + (first_channel + c) * (kRows * kColumns);
#pragma unroll
        for (int t = 0; t < kTapRows; ++t) {
            const int row = p * kStrideRows + (r + t) * kDilationRows - kPadTop;
            const int column = q * kStrideColumns + s * kDilationColumns - kPadLeft;
            float pixels[kWindow];
#pragma unroll
            for (int i = 0; i < kWindow; ++i) {
                pixels[i] = pixel_at(plane, row, column + i);
            }
#pragma unroll
            for (int f = 0; f < kBlockFilters; ++f) {
#pragma unroll
                for (int u = 0; u < kTapColumns; ++u) {
#pragma unroll
                    for (int j = 0; j < kStripColumns; ++j) {
                        sums.weight[f][c][t][u] =
                            fmaf(gradients[f][j], pixels[j * kStrideColumns + u * kDilationColumns],
                                 sums.weight[f][c][t][u]);
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_direct(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    int block = blockIdx.x;
    const int r = 0, s = 0;
    const int first_channel = block % kChannelBlocks * kBlockChannels;
    block /= kChannelBlocks;
    const int first_filter = block % kFilterBlocks * kBlockFilters;
    const int group = block / kFilterBlocks;

    Accumulators sums = {};
#pragma unroll 1
    for (unsigned strip = threadIdx.x; strip < kStrips; strip += kThreads) {
        const int q = strip % kStripsPerRow * kStripColumns;
        const int p = strip / kStripsPerRow % kOutputRows;
        const int image_group = strip / (kStripsPerRow * kOutputRows) * kGroups + group;
        accumulate(x + image_group * kChannels * (kRows * kColumns),
                   dy + image_group * kFilters * (kOutputRows * kOutputColumns), first_filter,
                   first_channel, p, q, r, s, sums);
    }

    // Reduces lanes, then warps: the rounding error grows with the terms of one thread, not with all terms.
    __shared__ float partial[kWarps][kSums];
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int f = 0; f < kBlockFilters; ++f) {
#pragma unroll
        for (int c = 0; c < kBlockChannels; ++c) {
#pragma unroll
            for (int t = 0; t < kTapRows; ++t) {
#pragma unroll
                for (int u = 0; u < kTapColumns; ++u) {
                    const float sum = warp_sum(sums.weight[f][c][t][u]);
                    if (threadIdx.x % 32 == 0) {
                        partial[warp][((f * kBlockChannels + c) * kTapRows + t) * kTapColumns + u] = sum;
                    }
                }
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kSums; i += kThreads) {
        const int column = s + i % kTapColumns;
        const int row = r + i / kTapColumns % kTapRows;
        const int channel = first_channel + i / (kTapColumns * kTapRows) % kBlockChannels;
        const int filter = first_filter + i / (kTapColumns * kTapRows * kBlockChannels);
        float sum = partial[0][i];
#pragma unroll
        for (int other_warp = 1; other_warp < kWarps; ++other_warp) {
            sum += partial[other_warp][i];
        }
        dw[(((group * kFilters + filter) * kChannels + channel) * kFilterRows + row) * kFilterColumns + column] =
            sum;
    }
}
