// warpsmith conv2d_depthwise
// problem: conv2d pass=fprop input=32x192x28x28 weight=192x1x7x7 precision=ieee padding=3x3 groups=192
// config:  block_filters=1 channels=1 column_bands=1 columns=4 filters=1 min_blocks=1 rounds=1 row_bands=1 rows=7 stages=1 stores=direct tap_rows=7 units=2
//
// y from tiles of x in shared memory: a thread has kThreadFilters channels by kThreadRows x kThreadColumns
// pixels of a unit, a group of an image, in registers, and reads a row of its window once for all rows of taps.

constexpr int kGroups = 192;
constexpr int kSourceChannels = 1;  // of x, in a group
constexpr int kSourceRows = 28;
constexpr int kSourceColumns = 28;
constexpr int kResultChannels = 1;  // of y, in a group
constexpr int kResultRows = 28;
constexpr int kResultColumns = 28;
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 7;
constexpr int kWeightsPerResult = 49;  // elements of w from one channel of y to the next
constexpr int kWeightsPerSource = 49;  // and of x

constexpr int kThreadFilters = 1;  // channels of y that use a pixel once it is read
constexpr int kThreadRows = 7;
constexpr int kThreadColumns = 4;
constexpr int kTapRows = 7;  // rows of taps whose weights are in registers
constexpr int kAcross = 7;  // threads across a unit's tile
constexpr int kDown = 4;
constexpr int kBlockUnits = 2;
constexpr int kBlockFilters = 1 * kThreadFilters;  // channels of y that a block computes
constexpr int kLoopChannels = 1;  // of x, that are staged at once
constexpr int kThreads = 64;
constexpr int kTileRows = 34;  // of a tile of x
constexpr int kTileRowVectors = 9;  // that are copied of a row
constexpr int kTileVector = 4;  // numbers of each
constexpr int kTilePitch = 36;
constexpr int kTilePlanePitch = 1232;

constexpr int kTileTop = -3;  // row of x at which the first tile begins
constexpr int kTileLeft = -4;
constexpr int kReadVector = 4;  // numbers that a thread reads at once
constexpr int kWeightPitch = 8;  // from one row of a filter to the next, in shared memory
constexpr int kFilterPitch = kLoopChannels * kFilterRows * kWeightPitch;
constexpr int kUnitWeights = 60;  // an odd count of vectors: units lie in different banks
constexpr int kTileNumbers = 2464;  // of all tiles; weights lie behind them

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
    {7, 0, 1, -3, 1, 7},
};
constexpr Taps kColumnTaps[kColumnPhases] = {
    {7, 0, 1, -3, 1, 7},
};

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Copies past the registers where `wanted` holds: zeros, and nothing is read, unless `has_source` does.
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

// Begins to copy the tiles of `x` whose first row and column are `row` and `column` of the image; what the
// image does not have is zero.
__device__ __forceinline__ void begin_tiles(const float* __restrict__ x, int first_unit, int first_channel,
                                           int row, int column, float* tiles) {
    constexpr int kPlanes = kBlockUnits;
    constexpr int kRowsAtOnce = kThreads / kTileRowVectors;  // a thread keeps its column
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

// Begins to copy the filters of a block's units, a row a thread; rows begin at multiples of a vector.
__device__ __forceinline__ void begin_weights(const float* __restrict__ w, int first_unit, int first_channel,
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
        float* const to = weights + unit * kUnitWeights + filter * kFilterPitch +
                          (channel * kFilterRows + r) * kWeightPitch;
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            cp_async_or_zero<4>(true, true, to + s, w + from + s);
        }
    }
}

// A row of a thread's window.
template <int kCount>
__device__ __forceinline__ void read_pixels(const float* from, float (&numbers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + i);
        numbers[i + 0] = v.x;
        numbers[i + 1] = v.y;
        numbers[i + 2] = v.z;
        numbers[i + 3] = v.w;
    }
}

// Adds what one channel of the source has to a thread's sums. `tile` is at the thread's first row and column.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void add_channel(const float* tile, const float* weights,
                                            float (&sums)[kThreadFilters][kThreadRows][kThreadColumns]) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    if constexpr (rows.count > 0 && columns.count > 0) {
        constexpr int kTaps = kTapRows < rows.count ? kTapRows : rows.count;
        constexpr int kFirst = columns.low - kTileLeft;  // column of the tile where the window begins
        constexpr int kSkip = kFirst % kReadVector;  // reads begin at a whole vector
        constexpr int kSpan = kSkip + kColumnMultiple * (kThreadColumns - 1) + columns.span;
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
                    // Not by way of an array: NVVM 13.0 then takes the first weight of one row for another row's.
                    const float* const row = weights + f * kFilterPitch + r * kWeightPitch;
#pragma unroll
                    for (int u = 0; u < columns.count; ++u) {
                        taps[f][t][u] = row[columns.first + u * columns.step];
                    }
                }
            }
#pragma unroll
            for (int row = 0; row <= kRowMultiple * (kThreadRows - 1) + (kTaps - 1) * rows.spread; ++row) {
                float pixels[kWindow];
                read_pixels(window + (first_tap * rows.spread + row) * kTilePitch, pixels);
#pragma unroll
                for (int t = 0; t < kTaps; ++t) {
                    const int away = row - t * rows.spread;  // of the window's first row, in which tap t meets this one
                    if (away < 0 || away % kRowMultiple != 0 || away / kRowMultiple >= kThreadRows) {
                        continue;
                    }
#pragma unroll
                    for (int u = 0; u < columns.count; ++u) {
#pragma unroll
                        for (int j = 0; j < kThreadColumns; ++j) {
                            const float pixel = pixels[kSkip + j * kColumnMultiple + u * columns.spread];
#pragma unroll
                            for (int f = 0; f < kThreadFilters; ++f) {
                                float& sum = sums[f][away / kRowMultiple][j];
                                sum = fmaf(taps[f][t][u], pixel, sum);
                            }
                        }
                    }
                }
            }
        }
    }
}

// What a thread's sums begin with.
__device__ __forceinline__ void clear(float (&sums)[kThreadFilters][kThreadRows][kThreadColumns]) {
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

// Writes a thread's sums. `row` and `column` count steps of the phase.
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
    extern __shared__ __align__(16) float memory[];
    int block = blockIdx.x;
    constexpr int block_filter = 0;
    constexpr int block_column = 0;
    constexpr int block_row = 0;
    const int block_unit = block * 2;
    const int column = threadIdx.x % kAcross * kThreadColumns;
    const int row = threadIdx.x / kAcross % kDown * kThreadRows;
    const int own_unit = threadIdx.x / (kAcross * kDown) % kBlockUnits;
    constexpr int filter = 0;
    const bool is_busy = threadIdx.x < 56;  // those beyond help to copy

    const auto begin = [&](float* stage) {
        const int first_unit = block_unit;
        begin_tiles(x, first_unit, 0, kRowMultiple * block_row + kTileTop,
                    kColumnMultiple * block_column + kTileLeft, stage);
        begin_weights(w, first_unit, 0, block_filter, stage + kTileNumbers);
        cp_async_commit_group();
    };
    float sums[kThreadFilters][kThreadRows][kThreadColumns];
    float* const stage = memory;
    begin(stage);
    cp_async_wait_group<0>();
    __syncthreads();
    const int unit = block_unit + own_unit;
    if (is_busy) {
        const float* const tile = stage + own_unit * (kLoopChannels * kTilePlanePitch) +
                                  row * kRowMultiple * kTilePitch + column * kColumnMultiple;
        const float* const weights = stage + kTileNumbers + own_unit * kUnitWeights + filter * kFilterPitch;
        const int plane = unit * kResultChannels + block_filter + filter;
        float* const result = y + plane * (kResultRows * kResultColumns);
        clear(sums);
        add_channel<0, 0>(tile, weights, sums);
        store<0, 0>(sums, result, block_row + row, block_column + column);
    }
}
