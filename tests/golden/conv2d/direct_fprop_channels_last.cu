// warpsmith conv2d_direct
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee dtype=bfloat16 padding=1x1 layout=nhwc bias=yes relu=yes
// config:  block_columns=16 block_filters=1 block_rows=16 channels=2 columns=4 filters=8 min_blocks=0 pixels=global rows=1 spacing=apart weights=shared
//
// y from sums over the channels and taps of x: kThreadFilters channels by kThreadRows x kThreadColumns
// pixels of y a thread, whose sums are in registers. Pixels come straight from global memory,
// weights from shared memory, a thread's filters side by side.

constexpr int kSourceChannels = 64;  // of x
constexpr int kSourceRows = 56;
constexpr int kSourceColumns = 56;
constexpr int kResultChannels = 64;  // of y
constexpr int kResultRows = 56;
constexpr int kResultColumns = 56;
constexpr int kFilterColumns = 3;
constexpr int kWeightsPerResult = 576;  // elements of w from one channel of y to the next
constexpr int kWeightsPerSource = 1;  // and of x
constexpr int kWeightsPerTap = 64;
constexpr int kSourcePixel = 64;  // elements of x from one pixel to the next
constexpr int kResultPixel = 64;  // and of y

constexpr int kThreadFilters = 8;  // channels of y that use a pixel once it is read
constexpr int kThreadRows = 1;
constexpr int kThreadColumns = 4;
constexpr int kLoopChannels = 2;  // of x, in each round of the loop
constexpr int kBlockColumns = 16;  // threads across a block
constexpr int kBlockRows = 16;  // and down
constexpr int kColumnStep = kBlockColumns;  // from one of a thread's columns to the next
constexpr int kThreads = 256;
constexpr int kBlockFilters = 1 * kThreadFilters;  // channels of y that a block computes
constexpr int kFilterBlocks = 8;
constexpr int kColumnBlocks = 1;
constexpr int kRowBlocks = 4;
constexpr int kMostTaps = 9;

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
    {3, 0, 1, -1, 1, 3},
};
constexpr Taps kColumnTaps[kColumnPhases] = {
    {3, 0, 1, -1, 1, 3},
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

// The ReLU of a NaN is a NaN, as in PyTorch; fmaxf would make it 0.
__device__ __forceinline__ float finished(float sum) { return sum < 0.0f ? 0.0f : sum; }

// A pixel of one channel of x; zero outside of the image.
__device__ __forceinline__ float pixel_at(const Element* channel, int row, int column) {
    if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
        return 0.0f;
    }
    return load(channel + (row * kSourceColumns + column) * kSourcePixel);
}

// The weights of a block's filters in a phase's taps and in channels first, first + 1, ... of the source: filters are
// innermost, so that a thread reads several of its own at once.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void stage_weights(const Element* w, int first, int block_filter, float* filters) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    constexpr int kTaps = rows.count * columns.count;
    const int thread = (threadIdx.z * kBlockRows + threadIdx.y) * kBlockColumns + threadIdx.x;
    for (int i = thread; i < kLoopChannels * kTaps * kBlockFilters; i += kThreads) {
        const int c = i / (kTaps * kBlockFilters), t = i / (columns.count * kBlockFilters) % rows.count;
        const int u = i / kBlockFilters % columns.count;
        const int filter = block_filter + i % kBlockFilters;
        const int tap = ((rows.first + t * rows.step) * kFilterColumns + columns.first + u * columns.step) * kWeightsPerTap;
        filters[i] = load(w + filter * kWeightsPerResult + (first + c) * kWeightsPerSource + tap);
    }
}

// Adds what one channel of the source has to a thread's sums. `row` and `column` are the first of the thread's window.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void accumulate(const Element* channel, int row, int column, const float* weights,
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
                pixels[j][u] = pixel_at(channel, row + window_row, column + away);
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
__device__ __forceinline__ void convolve(const Element* source, const Element* w, const Element* b, Element* result,
                                         float* filters,
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
        const float bias = load(b + min(filter + f, kResultChannels - 1));
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
            for (int j = 0; j < kThreadColumns; ++j) {
                sums[f][i][j] = bias;
            }
        }
    }
    if constexpr (rows.count > 0 && columns.count > 0) {
#pragma unroll 1
        for (int first = 0; first < kSourceChannels; first += kLoopChannels) {
            __syncthreads();  // what the last round has staged is no longer read
            stage_weights<kRowPhase, kColumnPhase>(w, first, block_filter, filters);
            __syncthreads();
            if (!is_used) {
                continue;
            }
#pragma unroll
            for (int c = 0; c < kLoopChannels; ++c) {
                accumulate<kRowPhase, kColumnPhase>(
                    source + first + c, kRowMultiple * row + rows.low,
                    kColumnMultiple * column + columns.low,
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
                const int index = (result_row * kResultColumns + result_column) * kResultPixel + filter + f;
                result[index] = rounded(finished(sums[f][i][j]));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_direct(const Element* __restrict__ x,
              const Element* __restrict__ w,
              const Element* __restrict__ b,
              Element* __restrict__ y) {
    __shared__ __align__(16) float filters[kLoopChannels * kMostTaps * kBlockFilters];
    int block = blockIdx.x;
    const int block_filter = block % kFilterBlocks * kBlockFilters;  // fastest: these blocks read the same pixels
    block /= kFilterBlocks;
    const int block_column = block % kColumnBlocks * (kBlockColumns * kThreadColumns);
    block /= kColumnBlocks;
    const int block_row = block % kRowBlocks * (kBlockRows * kThreadRows);
    block /= kRowBlocks;  // now image * kGroups + group
    const Element* source = x + block * (kSourceChannels * kSourceRows * kSourceColumns);
    Element* target = y + block * (kResultChannels * kResultRows * kResultColumns);
    const Element* weights = w;
    convolve<0, 0>(source, weights, b, target, filters, block_filter, block_row, block_column);
}
