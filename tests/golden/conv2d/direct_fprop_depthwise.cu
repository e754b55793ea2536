// warpsmith conv2d_direct
// problem: conv2d pass=fprop input=32x192x28x28 weight=192x1x7x7 precision=ieee padding=3x3 groups=192
// config:  block_columns=16 block_filters=1 block_rows=16 channels=1 columns=2 filters=1 min_blocks=2 pixels=global
//          rows=2 spacing=adjacent weights=global
//
// Direct convolution: a thread accumulates kThreadFilters channels by kThreadRows x kThreadColumns pixels of y in
// registers, over all channels of x and all taps. It reads pixels from global memory and weights from
// global memory.

constexpr int kGroups = 192;
constexpr int kSourceChannels = 1;  // channels of x per group
constexpr int kSourceRows = 28;
constexpr int kSourceColumns = 28;
constexpr int kResultChannels = 1;  // channels of y per group
constexpr int kResultRows = 28;
constexpr int kResultColumns = 28;
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 7;
constexpr int kWeightsPerResult = 49;  // stride of w between channels of y, in elements
constexpr int kWeightsPerSource = 49;  // stride of w between channels of x

constexpr int kThreadFilters = 1;  // channels of y per thread, which reuse each pixel
constexpr int kThreadRows = 2;  // pixels of y per thread
constexpr int kThreadColumns = 2;
constexpr int kLoopChannels = 1;  // channels of x per mainloop iteration
constexpr int kBlockColumns = 16;  // threads of a block along columns
constexpr int kBlockRows = 16;  // threads along rows
constexpr int kThreads = 256;
constexpr int kBlockFilters = 1 * kThreadFilters;  // channels of y per block
constexpr int kFilterBlocks = 1;
constexpr int kColumnBlocks = 1;
constexpr int kRowBlocks = 1;

constexpr int kRowPhases = 1;  // stride phases: row i of phase f is result row i * kRowPhases + f
constexpr int kColumnPhases = 1;
constexpr int kRowStride = 1;  // source rows from one row of a phase to the next
constexpr int kColumnStride = 1;

// The taps of one phase along one axis. For row i of the phase, tap t is filter row first + t * step and reads source
// row i * kRowStride + low + t * spread; span is the number of source rows from the first tap to the last.
struct Taps {
    int count, first, step, low, spread, span;
};
constexpr Taps kRowTaps[kRowPhases] = {
    {7, 0, 1, -3, 1, 7},
};
constexpr Taps kColumnTaps[kColumnPhases] = {
    {7, 0, 1, -3, 1, 7},
};

// Loads a pixel of one channel of x; returns 0 outside the image.
__device__ __forceinline__ float pixel_at(const float* channel, int row, int column) {
    if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
        return 0.0f;
    }
    return __ldg(channel + row * kSourceColumns + column);
}

// Accumulates one source channel. `row` and `column` are where the thread's window begins in the image.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void accumulate(const float* channel, int row, int column,
                                           const float* weights,
                                           float (&sums)[kThreadFilters][kThreadRows][kThreadColumns]) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    constexpr int kWindowRows = kRowStride * (kThreadRows - 1) + rows.span;
    constexpr int kWindowColumns = kColumnStride * (kThreadColumns - 1) + columns.span;
#pragma unroll
    for (int window_row = 0; window_row < kWindowRows; ++window_row) {
        float pixels[kWindowColumns];
#pragma unroll
        for (int i = 0; i < kWindowColumns; ++i) {
            pixels[i] = pixel_at(channel, row + window_row, column + i);
        }
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            const int offset = window_row - kRowStride * i;  // from the row that tap 0 reads for row i
            if (offset < 0 || offset >= rows.span || offset % rows.spread != 0) {
                continue;
            }
            const int t = offset / rows.spread;
#pragma unroll
            for (int u = 0; u < columns.count; ++u) {
#pragma unroll
                for (int f = 0; f < kThreadFilters; ++f) {
                    const int tap = (rows.first + t * rows.step) * kFilterColumns + columns.first + u * columns.step;
                    const float weight = __ldg(weights + f * kWeightsPerResult + tap);
#pragma unroll
                    for (int j = 0; j < kThreadColumns; ++j) {
                        sums[f][i][j] = fmaf(weight, pixels[kColumnStride * j + u * columns.spread], sums[f][i][j]);
                    }
                }
            }
        }
    }
}

// Computes the block's tile of one phase. All pointers are those of the block's image and group; `block_filter`,
// `block_row` and `block_column` are the tile's first channel, row and column within the phase.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void convolve(const float* source, const float* w,
                                         float* result,
                                         int block_filter, int block_row, int block_column) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    const int filter = block_filter + threadIdx.z * kThreadFilters;
    const int row = block_row + threadIdx.y * kThreadRows;
    const int column = block_column + threadIdx.x * kThreadColumns;
    const bool has_results = filter < kResultChannels && row * kRowPhases + kRowPhase < kResultRows &&
                             column * kColumnPhases + kColumnPhase < kResultColumns;
    if (!has_results) {
        return;
    }
    float sums[kThreadFilters][kThreadRows][kThreadColumns];
#pragma unroll
    for (int f = 0; f < kThreadFilters; ++f) {
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
            for (int j = 0; j < kThreadColumns; ++j) {
                sums[f][i][j] = 0.0f;
            }
        }
    }
    if constexpr (rows.count > 0 && columns.count > 0) {
#pragma unroll 1
        for (int first = 0; first < kSourceChannels; first += kLoopChannels) {
#pragma unroll
            for (int c = 0; c < kLoopChannels; ++c) {
                accumulate<kRowPhase, kColumnPhase>(
                    source + (first + c) * (kSourceRows * kSourceColumns), kRowStride * row + rows.low,
                    kColumnStride * column + columns.low,
                    w + filter * kWeightsPerResult + (first + c) * kWeightsPerSource,
                    sums);
            }
        }
    }
#pragma unroll
    for (int f = 0; f < kThreadFilters; ++f) {
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
            for (int j = 0; j < kThreadColumns; ++j) {
                const int result_row = (row + i) * kRowPhases + kRowPhase;
                const int result_column = (column + j) * kColumnPhases + kColumnPhase;
                const int index = ((filter + f) * kResultRows + result_row) * kResultColumns + result_column;
                result[index] = sums[f][i][j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 2)
conv2d_direct(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y) {
    int block = blockIdx.x;
    const int block_filter = block % kFilterBlocks * kBlockFilters;  // fastest: these blocks share pixels in L2
    block /= kFilterBlocks;
    const int block_column = block % kColumnBlocks * (kBlockColumns * kThreadColumns);
    block /= kColumnBlocks;
    const int block_row = block % kRowBlocks * (kBlockRows * kThreadRows);
    block /= kRowBlocks;  // now image * kGroups + group
    const float* source = x + block * (kSourceChannels * kSourceRows * kSourceColumns);
    float* target = y + block * (kResultChannels * kResultRows * kResultColumns);
    const float* weights =
        w + block % kGroups * (kResultChannels * kSourceChannels * kFilterRows * kFilterColumns);
    convolve<0, 0>(source, weights, target, block_filter, block_row, block_column);
}
