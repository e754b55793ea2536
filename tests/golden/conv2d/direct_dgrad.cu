// warpsmith conv2d_direct
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  block_columns=16 block_filters=1 block_rows=16 channels=2 columns=4 filters=8 min_blocks=0 pixels=global
//          rows=1 spacing=apart weights=shared
//
// Direct convolution: a thread accumulates kThreadFilters channels by kThreadRows x kThreadColumns pixels of dx in
// registers, over all channels of dy and all taps. It reads pixels from global memory and weights from
// shared memory, where a thread's filters are contiguous. Two barriers per mainloop iteration guard shared memory.

constexpr int kSourceChannels = 64;  // channels of dy
constexpr int kSourceRows = 56;
constexpr int kSourceColumns = 56;
constexpr int kResultChannels = 64;  // channels of dx
constexpr int kResultRows = 56;
constexpr int kResultColumns = 56;
constexpr int kFilterColumns = 3;
constexpr int kWeightsPerResult = 9;  // stride of w between channels of dx, in elements
constexpr int kWeightsPerSource = 576;  // stride of w between channels of dy

constexpr int kThreadFilters = 8;  // channels of dx per thread, which reuse each pixel
constexpr int kThreadRows = 1;  // pixels of dx per thread
constexpr int kThreadColumns = 4;
constexpr int kLoopChannels = 2;  // channels of dy per mainloop iteration
constexpr int kBlockColumns = 16;  // threads of a block along columns
constexpr int kBlockRows = 16;  // threads along rows
constexpr int kColumnStep = kBlockColumns;  // distance between a thread's columns, so that loads and stores coalesce
constexpr int kThreads = 256;
constexpr int kBlockFilters = 1 * kThreadFilters;  // channels of dx per block
constexpr int kFilterBlocks = 8;
constexpr int kColumnBlocks = 1;
constexpr int kRowBlocks = 4;
constexpr int kMaxTaps = 9;  // largest number of taps of any phase

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
    {3, 2, -1, -1, 1, 3},
};
constexpr Taps kColumnTaps[kColumnPhases] = {
    {3, 2, -1, -1, 1, 3},
};

// Loads a pixel of one channel of dy; returns 0 outside the image.
__device__ __forceinline__ float pixel_at(const float* channel, int row, int column) {
    if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
        return 0.0f;
    }
    return __ldg(channel + row * kSourceColumns + column);
}

// Copies the block's weights for one phase and kLoopChannels source channels from `first` on to shared memory as
// [channel][tap][filter]. Filters are innermost, so that a thread loads several of its filters in one vector.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void stage_weights(const float* w, int first, int block_filter, float* filters) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    constexpr int kTaps = rows.count * columns.count;
    const int thread = (threadIdx.z * kBlockRows + threadIdx.y) * kBlockColumns + threadIdx.x;
    for (int i = thread; i < kLoopChannels * kTaps * kBlockFilters; i += kThreads) {
        const int c = i / (kTaps * kBlockFilters), t = i / (columns.count * kBlockFilters) % rows.count;
        const int u = i / kBlockFilters % columns.count;
        const int filter = block_filter + i % kBlockFilters;
        const int tap = (rows.first + t * rows.step) * kFilterColumns + columns.first + u * columns.step;
        filters[i] = __ldg(w + filter * kWeightsPerResult + (first + c) * kWeightsPerSource + tap);
    }
}

// Accumulates one source channel. `row` and `column` are where the thread's window begins in the image.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void accumulate(const float* channel, int row, int column,
                                           const float* weights,
                                           float (&sums)[kThreadFilters][kThreadRows][kThreadColumns]) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    constexpr int kWindowRows = kRowStride * (kThreadRows - 1) + rows.span;
#pragma unroll
    for (int window_row = 0; window_row < kWindowRows; ++window_row) {
        float pixels[kThreadColumns][columns.count];
#pragma unroll
        for (int j = 0; j < kThreadColumns; ++j) {
#pragma unroll
            for (int u = 0; u < columns.count; ++u) {
                const int offset = kColumnStride * kColumnStep * j + u * columns.spread;
                pixels[j][u] = pixel_at(channel, row + window_row, column + offset);
            }
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
                    const float weight = weights[(t * columns.count + u) * kBlockFilters + f];
#pragma unroll
                    for (int j = 0; j < kThreadColumns; ++j) {
                        sums[f][i][j] = fmaf(weight, pixels[j][u], sums[f][i][j]);
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
                                         float* filters,
                                         int block_filter, int block_row, int block_column) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    const int filter = block_filter + threadIdx.z * kThreadFilters;
    const int row = block_row + threadIdx.y * kThreadRows;
    const int column = block_column + threadIdx.x;
    const bool has_results = filter < kResultChannels && row * kRowPhases + kRowPhase < kResultRows &&
                             column * kColumnPhases + kColumnPhase < kResultColumns;
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
            __syncthreads();  // all threads have read the previous channels
            stage_weights<kRowPhase, kColumnPhase>(w, first, block_filter, filters);
            __syncthreads();
            if (!has_results) {
                continue;
            }
#pragma unroll
            for (int c = 0; c < kLoopChannels; ++c) {
                accumulate<kRowPhase, kColumnPhase>(
                    source + (first + c) * (kSourceRows * kSourceColumns), kRowStride * row + rows.low,
                    kColumnStride * column + columns.low,
                    filters + c * (rows.count * columns.count * kBlockFilters) + threadIdx.z * kThreadFilters,
                    sums);
            }
        }
    }
    if (!has_results) {
        return;
    }
#pragma unroll
    for (int f = 0; f < kThreadFilters; ++f) {
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
            for (int j = 0; j < kThreadColumns; ++j) {
                const int result_row = (row + i) * kRowPhases + kRowPhase;
                const int result_column = (column + j * kColumnStep) * kColumnPhases + kColumnPhase;
                if (result_column >= kResultColumns) {
                    continue;
                }
                const int index = ((filter + f) * kResultRows + result_row) * kResultColumns + result_column;
                result[index] = sums[f][i][j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_direct(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx) {
    __shared__ __align__(16) float filters[kLoopChannels * kMaxTaps * kBlockFilters];
    int block = blockIdx.x;
    const int block_filter = block % kFilterBlocks * kBlockFilters;  // fastest: these blocks share pixels in L2
    block /= kFilterBlocks;
    const int block_column = block % kColumnBlocks * (kBlockColumns * kThreadColumns);
    block /= kColumnBlocks;
    const int block_row = block % kRowBlocks * (kBlockRows * kThreadRows);
    block /= kRowBlocks;  // now image * kGroups + group
    const float* source = dy + block * (kSourceChannels * kSourceRows * kSourceColumns);
    float* target = dx + block * (kResultChannels * kResultRows * kResultColumns);
    const float* weights = w;
    convolve<0, 0>(source, weights, target, filters, block_filter, block_row, block_column);
}
