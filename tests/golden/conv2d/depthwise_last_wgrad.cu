// warpsmith conv2d_depthwise_last
// problem: conv2d pass=wgrad input=32x96x112x112 weight=96x1x3x3 precision=ieee stride=2x2 padding=1x1 groups=96
//          layout=nhwc
// config:  block_taps=1 columns=4 lanes=4 members=64 min_blocks=1 rows=2 splits=22 tap_rows=3 vector=4
//
// Depthwise wgrad, channels last. A thread accumulates kTapRows rows of taps of kVector adjacent channels in registers,
// over strips of kThreadRows x kThreadColumns pixels of y; it reads each row of x from global memory once per strip.
// kPartitionsK threads of a block share one such set of weights and split its strips; the block then reduces their
// accumulators in shared memory, one row of taps at a time, in a fixed order.
// Split-K: kSplits blocks share the strips; a second kernel sums their partial gradients in a fixed order.

constexpr int kChannels = 96;
constexpr int kRows = 112;  // H, W: size of an image of x
constexpr int kColumns = 112;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // P, Q: size of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 2;
constexpr int kStrideColumns = 2;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;

constexpr int kVector = 4;  // channels per thread
constexpr int kThreadRows = 2;  // pixels of y in a strip
constexpr int kThreadColumns = 4;
constexpr int kTapRows = 3;  // rows of taps per thread
constexpr int kLanes = 4;  // threads of a block along channels
constexpr int kWeightSets = kLanes;  // sets of weights per block
constexpr int kPartitionsK = 64;  // threads that share one set of weights
constexpr int kStripsAcross = 14;  // strips along a row of an image
constexpr int kStripsDown = 28;  // strips along a column
constexpr int kAllStrips = 12544;  // strips of all images
constexpr int kSplits = 22;  // blocks that share the strips (split-K)
constexpr int kThreads = kWeightSets * kPartitionsK;
constexpr int kRowSums = kVector * kFilterColumns;  // accumulators of a thread per row of taps
constexpr int kSumPitch = kThreads + kWeightSets;  // floats between a thread's accumulators, in different banks

using Vector = float4;  // kVector adjacent channels as stored in memory

__device__ __forceinline__ void unpack(float4 vector, float* pixels) {
    pixels[0] = vector.x;
    pixels[1] = vector.y;
    pixels[2] = vector.z;
    pixels[3] = vector.w;
}

__device__ __forceinline__ Vector read(const float* from) {
    return __ldg(reinterpret_cast<const Vector*>(from));
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Returns the address and keeps it in registers: otherwise ptxas recomputes it, in three instructions, for every
// predicated load.
__device__ __forceinline__ const float* kept(const float* address) {
    asm("" : "+l"(address));
    return address;
}
#endif

// Whether some tap reads row (or column) i of a window of `steps` results, which are `multiple` rows apart; the `taps`
// taps are `spread` rows apart.
__device__ __forceinline__ constexpr bool has_tap(int i, int taps, int spread, int multiple, int steps) {
    for (int t = 0; t < taps; ++t) {
        const int offset = i - t * spread;
        if (offset >= 0 && offset % multiple == 0 && offset / multiple < steps) {
            return true;
        }
    }
    return false;
}

// Loads a row of a window from global memory; `first` is the pixel that tap 0 reads for result 0. Pixels outside the
// image are zeros. Columns kInsideBegin to kInsideEnd - 1 of the window are inside for every thread: no check.
template <int kTaps, int kSpread, int kMultiple, int kSteps, int kInsideBegin, int kInsideEnd, int kWindow>
__device__ __forceinline__ void read_window(const float* first, int column, float (&pixels)[kWindow][kVector]) {
    const float* const from = kept(first);
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
        if (!has_tap(j, kTaps, kSpread, kMultiple, kSteps)) {
            continue;
        }
        const bool is_inside =
            (j >= kInsideBegin || column + j >= 0) && (j < kInsideEnd || column + j < kColumns);
        unpack(is_inside ? read(from + j * kChannels) : Vector{}, pixels[j]);
    }
}

// Accumulates one strip. `x` and `dy` point to the image's first pixel in the thread's channels, (row, column) is the
// strip's first pixel of y, and `tap` is the thread's first row of taps.
__device__ __forceinline__ void add_strip(const float* x, const float* dy, int row, int column, int tap,
                                          float (&sums)[kTapRows][kFilterColumns][kVector]) {
    constexpr int kWindow = kStrideColumns * (kThreadColumns - 1) + kDilationColumns * (kFilterColumns - 1) + 1;
    constexpr int kInsideBegin = 1;
    constexpr int kInsideEnd = kColumns + kInsideBegin - kStrideColumns * (kOutputColumns - kThreadColumns);
    float dy_fragment[kThreadRows][kThreadColumns][kVector];
    const float* const gradients = kept(dy + (row * kOutputColumns + column) * kChannels);
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int k = 0; k < kThreadColumns; ++k) {
            const float* const gradient = gradients + (i * kOutputColumns + k) * kChannels;
            unpack(read(gradient), dy_fragment[i][k]);
        }
    }
    const int first_source_row = row * kStrideRows + tap * kDilationRows - 1;
    const int source_column = column * kStrideColumns - 1;
#pragma unroll
    for (int i = 0; i <= kStrideRows * (kThreadRows - 1) + kDilationRows * (kTapRows - 1); ++i) {
        const int source_row = first_source_row + i;
        if (!has_tap(i, kTapRows, kDilationRows, kStrideRows, kThreadRows)) {
            continue;
        }
        if (source_row < 0 || source_row >= kRows) {
            continue;
        }
        float pixels[kWindow][kVector];
        read_window<kFilterColumns, kDilationColumns, kStrideColumns, kThreadColumns, kInsideBegin, kInsideEnd>(
            x + (source_row * kColumns + source_column) * kChannels, source_column, pixels);
#pragma unroll
        for (int t = 0; t < kTapRows; ++t) {
            const int offset = i - t * kDilationRows;  // from the row of x that tap row t reads for row 0 of the strip
            if (offset < 0 || offset % kStrideRows != 0 || offset / kStrideRows >= kThreadRows) {
                continue;
            }
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
#pragma unroll
                for (int k = 0; k < kThreadColumns; ++k) {
#pragma unroll
                    for (int v = 0; v < kVector; ++v) {
                        const float pixel = pixels[k * kStrideColumns + s * kDilationColumns][v];
                        sums[t][s][v] = fmaf(dy_fragment[offset / kStrideRows][k][v], pixel, sums[t][s][v]);
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_depthwise_last(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ partials) {
    extern __shared__ __align__(16) float smem[];
    int block = blockIdx.x;
    constexpr int first_tap = 0;
    const int first_channel = block % 6 * (kLanes * kVector);
    const int split = block / 6;
    const int lane = threadIdx.x % kLanes, partition = threadIdx.x / kWeightSets;
    const int tap = first_tap;
    const int channel = first_channel + lane * kVector;
    float sums[kTapRows][kFilterColumns][kVector] = {};
    constexpr int all_strips = kAllStrips;
#pragma unroll 1
    for (int strip = split * kPartitionsK + partition; strip < all_strips; strip += kSplits * kPartitionsK) {
        const int image = strip / (kStripsAcross * kStripsDown);
        const int row = strip / kStripsAcross % kStripsDown * kThreadRows;
        const int column = strip % kStripsAcross * kThreadColumns;
        add_strip(x + image * (kRows * kColumns * kChannels) + channel,
                  dy + image * (kOutputRows * kOutputColumns * kChannels) + channel, row, column, tap,
                  sums);
    }
    // Reduces the partitions in shared memory, [accumulator][thread], one row of taps at a time.
#pragma unroll
    for (int t = 0; t < kTapRows; ++t) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kRowSums; ++i) {
            smem[i * kSumPitch + threadIdx.x] = sums[t][i / kVector][i % kVector];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < kRowSums * kWeightSets; i += kThreads) {
            const float* const thread_sums = smem + i / kWeightSets * kSumPitch + i % kWeightSets;
            float sum = thread_sums[0];
#pragma unroll 8
            for (int j = 1; j < kPartitionsK; ++j) {
                sum += thread_sums[j * kWeightSets];
            }
            const int own_channel = first_channel + i % kLanes * kVector + i / kWeightSets % kVector;
            const int r = first_tap + t;
            const int weight = (own_channel * kFilterRows + r) * kFilterColumns + i / (kWeightSets * kVector);
            partials[split * (kChannels * kFilterRows * kFilterColumns) + weight] = sum;
        }
    }
}

// Split-K reduction: sums the partial gradients of kSplits blocks in a fixed order, one weight per thread.
extern "C" __global__ void __launch_bounds__(128)
conv2d_depthwise_last_sum(const float* __restrict__ partials, float* __restrict__ dw) {
    constexpr int kWeights = kChannels * kFilterRows * kFilterColumns;
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < kWeights) {
        float sum = 0.0f;
#pragma unroll 16
        for (int split = 0; split < kSplits; ++split) {
            sum += partials[split * kWeights + i];
        }
        dw[i] = sum;
    }
}
