// warpsmith conv2d_depthwise
// problem: conv2d pass=wgrad input=16x128x56x56 weight=128x1x31x31 precision=ieee padding=15x15 groups=128
// config:  bands=1 block_channels=1 block_filters=1 block_groups=1 block_taps=31 columns=14 down=1 filters=1 images=1 min_blocks=1 rows=4 splits=4 stages=2 tap_rows=1
//
// dw from tiles of x and dy in shared memory: a thread has the sums of kTapRows rows of taps of kThreadFilters filters
// in registers, takes kThreadRows x kThreadColumns positions of y at once, and reads a row of x once for all of them.
// A second kernel adds up what blocks that share the images found, in a fixed order.

constexpr int kGroups = 128;
constexpr int kChannels = 1;  // of x, in a group
constexpr int kRows = 56;  // of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 1;  // and so channels of y, in a group
constexpr int kFilterRows = 31;
constexpr int kFilterColumns = 31;
constexpr int kOutputRows = 56;  // of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;

constexpr int kThreadFilters = 1;
constexpr int kThreadRows = 4;  // of y
constexpr int kThreadColumns = 14;
constexpr int kTapRows = 1;  // of a filter, a thread
constexpr int kBlockTaps = 31;  // threads for the rows of a filter
constexpr int kBlockFilters = 1;  // for filters
constexpr int kBlockChannels = 1;  // for channels
constexpr int kBlockGroups = 1;  // and for groups
constexpr int kImages = 1;  // of a step
constexpr int kAcross = 4;  // threads across a row of y
constexpr int kDown = 1;
constexpr int kStrips = 14;  // of rows, in a band
constexpr int kMembers = kAcross * kDown * kImages;  // threads with the same weights
constexpr int kKeys = kBlockTaps * kBlockFilters * kBlockChannels * kBlockGroups;  // sets of weights
constexpr int kSteps = 16;  // sets of images, and bands of them
constexpr int kSplits = 4;  // blocks that share them
constexpr int kThreads = 128;
constexpr int kTileRows = 86;  // of a tile of x
constexpr int kTileRowVectors = 22;  // that are copied of a row
constexpr int kTileVector = 4;  // numbers of each
constexpr int kTilePitch = 88;
constexpr int kTilePlanePitch = 7568;
constexpr int kGradientRows = 56;  // of a tile of dy
constexpr int kGradientRowVectors = 14;  // that are copied of a row
constexpr int kGradientVector = 4;  // numbers of each
constexpr int kGradientPitch = 56;
constexpr int kGradientPlanePitch = 3136;

constexpr int kReadVector = 2;  // numbers of x that a thread reads at once
constexpr int kSkip = 1;  // from there to the first of its window
constexpr int kTileNumbers = 7568;  // of x; those of dy lie behind them
constexpr int kStageNumbers = 10704;
constexpr int kThreadSums = kThreadFilters * kTapRows * kFilterColumns;
constexpr int kSumPitch = kThreads + 1;  // from one of a thread's sums to the next: they lie in different banks

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
    constexpr int kPlanes = kImages * kBlockGroups;
    constexpr int kRowsAtOnce = kThreads / kTileRowVectors;  // a thread keeps its column
    const int first = threadIdx.x / kTileRowVectors;
    const int tile_column = (threadIdx.x - first * kTileRowVectors) * kTileVector;
    const int image_column = column + tile_column;
    const bool is_column = image_column >= 0 && image_column < kColumns;
    if (first >= kRowsAtOnce) {
        return;
    }
    int plane = first / kTileRows;
    int tile_row = first % kTileRows;
    while (plane < kPlanes) {
        const int unit = first_unit + plane * kGroups;
        const int channel = first_channel;
        const int image_row = row + tile_row;
        const bool is_row = image_row >= 0 && image_row < kRows;
        const bool is_inside = is_row && is_column;
        const int from = ((unit * kChannels + channel) * kRows + image_row) * kColumns + image_column;
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

// Begins to copy the tiles of `dy` whose first row and column are `row` and `column` of the image; what the
// image does not have is zero.
__device__ __forceinline__ void begin_gradients(const float* __restrict__ dy, int first_unit, int first_channel,
                                               int row, int column, float* tiles) {
    constexpr int kPlanes = kImages * kBlockGroups;
    constexpr int kRowsAtOnce = kThreads / kGradientRowVectors;  // a thread keeps its column
    const int first = threadIdx.x / kGradientRowVectors;
    const int tile_column = (threadIdx.x - first * kGradientRowVectors) * kGradientVector;
    const int image_column = column + tile_column;
    const bool is_column = image_column >= 0 && image_column < kOutputColumns;
    if (first >= kRowsAtOnce) {
        return;
    }
    int plane = first / kGradientRows;
    int tile_row = first % kGradientRows;
    while (plane < kPlanes) {
        const int unit = first_unit + plane * kGroups;
        const int channel = first_channel;
        const int image_row = row + tile_row;
        const bool is_row = image_row >= 0 && image_row < kOutputRows;
        const bool is_inside = is_row && is_column;
        const int from = ((unit * kFilters + channel) * kOutputRows + image_row) * kOutputColumns + image_column;
        float* const to = tiles + plane * kGradientPlanePitch + tile_row * kGradientPitch + tile_column;
        cp_async_or_zero<4 * kGradientVector>(true, is_inside, to, dy + (is_inside ? from : 0));
        plane += kRowsAtOnce / kGradientRows;
        tile_row += kRowsAtOnce % kGradientRows;
        if (tile_row >= kGradientRows) {
            tile_row -= kGradientRows;
            ++plane;
        }
    }
}

// A row of a thread's window.
template <int kCount>
__device__ __forceinline__ void read_pixels(const float* from, float (&numbers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const float2 v = *reinterpret_cast<const float2*>(from + i);
        numbers[i + 0] = v.x;
        numbers[i + 1] = v.y;
    }
}

// A row of a thread's gradients.
template <int kCount>
__device__ __forceinline__ void read_gradients(const float* from, float (&numbers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const float2 v = *reinterpret_cast<const float2*>(from + i);
        numbers[i + 0] = v.x;
        numbers[i + 1] = v.y;
    }
}

// Adds what some positions of y have to a thread's sums. `tile` and `gradients` are at the first of them.
__device__ __forceinline__ void add_positions(const float* tile, const float* gradients,
                                              float (&sums)[kThreadFilters][kTapRows][kFilterColumns]) {
    constexpr int kSpan = kSkip + kStrideColumns * (kThreadColumns - 1) + kDilationColumns * (kFilterColumns - 1) + 1;
    constexpr int kWindow = (kSpan + kReadVector - 1) / kReadVector * kReadVector;
    float own[kThreadFilters][kThreadRows][kThreadColumns];
#pragma unroll
    for (int f = 0; f < kThreadFilters; ++f) {
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            read_gradients(gradients + f * kGradientPlanePitch + i * kGradientPitch, own[f][i]);
        }
    }
#pragma unroll
    for (int row = 0; row <= kStrideRows * (kThreadRows - 1) + kDilationRows * (kTapRows - 1); ++row) {
        float pixels[kWindow];
        read_pixels(tile + row * kTilePitch, pixels);
#pragma unroll
        for (int t = 0; t < kTapRows; ++t) {
            const int away = row - t * kDilationRows;  // of the window's first row, in which tap t meets this one
            if (away < 0 || away % kStrideRows != 0 || away / kStrideRows >= kThreadRows) {
                continue;
            }
#pragma unroll
            for (int j = 0; j < kThreadColumns; ++j) {
#pragma unroll
                for (int s = 0; s < kFilterColumns; ++s) {
#pragma unroll
                    for (int f = 0; f < kThreadFilters; ++f) {
                        const float pixel = pixels[kSkip + j * kStrideColumns + s * kDilationColumns];
                        sums[f][t][s] = fmaf(own[f][away / kStrideRows][j], pixel, sums[f][t][s]);
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_depthwise(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    extern __shared__ __align__(16) float memory[];
    int block = blockIdx.x;
    constexpr int block_tap = 0;
    constexpr int block_filter = 0;
    constexpr int block_channel = 0;
    const int block_group = block % 128 * kBlockGroups;
    const int split = block / 128;
    const int member = threadIdx.x % kMembers;
    const int key = threadIdx.x / kMembers;
    const int column = member % kAcross * kThreadColumns;
    const int down = member / kAcross % kDown;
    const int image = member / (kAcross * kDown);
    const int tap = key % kBlockTaps * kTapRows;
    const int filter = key / kBlockTaps % kBlockFilters * kThreadFilters;
    const int channel = key / (kBlockTaps * kBlockFilters) % kBlockChannels;
    const int group = key / (kBlockTaps * kBlockFilters * kBlockChannels);
    const bool is_busy = threadIdx.x < kKeys * kMembers;  // those beyond help to copy and to add up
    float sums[kThreadFilters][kTapRows][kFilterColumns] = {};

    const auto begin = [&](int step, float* stage) {
        const int first_unit = step / 1 * (kImages * kGroups) + block_group;
        constexpr int row = 0;
        begin_tiles(x, first_unit, block_channel, row * kStrideRows + block_tap * kDilationRows - 15,
                    -16, stage);
        begin_gradients(dy, first_unit, block_filter, row, 0, stage + kTileNumbers);
        cp_async_commit_group();
    };
    int turn = 0;
    begin(split, memory);
#pragma unroll 1
    for (int step = split; step < kSteps; step += kSplits) {
        float* const stage = memory + turn * kStageNumbers;
        turn ^= 1;
        if (step + kSplits < kSteps) {
            begin(step + kSplits, memory + turn * kStageNumbers);
            cp_async_wait_group<1>();
        } else {
            cp_async_wait_group<0>();
        }
        __syncthreads();
        if (is_busy) {
            const int unit = image * kBlockGroups + group;
            const float* const tile = stage + (unit * kBlockChannels + channel) * kTilePlanePitch +
                                      tap * kDilationRows * kTilePitch + column * kStrideColumns;
            const float* const gradients = stage + kTileNumbers + column +
                                           (unit * (kBlockFilters * kThreadFilters) + filter) * kGradientPlanePitch;
    #pragma unroll 1
            for (int strip = down; strip < kStrips; strip += kDown) {
                const int row = strip * kThreadRows;
                add_positions(tile + row * kStrideRows * kTilePitch, gradients + row * kGradientPitch,
                              sums);
            }
        }
        __syncthreads();  // before what is staged next, or sums, take its place
    }
    // Members' sums come together in shared memory, one row of it for each of a thread's sums.
#pragma unroll
    for (int i = 0; i < kThreadSums; ++i) {
        const int f = i / (kTapRows * kFilterColumns), t = i / kFilterColumns % kTapRows;
        memory[i * kSumPitch + threadIdx.x] = sums[f][t][i % kFilterColumns];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kKeys * kThreadSums; i += kThreads) {
        const int own_key = i / kThreadSums;
        const float* const found = memory + i % kThreadSums * kSumPitch + own_key * kMembers;
        float sum = found[0];
#pragma unroll
        for (int j = 1; j < kMembers; ++j) {
            sum += found[j];
        }
        const int f = block_filter + own_key / kBlockTaps % kBlockFilters * kThreadFilters +
                      i % kThreadSums / (kTapRows * kFilterColumns);
        const int c = block_channel + own_key / (kBlockTaps * kBlockFilters) % kBlockChannels;
        const int own_group = block_group + own_key / (kBlockTaps * kBlockFilters * kBlockChannels);
        const int r = block_tap + own_key % kBlockTaps * kTapRows + i / kFilterColumns % kTapRows;
        const int filter_channel = (own_group * kFilters + f) * kChannels + c;
        const int weight = (filter_channel * kFilterRows + r) * kFilterColumns + i % kFilterColumns;
        dw[split * (kGroups * kFilters * kChannels * kFilterRows * kFilterColumns) + weight] = sum;
    }
}

// Adds up what the blocks of a weight found, always in the same order.
extern "C" __global__ void __launch_bounds__(256)
conv2d_depthwise_sum(const float* __restrict__ sums, float* __restrict__ dw) {
    constexpr int kWeights = kGroups * kFilters * kChannels * kFilterRows * kFilterColumns;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < kWeights) {
        float sum = sums[i];
#pragma unroll
        for (int split = 1; split < kSplits; ++split) {
            sum += sums[split * kWeights + i];
        }
        dw[i] = sum;
    }
}
