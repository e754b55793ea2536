// warpsmith conv2d_depthwise
// problem: conv2d pass=fprop input=32x192x28x28 weight=192x1x7x7 precision=ieee padding=3x3 groups=192
// config:  block_filters=1 channels=1 column_bands=1 columns=4 filters=1 min_blocks=1 rounds=1 row_bands=1 rows=7
//          stages=1 stores=direct tap_rows=7 units=8
//
// Depthwise or grouped convolution. A unit is one group of one image. A block computes kBlockUnits units at a time; a
// thread accumulates kThreadFilters channels by kThreadRows x kThreadColumns pixels of y of one unit in registers.
// cp.async copies tiles of x to shared memory and the units' weights behind them.
// A thread reads each row of its window once per kTapRows rows of taps.

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
constexpr int kThreadRows = 7;  // pixels of y per thread and phase
constexpr int kThreadColumns = 4;
constexpr int kTapRows = 7;  // rows of taps whose weights are in registers at once
constexpr int kThreadsAcross = 7;  // threads along a row of a unit
constexpr int kThreadsDown = 4;  // threads along a column
constexpr int kBlockUnits = 8;  // units per mainloop iteration
constexpr int kBlockFilters = 1 * kThreadFilters;  // channels of y per block
constexpr int kLoopChannels = 1;  // channels of x per stage
constexpr int kThreads = 224;
constexpr int kTileRows = 34;  // tile of x in shared memory
constexpr int kTileRowVectors = 9;  // vectors that are copied per row
constexpr int kTileVector = 4;  // floats per vector
constexpr int kTilePitch = 36;  // floats from one row to the next, for few bank conflicts
constexpr int kTilePlanePitch = 1232;  // floats from one plane's tile to the next

constexpr int kTileTop = -3;  // row and column of x where the first tile begins
constexpr int kTileLeft = -4;
constexpr int kReadVector = 4;  // floats per read of a thread from shared memory
constexpr int kWeightPitch = 8;  // floats from one row of a filter to the next, in shared memory
constexpr int kFilterPitch = kLoopChannels * kFilterRows * kWeightPitch;
constexpr int kUnitWeightPitch = 60;  // floats per unit, an odd number of vectors: units lie in different banks
constexpr int kTileFloats = 9856;  // floats of a stage's tiles; the weights lie behind them

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

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Asynchronous copy of kBytes to shared memory if `wanted`. Without `has_source` it writes zeros and reads nothing.
template <int kBytes>
__device__ __forceinline__ void cp_async_or_zero(bool wanted, bool has_source, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int read = has_source ? kBytes : 0;
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "r"(read) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3, %4; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes), "r"(read) : "memory");
    }
}

__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

// Issues the cp.async copies of tiles of `x`, whose first pixel is (row, column) of the image. Pixels outside the
// image are zeros.
__device__ __forceinline__ void load_tiles_async(const float* __restrict__ x, int first_unit, int first_channel,
                                                int row, int column, float* tiles) {
    constexpr int kPlanes = kBlockUnits;
    constexpr int kRowsAtOnce = kThreads / kTileRowVectors;  // a thread copies vectors of one column only
    const int first = threadIdx.x / kTileRowVectors;
    const int tile_column = (threadIdx.x - first * kTileRowVectors) * kTileVector;
    const int image_column = column + tile_column;
    const bool is_column = image_column >= 0 && image_column < kSourceColumns;
    if (first >= kRowsAtOnce) {
        return;
    }
    int plane = first / kTileRows;
    int tile_row = first % kTileRows;
    while (plane < kPlanes) {
        const int unit = first_unit + plane;
        const int channel = first_channel;
        const int image_row = row + tile_row;
        const bool is_row = image_row >= 0 && image_row < kSourceRows;
        const bool is_inside = is_row && is_column;
        const int from = ((unit * kSourceChannels + channel) * kSourceRows + image_row) * kSourceColumns + image_column;
        float* const to = tiles + plane * kTilePlanePitch + tile_row * kTilePitch + tile_column;
        cp_async_or_zero<4 * kTileVector>(true, is_inside, to, x + (is_inside ? from : 0));
        plane += kRowsAtOnce / kTileRows;
        tile_row += kRowsAtOnce % kTileRows;
        if (tile_row >= kTileRows) {
            tile_row -= kTileRows;
            ++plane;
        }
    }
}

// Issues the cp.async copies of the weights of a block's units. A thread copies rows of taps; each row begins at a
// multiple of a vector in shared memory.
__device__ __forceinline__ void load_weights_async(const float* __restrict__ w, int first_unit, int first_channel,
                                                   int first_filter, float* weights) {
    constexpr int kTaps = kFilterRows * kFilterColumns;
    constexpr int kCopies = kBlockUnits * kBlockFilters * kLoopChannels * kFilterRows;
    for (unsigned i = threadIdx.x; i < kCopies; i += kThreads) {
        const int r = i % kFilterRows;
        const int channel = i / kFilterRows % kLoopChannels;
        const int filter = i / (kFilterRows * kLoopChannels) % kBlockFilters;
        const int unit = i / (kFilterRows * kLoopChannels * kBlockFilters);
        const int group = (first_unit + unit) % kGroups;
        const int from = group * (kResultChannels * kSourceChannels * kTaps) +
                         (first_filter + filter) * kWeightsPerResult +
                         (first_channel + channel) * kWeightsPerSource + r * kFilterColumns;
        float* const to = weights + unit * kUnitWeightPitch + filter * kFilterPitch +
                          (channel * kFilterRows + r) * kWeightPitch;
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            cp_async_or_zero<4>(true, true, to + s, w + from + s);
        }
    }
}

// Reads a row of a thread's window from the tile.
template <int kCount>
__device__ __forceinline__ void read_pixels(const float* from, float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + i);
        values[i + 0] = v.x;
        values[i + 1] = v.y;
        values[i + 2] = v.z;
        values[i + 3] = v.w;
    }
}

// Accumulates one source channel. `tile` points to the thread's first row and column.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void add_channel(const float* tile, const float* weights,
                                            float (&sums)[kThreadFilters][kThreadRows][kThreadColumns]) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    if constexpr (rows.count > 0 && columns.count > 0) {
        constexpr int kTaps = kTapRows < rows.count ? kTapRows : rows.count;
        constexpr int kFirst = columns.low - kTileLeft;  // tile column where the window begins
        constexpr int kSkip = kFirst % kReadVector;  // reads are aligned to a vector: the first kSkip floats are unused
        constexpr int kSpan = kSkip + kColumnStride * (kThreadColumns - 1) + columns.span;
        constexpr int kWindow = (kSpan + kReadVector - 1) / kReadVector * kReadVector;
        const float* const window = tile + (rows.low - kTileTop) * kTilePitch + kFirst - kSkip;
#pragma unroll
        for (int first_tap = 0; first_tap < rows.count; first_tap += kTaps) {
            float taps[kThreadFilters][kTaps][columns.count];
#pragma unroll
            for (int f = 0; f < kThreadFilters; ++f) {
#pragma unroll
                for (int t = 0; t < kTaps; ++t) {
                    const int r = rows.first + (first_tap + t) * rows.step;
                    // The weights are read one by one, not through a local array of a row: with one, NVVM 13.0 took the
                    // first weight of one row for another row's.
                    const float* const row = weights + f * kFilterPitch + r * kWeightPitch;
#pragma unroll
                    for (int u = 0; u < columns.count; ++u) {
                        taps[f][t][u] = row[columns.first + u * columns.step];
                    }
                }
            }
#pragma unroll
            for (int row = 0; row <= kRowStride * (kThreadRows - 1) + (kTaps - 1) * rows.spread; ++row) {
                float pixels[kWindow];
                read_pixels(window + (first_tap * rows.spread + row) * kTilePitch, pixels);
#pragma unroll
                for (int t = 0; t < kTaps; ++t) {
                    const int offset = row - t * rows.spread;  // from the row that tap row t reads for result row 0
                    if (offset < 0 || offset % kRowStride != 0 || offset / kRowStride >= kThreadRows) {
                        continue;
                    }
#pragma unroll
                    for (int u = 0; u < columns.count; ++u) {
#pragma unroll
                        for (int j = 0; j < kThreadColumns; ++j) {
                            const float pixel = pixels[kSkip + j * kColumnStride + u * columns.spread];
#pragma unroll
                            for (int f = 0; f < kThreadFilters; ++f) {
                                float& sum = sums[f][offset / kRowStride][j];
                                sum = fmaf(taps[f][t][u], pixel, sum);
                            }
                        }
                    }
                }
            }
        }
    }
}

// Initialises the accumulators with zeros.
__device__ __forceinline__ void init_sums(float (&sums)[kThreadFilters][kThreadRows][kThreadColumns]) {
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
}

// Epilogue: writes the accumulators to global memory. `row` and `column` are counted within the phase.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void store(const float (&sums)[kThreadFilters][kThreadRows][kThreadColumns],
                                      float* y, int row, int column) {
#pragma unroll
    for (int f = 0; f < kThreadFilters; ++f) {
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            const int result_row = (row + i) * kRowPhases + kRowPhase;
#pragma unroll
            for (int j = 0; j < kThreadColumns; j += 4) {
                const int result_column = (column + j) * kColumnPhases + kColumnPhase;
                float* const to = y + (f * kResultRows + result_row) * kResultColumns + result_column;
                *reinterpret_cast<float4*>(to) = make_float4(
sums[f][i][j], sums[f][i][j + 1], sums[f][i][j + 2], sums[f][i][j + 3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_depthwise(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y) {
    extern __shared__ __align__(16) float smem[];
    int block = blockIdx.x;
    constexpr int block_filter = 0;
    constexpr int block_column = 0;
    constexpr int block_row = 0;
    const int block_unit = block * 8;
    const int column = threadIdx.x % kThreadsAcross * kThreadColumns;
    const int row = threadIdx.x / kThreadsAcross % kThreadsDown * kThreadRows;
    const int own_unit = threadIdx.x / (kThreadsAcross * kThreadsDown);
    constexpr int filter = 0;

    const auto load_stage_async = [&](float* stage) {
        const int first_unit = block_unit;
        load_tiles_async(x, first_unit, 0, kRowStride * block_row + kTileTop,
                         kColumnStride * block_column + kTileLeft, stage);
        load_weights_async(w, first_unit, 0, block_filter, stage + kTileFloats);
        cp_async_commit_group();
    };
    float sums[kThreadFilters][kThreadRows][kThreadColumns];
    float* const stage = smem;
    load_stage_async(stage);
    cp_async_wait_group<0>();
    __syncthreads();
    const int unit = block_unit + own_unit;
    const float* const tile = stage + own_unit * (kLoopChannels * kTilePlanePitch) +
                              row * kRowStride * kTilePitch + column * kColumnStride;
    const float* const weights = stage + kTileFloats + own_unit * kUnitWeightPitch + filter * kFilterPitch;
    const int plane = unit * kResultChannels + block_filter + filter;
    float* const result = y + plane * (kResultRows * kResultColumns);
    init_sums(sums);
    add_channel<0, 0>(tile, weights, sums);
    store<0, 0>(sums, result, block_row + row, block_column + column);
}
