// warpsmith conv2d_direct
// problem: conv2d pass=wgrad input=32x192x28x28 weight=192x1x7x7 precision=ieee dtype=bfloat16 padding=3x3 groups=192 layout=nhwc
// config:  channels=1 columns=1 filters=1 tap_columns=7 tap_rows=1 threads=256 unroll=1
//
// A block computes kBlockFilters filters by kBlockChannels channels by kTapRows x kTapColumns taps. Its threads add up
// these weights over every kThreads-th run of positions of y, in registers, and then each other's sums.

constexpr int kGroups = 192;
constexpr int kChannels = 1;  // of x, in a group
constexpr int kRows = 28;  // of an image of x
constexpr int kColumns = 28;
constexpr int kFilters = 1;  // and so channels of y, in a group
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 7;
constexpr int kOutputRows = 28;  // of an image of y
constexpr int kOutputColumns = 28;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kAbove = 3;  // rows of zeros
constexpr int kLeft = 3;

constexpr int kBlockFilters = 1;  // that use a pixel once it is read
constexpr int kBlockChannels = 1;
constexpr int kTapRows = 1;
constexpr int kTapColumns = 7;
constexpr int kFilterBlocks = 1;
constexpr int kChannelBlocks = 1;
constexpr int kRun = 1;  // positions side by side
constexpr int kRunsPerRow = kOutputColumns / kRun;
constexpr unsigned kRuns = 25088;  // in all images
constexpr int kWindow = 7;  // columns of x from the first tap of a run's first position to the last of its last
constexpr int kPixel = kGroups * kChannels;  // elements of x from one pixel to the next
constexpr int kOutputPixel = kGroups * kFilters;  // and of y
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSums = kBlockFilters * kBlockChannels * kTapRows * kTapColumns;

// Of a thread, and with all threads' added up those of the block.
struct Sums {
    float of[kBlockFilters][kBlockChannels][kTapRows][kTapColumns];
};

using Element = unsigned short;  // the bits of a bfloat16

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// To the nearest, ties to even; a NaN stays one.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
}

__device__ __forceinline__ float load(const Element* from) { return bfloat_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_bfloat(value); }

// The sum over a warp's lanes, in every lane; always in the same order, so that the same inputs give the same bits.
__device__ __forceinline__ float warp_sum(float sum) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    }
    return sum;
}

// A pixel of one channel of x; zero in the padding.
__device__ __forceinline__ float pixel_at(const Element* channel, int row, int column) {
    if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
        return 0.0f;
    }
    return load(channel + (row * kColumns + column) * kPixel);
}

// Adds what one run has to a thread's sums. `x` and `dy` point to the run's image and the block's group; `r` and `s`
// are the first taps of the block.
__device__ __forceinline__ void accumulate(const Element* x, const Element* dy, int first_filter, int first_channel, int p,
                                           int q, int r, int s, Sums& sums) {
    float gradients[kBlockFilters][kRun];
#pragma unroll
    for (int f = 0; f < kBlockFilters; ++f) {
        const Element* plane = dy + first_filter + f;
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
            gradients[f][j] = load(plane + (p * kOutputColumns + q + j) * kOutputPixel);
        }
    }
#pragma unroll
    for (int c = 0; c < kBlockChannels; ++c) {
        const Element* plane = x + first_channel + c;
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
conv2d_direct(const Element* __restrict__ x, const Element* __restrict__ dy, Element* __restrict__ dw) {
    int block = blockIdx.x;
    // Blocks of other taps come first: they read the same pixels.
    const int r = block % 7 / 1 * kTapRows;
    const int s = block % 7 % 1 * kTapColumns;
    block /= 7;
    const int first_channel = block % kChannelBlocks * kBlockChannels;
    block /= kChannelBlocks;
    const int first_filter = block % kFilterBlocks * kBlockFilters;
    const int group = block / kFilterBlocks;

    Sums sums = {};
#pragma unroll 1
    for (unsigned run = threadIdx.x; run < kRuns; run += kThreads) {
        const int q = run % kRunsPerRow * kRun;
        const int p = run / kRunsPerRow % kOutputRows;
        const int image = run / (kRunsPerRow * kOutputRows);
        accumulate(x + image * (kRows * kColumns * kPixel) + group * kChannels,
                   dy + image * (kOutputRows * kOutputColumns * kOutputPixel) + group * kFilters, first_filter,
                   first_channel, p, q, r, s, sums);
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
        dw[(((group * kFilters + filter) * kFilterRows + row) * kFilterColumns + column) * kChannels + channel] = rounded(sum);
    }
}
