// warpsmith conv2d_direct
// problem: conv2d pass=dgrad input=32x192x28x28 weight=192x1x7x7 precision=ieee padding=3x3 groups=192
// config:  block_columns=16 block_filters=1 block_rows=16 channels=1 columns=2 filters=1 min_blocks=0 pixels=shared rows=2 spacing=apart weights=shared
//
// dx from sums over the channels and taps of dy: kThreadFilters channels by kThreadRows x kThreadColumns
// pixels of dx a thread, whose sums are in registers. Pixels come from a tile in shared memory,
// weights from shared memory, a thread's filters side by side.

constexpr int kGroups = 192;
constexpr int kSourceChannels = 1;  // of dy, in a group
constexpr int kSourceRows = 28;
constexpr int kSourceColumns = 28;
constexpr int kResultChannels = 1;  // of dx, in a group
constexpr int kResultRows = 28;
constexpr int kResultColumns = 28;
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 7;
constexpr int kWeightsPerResult = 49;  // elements of w from one channel of dx to the next
constexpr int kWeightsPerSource = 49;  // and of dy

constexpr int kThreadFilters = 1;  // channels of dx that use a pixel once it is read
constexpr int kThreadRows = 2;
constexpr int kThreadColumns = 2;
constexpr int kLoopChannels = 1;  // of dy, in each round of the loop
constexpr int kBlockColumns = 16;  // threads across a block
constexpr int kBlockRows = 16;  // and down
constexpr int kColumnStep = kBlockColumns;  // from one of a thread's columns to the next
constexpr int kThreads = 256;
constexpr int kBlockFilters = 1 * kThreadFilters;  // channels of dx that a block computes
constexpr int kFilterBlocks = 1;
constexpr int kColumnBlocks = 1;
constexpr int kRowBlocks = 1;
constexpr int kTileRows = 38;  // pixels of dy that a block reads
constexpr int kTileColumns = 38;
constexpr int kMostTaps = 49;

constexpr int kRowPhases = 1;  // row i of phase f is row i * kRowPhases + f of the result
constexpr int kColumnPhases = 1;
constexpr int kRowMultiple = 1;  // rows of the source from one row of a phase to the next
constexpr int kColumnMultiple = 1;

// The taps that touch a phase. For row i, tap t is row first + t * step of the filter, and reads row
// i * kRowMultiple + low + t * spread of the source; span counts the rows from the first tap's to the last one's.
struct Taps {
    int count, first, step, low, spread, span;
};
constexpr Taps kRowTaps[kRowPhases] = {
    {7, 6, -1, -3, 1, 7},
};
constexpr Taps kColumnTaps[kColumnPhases] = {
    {7, 6, -1, -3, 1, 7},
};

// A pixel of one channel of dy; zero outside of the image.
__device__ __forceinline__ float pixel_at(const float* channel, int row, int column) {
    if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
        return 0.0f;
    }
    return __ldg(channel + row * kSourceColumns + column);
}

// The window of a block in channels first, first + 1, ... of the source, which begins at `row` and `column`.
__device__ __forceinline__ void stage_pixels(const float* source, int first, int row, int column, float* tile) {
    const int thread = (threadIdx.z * kBlockRows + threadIdx.y) * kBlockColumns + threadIdx.x;
    for (int i = thread; i < kLoopChannels * kTileRows * kTileColumns; i += kThreads) {
        const int c = i / (kTileRows * kTileColumns);
        const float* channel = source + (first + c) * (kSourceRows * kSourceColumns);
        tile[i] = pixel_at(channel, row + i / kTileColumns % kTileRows, column + i % kTileColumns);
    }
}

// The weights of a block's filters in a phase's taps and in channels first, first + 1, ... of the source: filters are
// innermost, so that a thread reads several of its own at once.
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

// Adds what one channel of the source has to a thread's sums. `row` and `column` are the first of the thread's window.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void accumulate(const float* tile, int row, int column, const float* weights,
                                           float (&sums)[kThreadFilters][kThreadRows][kThreadColumns]) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    constexpr int kWindowRows = kRowMultiple * (kThreadRows - 1) + rows.span;
#pragma unroll
    for (int window_row = 0; window_row < kWindowRows; ++window_row) {
        float pixels[kThreadColumns][columns.count];
#pragma unroll
        for (int j = 0; j < kThreadColumns; ++j) {
#pragma unroll
            for (int u = 0; u < columns.count; ++u) {
                const int away = kColumnMultiple * kColumnStep * j + u * columns.spread;
                pixels[j][u] = tile[(row + window_row) * kTileColumns + column + away];
            }
        }
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            const int away = window_row - kRowMultiple * i;  // of a tap's row that reads this one for row i
            if (away < 0 || away >= rows.span || away % rows.spread != 0) {
                continue;
            }
            const int t = away / rows.spread;
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

// A block's part of one phase of one image and group, to whose first elements the pointers point; `row` and `column`
// count steps of the phase.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void convolve(const float* source, const float* w, float* result,
                                         float* tile, float* filters,
                                         int block_filter, int block_row, int block_column) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    const int filter = block_filter + threadIdx.z * kThreadFilters;
    const int row = block_row + threadIdx.y * kThreadRows;
    const int column = block_column + threadIdx.x;
    const bool is_used = filter < kResultChannels && row * kRowPhases + kRowPhase < kResultRows &&
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
            __syncthreads();  // what the last round has staged is no longer read
            stage_pixels(source, first, kRowMultiple * block_row + rows.low,
                         kColumnMultiple * block_column + columns.low, tile);
            stage_weights<kRowPhase, kColumnPhase>(w, first, block_filter, filters);
            __syncthreads();
            if (!is_used) {
                continue;
            }
#pragma unroll
            for (int c = 0; c < kLoopChannels; ++c) {
                accumulate<kRowPhase, kColumnPhase>(
                    tile + c * (kTileRows * kTileColumns), kRowMultiple * (row - block_row),
                    kColumnMultiple * (column - block_column),
                    filters + c * (rows.count * columns.count * kBlockFilters) + threadIdx.z * kThreadFilters,
                    sums);
            }
        }
    }
    if (!is_used) {
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
    __shared__ float tile[kLoopChannels * kTileRows * kTileColumns];
    __shared__ __align__(16) float filters[kLoopChannels * kMostTaps * kBlockFilters];
    int block = blockIdx.x;
    const int block_filter = block % kFilterBlocks * kBlockFilters;  // fastest: these blocks read the same pixels
    block /= kFilterBlocks;
    const int block_column = block % kColumnBlocks * (kBlockColumns * kThreadColumns);
    block /= kColumnBlocks;
    const int block_row = block % kRowBlocks * (kBlockRows * kThreadRows);
    block /= kRowBlocks;  // now image * kGroups + group
    const float* source = dy + block * (kSourceChannels * kSourceRows * kSourceColumns);
    float* target = dx + block * (kResultChannels * kResultRows * kResultColumns);
    const float* weights = w + block % kGroups * (kResultChannels * kSourceChannels * kFilterRows * kFilterColumns);
    convolve<0, 0>(source, weights, target, tile, filters, block_filter, block_row, block_column);
}
