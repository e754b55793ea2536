// warpsmith conv2d_depthwise
// problem: conv2d pass=wgrad input=16x128x56x56 weight=128x1x31x31 precision=ieee padding=15x15 groups=128
// config:  bands=1 block_channels=1 block_filters=1 block_groups=1 block_taps=31 columns=14 down=1 filters=1 images=1
//          min_blocks=1 rows=4 splits=4 stages=2 tap_rows=1
//
// Depthwise wgrad. A thread accumulates kTapRows rows of taps of kThreadFilters filters and one channel in registers.
// kPartitionsK threads of a block share one such set of weights and split its reduction over the pixels of y. A thread
// takes kThreadRows x kThreadColumns pixels at a time and reads each row of x once for all of them. cp.async copies
// tiles of x to shared memory and tiles of dy behind them, in two stages: one is loaded while the other is read.
// At the end the block reduces its partitions in shared memory, in a fixed order.
// Split-K: kSplits blocks share the images; a second kernel sums their partial gradients in a fixed order.

constexpr int kGroups = 128;
constexpr int kChannels = 1;  // C: channels of x per group
constexpr int kRows = 56;  // H, W: size of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 1;  // K: filters per group, the channels of y
constexpr int kFilterRows = 31;  // R, S: taps of a filter
constexpr int kFilterColumns = 31;
constexpr int kOutputRows = 56;  // P, Q: size of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;

constexpr int kThreadFilters = 1;  // filters per thread
constexpr int kThreadRows = 4;  // pixels of y that a thread takes at once
constexpr int kThreadColumns = 14;
constexpr int kTapRows = 1;  // rows of taps per thread
constexpr int kBlockTaps = 31;  // threads of a block along the rows of taps
constexpr int kBlockFilters = 1;  // threads along filters
constexpr int kBlockChannels = 1;  // threads along channels
constexpr int kBlockGroups = 1;  // threads along groups
constexpr int kImages = 1;  // images per mainloop step
constexpr int kThreadsAcross = 4;  // threads along a row of y
constexpr int kThreadsDown = 1;  // threads along a column of y
constexpr int kStrips = 14;  // strips of kThreadRows rows in a band
constexpr int kPartitionsK = kThreadsAcross * kThreadsDown * kImages;  // threads that share one set of weights
constexpr int kWeightSets = kBlockTaps * kBlockFilters * kBlockChannels * kBlockGroups;  // sets of weights per block
constexpr int kSteps = 16;  // mainloop steps of all splits: sets of kImages images, by bands
constexpr int kSplits = 4;  // blocks that share the steps (split-K)
constexpr int kThreads = 128;
constexpr int kTileRows = 86;  // tile of x in shared memory
constexpr int kTileRowVectors = 22;  // vectors that are copied per row
constexpr int kTileVector = 4;  // floats per vector
constexpr int kTilePitch = 88;  // floats from one row to the next, for few bank conflicts
constexpr int kTilePlanePitch = 7568;  // floats from one plane's tile to the next
constexpr int kGradientRows = 56;  // tile of dy in shared memory
constexpr int kGradientRowVectors = 14;  // vectors that are copied per row
constexpr int kGradientVector = 4;  // floats per vector
constexpr int kGradientPitch = 56;  // floats from one row to the next, for few bank conflicts
constexpr int kGradientPlanePitch = 3136;  // floats from one plane's tile to the next

constexpr int kReadVector = 2;  // floats of x per read from shared memory
constexpr int kSkip = 1;  // unused floats before a thread's window: reads are aligned to a vector
constexpr int kTileFloats = 7568;  // floats of a stage's tiles of x; the tiles of dy lie behind them
constexpr int kStageFloats = 10704;  // floats of a stage
constexpr int kThreadSums = kThreadFilters * kTapRows * kFilterColumns;
constexpr int kSumPitch = kThreads + 1;  // floats between a thread's accumulators in shared memory, in different banks

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
    constexpr int kPlanes = kImages * kBlockGroups;
    constexpr int kRowsAtOnce = kThreads / kTileRowVectors;  // a thread copies vectors of one column only
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

// Issues the cp.async copies of tiles of `dy`, whose first pixel is (row, column) of the image. Pixels outside the
// image are zeros.
__device__ __forceinline__ void load_gradients_async(const float* __restrict__ dy, int first_unit, int first_channel,
                                                    int row, int column, float* tiles) {
    constexpr int kPlanes = kImages * kBlockGroups;
    constexpr int kRowsAtOnce = kThreads / kGradientRowVectors;  // a thread copies vectors of one column only
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

// Reads a row of a thread's window from the tile of x.
template <int kCount>
__device__ __forceinline__ void read_pixels(const float* from, float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const float2 v = *reinterpret_cast<const float2*>(from + i);
        values[i + 0] = v.x;
        values[i + 1] = v.y;
    }
}

// Reads a row of a thread's pixels from the tile of dy.
template <int kCount>
__device__ __forceinline__ void read_gradients(const float* from, float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const float2 v = *reinterpret_cast<const float2*>(from + i);
        values[i + 0] = v.x;
        values[i + 1] = v.y;
    }
}

// Accumulates kThreadRows x kThreadColumns pixels of y; `tile` and `gradients` point to the first one.
__device__ __forceinline__ void accumulate_tile(const float* tile, const float* gradients,
                                                float (&sums)[kThreadFilters][kTapRows][kFilterColumns]) {
    constexpr int kSpan = kSkip + kStrideColumns * (kThreadColumns - 1) + kDilationColumns * (kFilterColumns - 1) + 1;
    constexpr int kWindow = (kSpan + kReadVector - 1) / kReadVector * kReadVector;
    float dy_fragment[kThreadFilters][kThreadRows][kThreadColumns];
#pragma unroll
    for (int f = 0; f < kThreadFilters; ++f) {
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            read_gradients(gradients + f * kGradientPlanePitch + i * kGradientPitch, dy_fragment[f][i]);
        }
    }
#pragma unroll
    for (int row = 0; row <= kStrideRows * (kThreadRows - 1) + kDilationRows * (kTapRows - 1); ++row) {
        float pixels[kWindow];
        read_pixels(tile + row * kTilePitch, pixels);
#pragma unroll
        for (int t = 0; t < kTapRows; ++t) {
            const int offset = row - t * kDilationRows;  // from the row of x that tap row t reads for row 0 of y
            if (offset < 0 || offset % kStrideRows != 0 || offset / kStrideRows >= kThreadRows) {
                continue;
            }
#pragma unroll
            for (int j = 0; j < kThreadColumns; ++j) {
#pragma unroll
                for (int s = 0; s < kFilterColumns; ++s) {
#pragma unroll
                    for (int f = 0; f < kThreadFilters; ++f) {
                        const float pixel = pixels[kSkip + j * kStrideColumns + s * kDilationColumns];
                        sums[f][t][s] = fmaf(dy_fragment[f][offset / kStrideRows][j], pixel, sums[f][t][s]);
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_depthwise(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    extern __shared__ __align__(16) float smem[];
    int block = blockIdx.x;
    constexpr int block_tap = 0;
    constexpr int block_filter = 0;
    constexpr int block_channel = 0;
    const int block_group = block % 128 * kBlockGroups;
    const int split = block / 128;
    const int partition = threadIdx.x % kPartitionsK;
    const int weight_set = threadIdx.x / kPartitionsK;
    const int column =
        partition % kThreadsAcross * kThreadColumns;
    const int first_strip = partition / kThreadsAcross % kThreadsDown;
    const int image = partition / (kThreadsAcross * kThreadsDown);
    const int tap = weight_set % kBlockTaps * kTapRows;
    const int filter = weight_set / kBlockTaps % kBlockFilters * kThreadFilters;
    const int channel = weight_set / (kBlockTaps * kBlockFilters) % kBlockChannels;
    const int group = weight_set / (kBlockTaps * kBlockFilters * kBlockChannels);
    const bool is_compute_thread = threadIdx.x < kWeightSets * kPartitionsK;  // the other threads only copy and reduce
    float sums[kThreadFilters][kTapRows][kFilterColumns] = {};

    const auto load_stage_async = [&](int step, float* stage) {
        const int first_unit = step / 1 * (kImages * kGroups) + block_group;
        constexpr int row = 0;
        load_tiles_async(x, first_unit, block_channel, row * kStrideRows + block_tap * kDilationRows - 15,
                         -16, stage);
        load_gradients_async(dy, first_unit, block_filter, row, 0, stage + kTileFloats);
        cp_async_commit_group();
    };
    int stage_index = 0;
    load_stage_async(split, smem);
#pragma unroll 1
    for (int step = split; step < kSteps; step += kSplits) {
        float* const stage = smem + stage_index * kStageFloats;
        stage_index ^= 1;
        if (step + kSplits < kSteps) {
            load_stage_async(step + kSplits, smem + stage_index * kStageFloats);
            cp_async_wait_group<1>();
        } else {
            cp_async_wait_group<0>();
        }
        __syncthreads();
        if (is_compute_thread) {
            const int unit = image * kBlockGroups + group;
            const float* const tile = stage + (unit * kBlockChannels + channel) * kTilePlanePitch +
                                      tap * kDilationRows * kTilePitch + column * kStrideColumns;
            const float* const gradients = stage + kTileFloats + column +
                                           (unit * (kBlockFilters * kThreadFilters) + filter) * kGradientPlanePitch;
    #pragma unroll 1
            for (int strip = first_strip; strip < kStrips; strip += kThreadsDown) {
                const int row = strip * kThreadRows;
                accumulate_tile(tile + row * kStrideRows * kTilePitch, gradients + row * kGradientPitch,
                                sums);
            }
        }
        __syncthreads();  // all threads have read the stage before copies or accumulators overwrite it
    }
    // Reduces the partitions. Shared memory holds [accumulator][thread]; the order of the sums is fixed.
#pragma unroll
    for (int i = 0; i < kThreadSums; ++i) {
        const int f = i / (kTapRows * kFilterColumns), t = i / kFilterColumns % kTapRows;
        smem[i * kSumPitch + threadIdx.x] = sums[f][t][i % kFilterColumns];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kWeightSets * kThreadSums; i += kThreads) {
        const int set_index = i / kThreadSums;
        const float* const partials = smem + i % kThreadSums * kSumPitch + set_index * kPartitionsK;
        float sum = partials[0];
#pragma unroll
        for (int j = 1; j < kPartitionsK; ++j) {
            sum += partials[j];
        }
        const int f = block_filter + set_index / kBlockTaps % kBlockFilters * kThreadFilters +
                      i % kThreadSums / (kTapRows * kFilterColumns);
        const int c = block_channel + set_index / (kBlockTaps * kBlockFilters) % kBlockChannels;
        const int own_group = block_group + set_index / (kBlockTaps * kBlockFilters * kBlockChannels);
        const int r = block_tap + set_index % kBlockTaps * kTapRows + i / kFilterColumns % kTapRows;
        const int filter_channel = (own_group * kFilters + f) * kChannels + c;
        const int weight = (filter_channel * kFilterRows + r) * kFilterColumns + i % kFilterColumns;
        dw[split * (kGroups * kFilters * kChannels * kFilterRows * kFilterColumns) + weight] = sum;
    }
}

// Split-K reduction: sums the partial gradients of kSplits blocks in a fixed order, one weight per thread.
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
