// warpsmith conv2d_direct
// problem: conv2d pass=wgrad input=128x3x227x227 weight=96x3x11x11 precision=ieee stride=4x4
// config:  channels=1 columns=1 filters=4 tap_columns=11 tap_rows=1 threads=128 unroll=1
//
// A block computes kBlockFilters filters by kBlockChannels channels by kTapRows x kTapColumns taps. Its threads add up
// these weights over every kThreads-th run of positions of y, in registers, and then each other's sums.

constexpr int kGroups = 1;
constexpr int kChannels = 3;  // of x
constexpr int kRows = 227;  // of an image of x
constexpr int kColumns = 227;
constexpr int kFilters = 96;  // and so channels of y
constexpr int kFilterRows = 11;
constexpr int kFilterColumns = 11;
constexpr int kOutputRows = 55;  // of an image of y
constexpr int kOutputColumns = 55;
constexpr int kStrideRows = 4;
constexpr int kStrideColumns = 4;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kAbove = 0;  // rows of zeros
constexpr int kLeft = 0;

constexpr int kBlockFilters = 4;  // that use a pixel once it is read
constexpr int kBlockChannels = 1;
constexpr int kTapRows = 1;
constexpr int kTapColumns = 11;
constexpr int kFilterBlocks = 24;
constexpr int kChannelBlocks = 3;
constexpr int kRun = 1;  // positions side by side
constexpr int kRunsPerRow = kOutputColumns / kRun;
constexpr unsigned kRuns = 387200;  // in all images
constexpr int kWindow = 11;  // columns of x from the first tap of a run's first position to the last of its last
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kSums = kBlockFilters * kBlockChannels * kTapRows * kTapColumns;

// Of a thread, and with all threads' added up those of the block.
struct Sums {
    float of[kBlockFilters][kBlockChannels][kTapRows][kTapColumns];
};

// The sum over a warp's lanes, in every lane; always in the same order, so that the same inputs give the same bits.
__device__ __forceinline__ float warp_sum(float sum) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    }
    return sum;
}

// A pixel of one channel of x.
__device__ __forceinline__ float pixel_at(const float* channel, int row, int column) {
    return __ldg(channel + row * kColumns + column);
}

// Adds what one run has to a thread's sums. `x` and `dy` point to the run's image and the block's group; `r` and `s`
// are the first taps of the block.
__device__ __forceinline__ void accumulate(const float* x, const float* dy, int first_filter, int first_channel, int p,
                                           int q, int r, int s, Sums& sums) {
    float gradients[kBlockFilters][kRun];
#pragma unroll
    for (int f = 0; f < kBlockFilters; ++f) {
        const float* plane = dy + (first_filter + f) * (kOutputRows * kOutputColumns);
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
            gradients[f][j] = __ldg(plane + p * kOutputColumns + q + j);
        }
    }
#pragma unroll
    for (int c = 0; c < kBlockChannels; ++c) {
        const float* plane = x + (first_channel + c) * (kRows * kColumns);
#pragma unroll
        for (int t = 0; t < kTapRows; ++t) {
            const int row = p * kStrideRows + (r + t) * kDilationRows - kAbove;
            const int column = q * kStrideColumns + s * kDilationColumns - kLeft;
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
                    for (int j = 0; j < kRun; ++j) {
                        sums.of[f][c][t][u] = fmaf(gradients[f][j], pixels[j * kStrideColumns + u * kDilationColumns],
                                                   sums.of[f][c][t][u]);
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_direct(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    int block = blockIdx.x;
    // Blocks of other taps come first: they read the same pixels.
    const int r = block % 11 / 1 * kTapRows;
    const int s = block % 11 % 1 * kTapColumns;
    block /= 11;
    const int first_channel = block % kChannelBlocks * kBlockChannels;
    block /= kChannelBlocks;
    const int first_filter = block % kFilterBlocks * kBlockFilters;
    const int group = block / kFilterBlocks;

    Sums sums = {};
#pragma unroll 1
    for (unsigned run = threadIdx.x; run < kRuns; run += kThreads) {
        const int q = run % kRunsPerRow * kRun;
        const int p = run / kRunsPerRow % kOutputRows;
        const int planes = run / (kRunsPerRow * kOutputRows) * kGroups + group;  // groups before this one
        accumulate(x + planes * kChannels * (kRows * kColumns), dy + planes * kFilters * (kOutputRows * kOutputColumns),
                   first_filter, first_channel, p, q, r, s, sums);
    }

    // Threads, then lanes, then warps: the error grows with the terms of one thread, not with all of them.
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
                    const float sum = warp_sum(sums.of[f][c][t][u]);
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
        for (int other = 1; other < kWarps; ++other) {
            sum += partial[other][i];
        }
        dw[(((group * kFilters + filter) * kChannels + channel) * kFilterRows + row) * kFilterColumns + column] = sum;
    }
}
