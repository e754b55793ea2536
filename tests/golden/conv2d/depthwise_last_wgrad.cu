// warpsmith conv2d_depthwise_last
// problem: conv2d pass=wgrad input=32x96x112x112 weight=96x1x3x3 precision=ieee stride=2x2 padding=1x1 groups=96 layout=nhwc
// config:  block_taps=1 columns=4 lanes=4 members=64 min_blocks=1 rows=2 splits=22 tap_rows=3 vector=4
//
// dw in sums of kTapRows rows of taps in kVector channels, a thread each, over strips of kThreadRows x kThreadColumns
// positions of y. A row of x is read straight from memory, once for all of them; a block's threads then add up theirs.
// A second kernel adds up what blocks that share the strips found, in a fixed order.

constexpr int kChannels = 96;
constexpr int kRows = 112;  // of an image of x
constexpr int kColumns = 112;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 2;
constexpr int kStrideColumns = 2;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;

constexpr int kVector = 4;  // channels of a thread
constexpr int kThreadRows = 2;  // of y
constexpr int kThreadColumns = 4;
constexpr int kTapRows = 3;  // of a filter, a thread
constexpr int kLanes = 4;  // threads side by side in channels
constexpr int kKeys = kLanes;
constexpr int kMembers = 64;  // threads with the same taps of the same channels
constexpr int kAcross = 14;  // strips side by side in an image
constexpr int kDown = 28;
constexpr int kAllStrips = 12544;  // of all images
constexpr int kSplits = 22;  // blocks that share them
constexpr int kThreads = kKeys * kMembers;
constexpr int kRowSums = kVector * kFilterColumns;  // of a thread, for a row of taps
constexpr int kSumPitch = kThreads + kKeys;  // from one of them to the next: they lie in different banks

using Vector = float4;  // kVector channels side by side, as in memory

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
// The same address, in registers: ptxas else computes it anew for each load that may not happen, in three instructions.
__device__ __forceinline__ const float* kept(const float* address) {
    asm("" : "+l"(address));
    return address;
}
#endif

// Whether some of `taps`, `spread` apart, meets place i of a window from one of so many steps, `multiple` apart.
__device__ __forceinline__ constexpr bool meets(int i, int taps, int spread, int multiple, int steps) {
    for (int t = 0; t < taps; ++t) {
        const int away = i - t * spread;
        if (away >= 0 && away % multiple == 0 && away / multiple < steps) {
            return true;
        }
    }
    return false;
}

// Reads a row of a window, from the pixel that the first tap meets from the first step on; it has zeros outside of
// the image, where only the first kBefore places and those from kBehind on may lie.
template <int kTaps, int kSpread, int kMultiple, int kSteps, int kBefore, int kBehind, int kWindow>
__device__ __forceinline__ void read_window(const float* first, int column, float (&pixels)[kWindow][kVector]) {
    const float* const from = kept(first);
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
        if (!meets(j, kTaps, kSpread, kMultiple, kSteps)) {
            continue;
        }
        const bool is_there = (j >= kBefore || column + j >= 0) && (j < kBehind || column + j < kColumns);
        unpack(is_there ? read(from + j * kChannels) : Vector{}, pixels[j]);
    }
}

// Adds what a strip has to a thread's sums. `x` and `dy` are the first pixels of the image in the thread's channels,
// `row` and `column` the strip's first of y, `tap` is the thread's first row of taps.
__device__ __forceinline__ void add_strip(const float* x, const float* dy, int row, int column, int tap,
                                          float (&sums)[kTapRows][kFilterColumns][kVector]) {
    constexpr int kWindow = kStrideColumns * (kThreadColumns - 1) + kDilationColumns * (kFilterColumns - 1) + 1;
    constexpr int kBefore = 1;
    constexpr int kBehind = kColumns + kBefore - kStrideColumns * (kOutputColumns - kThreadColumns);
    float own[kThreadRows][kThreadColumns][kVector];
    const float* const gradients = kept(dy + (row * kOutputColumns + column) * kChannels);
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int k = 0; k < kThreadColumns; ++k) {
            const float* const gradient = gradients + (i * kOutputColumns + k) * kChannels;
            unpack(read(gradient), own[i][k]);
        }
    }
    const int first_source_row = row * kStrideRows + tap * kDilationRows - 1;
    const int source_column = column * kStrideColumns - 1;
#pragma unroll
    for (int i = 0; i <= kStrideRows * (kThreadRows - 1) + kDilationRows * (kTapRows - 1); ++i) {
        const int source_row = first_source_row + i;
        if (!meets(i, kTapRows, kDilationRows, kStrideRows, kThreadRows)) {
            continue;
        }
        if (source_row < 0 || source_row >= kRows) {
            continue;
        }
        float pixels[kWindow][kVector];
        read_window<kFilterColumns, kDilationColumns, kStrideColumns, kThreadColumns, kBefore, kBehind>(
            x + (source_row * kColumns + source_column) * kChannels, source_column, pixels);
#pragma unroll
        for (int t = 0; t < kTapRows; ++t) {
            const int away = i - t * kDilationRows;  // of the strip's first row, in which tap t meets this one
            if (away < 0 || away % kStrideRows != 0 || away / kStrideRows >= kThreadRows) {
                continue;
            }
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
#pragma unroll
                for (int k = 0; k < kThreadColumns; ++k) {
#pragma unroll
                    for (int v = 0; v < kVector; ++v) {
                        const float pixel = pixels[k * kStrideColumns + s * kDilationColumns][v];
                        sums[t][s][v] = fmaf(own[away / kStrideRows][k][v], pixel, sums[t][s][v]);
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_depthwise_last(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts) {
    extern __shared__ __align__(16) float memory[];
    int block = blockIdx.x;
    constexpr int first_tap = 0;
    const int first_channel = block % 6 * (kLanes * kVector);
    const int split = block / 6;
    const int lane = threadIdx.x % kLanes, member = threadIdx.x / kKeys;
    const int tap = first_tap;
    const int channel = first_channel + lane * kVector;
    float sums[kTapRows][kFilterColumns][kVector] = {};
    constexpr int all_strips = kAllStrips;
#pragma unroll 1
    for (int strip = split * kMembers + member; strip < all_strips; strip += kSplits * kMembers) {
        const int image = strip / (kAcross * kDown);
        const int row = strip / kAcross % kDown * kThreadRows;
        const int column = strip % kAcross * kThreadColumns;
        add_strip(x + image * (kRows * kColumns * kChannels) + channel,
                  dy + image * (kOutputRows * kOutputColumns * kChannels) + channel, row, column, tap,
                  sums);
    }
    // Members' sums come together in shared memory, a row of taps at a time.
#pragma unroll
    for (int t = 0; t < kTapRows; ++t) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kRowSums; ++i) {
            memory[i * kSumPitch + threadIdx.x] = sums[t][i / kVector][i % kVector];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < kRowSums * kKeys; i += kThreads) {
            const float* const found = memory + i / kKeys * kSumPitch + i % kKeys;
            float sum = found[0];
#pragma unroll 8
            for (int j = 1; j < kMembers; ++j) {
                sum += found[j * kKeys];
            }
            const int own_channel = first_channel + i % kLanes * kVector + i / kKeys % kVector;
            const int r = first_tap + t;
            const int weight = (own_channel * kFilterRows + r) * kFilterColumns + i / (kKeys * kVector);
            parts[split * (kChannels * kFilterRows * kFilterColumns) + weight] = sum;
        }
    }
}

// Adds up what the blocks of a weight found, always in the same order.
extern "C" __global__ void __launch_bounds__(128)
conv2d_depthwise_last_sum(const float* __restrict__ parts, float* __restrict__ dw) {
    constexpr int kWeights = kChannels * kFilterRows * kFilterColumns;
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < kWeights) {
        float sum = 0.0f;
#pragma unroll 16
        for (int split = 0; split < kSplits; ++split) {
            sum += parts[split * kWeights + i];
        }
        dw[i] = sum;
    }
}
