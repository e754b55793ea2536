// warpsmith conv2d_direct
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  channels=1 columns=4 filters=4 tap_columns=3 tap_rows=3 threads=256 unroll=2
//
// A block computes kBlockFilters filters by kBlockChannels channels by kTapRows x kTapColumns taps. Its threads add up
// these weights over every kThreads-th run of positions of y, in registers, and then each other's sums.

constexpr int kGroups = 1;
constexpr int kChannels = 64;  // of x
constexpr int kRows = 56;  // of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 64;  // and so channels of y
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kAbove = 1;  // rows of zeros
constexpr int kLeft = 1;

constexpr int kBlockFilters = 4;  // that use a pixel once it is read
constexpr int kBlockChannels = 1;
constexpr int kTapRows = 3;
constexpr int kTapColumns = 3;
constexpr int kFilterBlocks = 16;
constexpr int kChannelBlocks = 64;
constexpr int kRun = 4;  // positions side by side
constexpr int kRunsPerRow = kOutputColumns / kRun;
constexpr unsigned kRuns = 25088;  // in all images
constexpr int kWindow = 6;  // columns of x from the first tap of a run's first position to the last of its last
constexpr int kThreads = 256;
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

// A pixel of one channel of x; zero in the padding.
__device__ __forceinline__ float pixel_at(const float* channel, int row, int column) {
    if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
        return 0.0f;
    }
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
    const int r = 0, s = 0;
    const int first_channel = block % kChannelBlocks * kBlockChannels;
    block /= kChannelBlocks;
    const int first_filter = block % kFilterBlocks * kBlockFilters;
    const int group = block / kFilterBlocks;

    Sums sums = {};
#pragma unroll 2
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
