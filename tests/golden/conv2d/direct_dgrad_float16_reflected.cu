// warpsmith conv2d_direct
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee dtype=float16 padding=1x1 padding_mode=reflect bias=yes relu=yes
// config:  block_columns=16 block_filters=1 block_rows=16 channels=2 columns=4 filters=8 min_blocks=0 pixels=global rows=1 spacing=apart weights=shared
//
// dx from sums over the channels and taps of dy: kThreadFilters channels by kThreadRows x kThreadColumns
// pixels of dx a thread, whose sums are in registers. Pixels come straight from global memory,
// weights from shared memory, a thread's filters side by side.
// They are pixels of the padded dx, of which a second kernel adds up those that one pixel stands for.

constexpr int kSourceChannels = 64;  // of dy
constexpr int kSourceRows = 56;
constexpr int kSourceColumns = 56;
constexpr int kResultChannels = 64;  // of dx
constexpr int kResultRows = 58;
constexpr int kResultColumns = 58;
constexpr int kFilterColumns = 3;
constexpr int kWeightsPerResult = 9;  // elements of w from one channel of dx to the next
constexpr int kWeightsPerSource = 576;  // and of dy

constexpr int kThreadFilters = 8;  // channels of dx that use a pixel once it is read
constexpr int kThreadRows = 1;
constexpr int kThreadColumns = 4;
constexpr int kLoopChannels = 2;  // of dy, in each round of the loop
constexpr int kBlockColumns = 16;  // threads across a block
constexpr int kBlockRows = 16;  // and down
constexpr int kColumnStep = kBlockColumns;  // from one of a thread's columns to the next
constexpr int kThreads = 256;
constexpr int kBlockFilters = 1 * kThreadFilters;  // channels of dx that a block computes
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
    {3, 2, -1, -2, 1, 3},
};
constexpr Taps kColumnTaps[kColumnPhases] = {
    {3, 2, -1, -2, 1, 3},
};

using Element = unsigned short;  // the bits of a float16

#ifndef WARPSMITH_ON_HOST  // the host device has its own
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_half2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ float load(const Element* from) { return half_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_half(value); }

// The ReLU of a NaN is a NaN, as in PyTorch; fmaxf would make it 0.
__device__ __forceinline__ float finished(float sum) { return sum < 0.0f ? 0.0f : sum; }

// A pixel of one channel of dy; zero outside of the image.
__device__ __forceinline__ float pixel_at(const Element* channel, int row, int column) {
    if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
        return 0.0f;
    }
    return load(channel + row * kSourceColumns + column);
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
        const int tap = (rows.first + t * rows.step) * kFilterColumns + columns.first + u * columns.step;
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
__device__ __forceinline__ void convolve(const Element* source, const Element* w, float* result,
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
            stage_weights<kRowPhase, kColumnPhase>(w, first, block_filter, filters);
            __syncthreads();
            if (!is_used) {
                continue;
            }
#pragma unroll
            for (int c = 0; c < kLoopChannels; ++c) {
                accumulate<kRowPhase, kColumnPhase>(
                    source + (first + c) * (kSourceRows * kSourceColumns), kRowMultiple * row + rows.low,
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
                const int index = ((filter + f) * kResultRows + result_row) * kResultColumns + result_column;
                result[index] = sums[f][i][j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_direct(const Element* __restrict__ dy, const Element* __restrict__ w, float* __restrict__ dx) {
    __shared__ __align__(16) float filters[kLoopChannels * kMostTaps * kBlockFilters];
    int block = blockIdx.x;
    const int block_filter = block % kFilterBlocks * kBlockFilters;  // fastest: these blocks read the same pixels
    block /= kFilterBlocks;
    const int block_column = block % kColumnBlocks * (kBlockColumns * kThreadColumns);
    block /= kColumnBlocks;
    const int block_row = block % kRowBlocks * (kBlockRows * kThreadRows);
    block /= kRowBlocks;  // now image * kGroups + group
    const Element* source = dy + block * (kSourceChannels * kSourceRows * kSourceColumns);
    float* target = dx + block * (kResultChannels * kResultRows * kResultColumns);
    const Element* weights = w;
    convolve<0, 0>(source, weights, target, filters, block_filter, block_row, block_column);
}

constexpr unsigned kPixels = 6422528;  // of dx
constexpr int kImageChannels = 64;
constexpr int kImageRows = 56;
constexpr int kImageColumns = 56;
constexpr int kPaddedRows = 58;
constexpr int kPaddedColumns = 58;
constexpr int kPadAbove = 1;
constexpr int kPadLeft = 1;
constexpr int kFoldThreads = 256;

// The places at which element i of `size` stands, counted from the first of the padding, of which there are `before`
// ahead of the elements: c b | a b c d | c b. They ascend; behind the last one comes one that is not below `places`.
__device__ __forceinline__ int first_place(int i, int before, int size) {
    return i > 0 && i <= before ? before - i : before + i;
}

__device__ __forceinline__ int next_place(int place, int i, int before, int size, int places) {
    const int last = before + size - 1;  // where the last element stands itself
    return place < before ? before + i : place < last ? 2 * last - place : places;
}

// A thread a pixel: the gradients of all places at which it stands in the padded image, row by row.
extern "C" __global__ void __launch_bounds__(kFoldThreads)
conv2d_direct_fold(const float* __restrict__ padded, const Element* __restrict__ b, Element* __restrict__ dx) {
    const unsigned index = blockIdx.x * kFoldThreads + threadIdx.x;
    if (index >= kPixels) {
        return;
    }
    const int column = index % kImageColumns;
    const int row = index / kImageColumns % kImageRows;
    const float* plane = padded + index / (kImageColumns * kImageRows) * (kPaddedRows * kPaddedColumns);
    float sum = 0.0f;
    for (int i = first_place(row, kPadAbove, kImageRows); i < kPaddedRows;
         i = next_place(i, row, kPadAbove, kImageRows, kPaddedRows)) {
        for (int j = first_place(column, kPadLeft, kImageColumns); j < kPaddedColumns;
             j = next_place(j, column, kPadLeft, kImageColumns, kPaddedColumns)) {
            sum += __ldg(plane + i * kPaddedColumns + j);
        }
    }
    sum += load(b + index / (kImageColumns * kImageRows) % kImageChannels);
    dx[index] = rounded(finished(sum));
}
