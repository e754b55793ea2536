// warpsmith conv2d_depthwise_last
// problem: conv2d pass=fprop input=32x192x28x28 weight=192x1x7x7 precision=ieee dtype=bfloat16 padding=3x3 groups=192
//          layout=nhwc bias=yes relu=yes
// config:  columns=4 lanes=8 min_blocks=1 rows=2 strips=16 tap_rows=7 vector=4
//
// Depthwise convolution, channels last. A thread computes a strip of kThreadRows x kThreadColumns pixels of y in
// kVector adjacent channels, with accumulators in registers. It reads each row of x from global
// memory once for kTapRows rows of taps. The block's weights lie in shared memory as [tap][channel].

constexpr int kChannels = 192;
constexpr int kSourceRows = 28;  // size of an image of x
constexpr int kSourceColumns = 28;
constexpr int kResultRows = 28;  // size of an image of y
constexpr int kResultColumns = 28;
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 7;

constexpr int kVector = 4;  // channels per thread
constexpr int kThreadRows = 2;  // pixels of a strip
constexpr int kThreadColumns = 4;
constexpr int kTapRows = 7;  // rows of taps that share a row of pixels
constexpr int kLanes = 8;  // threads of a block along channels
constexpr int kStrips = 16;  // strips per block
constexpr int kStripsAcross = 7;  // strips along a row of an image
constexpr int kStripsDown = 14;  // strips along a column
constexpr int kThreads = kLanes * kStrips;
constexpr int kBlockChannels = kLanes * kVector;
constexpr int kTapPitch = 36;  // floats from one tap's weights to the next tap's, in different banks

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

using Element = unsigned short;  // bits of a bfloat16

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ float load(const Element* from) { return bfloat_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_bfloat(value); }

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float sum) { return sum < 0.0f ? 0.0f : sum; }

using Vector = uint2;  // kVector adjacent channels as stored in memory

__device__ __forceinline__ void unpack(uint2 vector, float* pixels) {
    pixels[0] = __uint_as_float(vector.x << 16);
    pixels[1] = __uint_as_float(vector.x & 0xffff0000u);
    pixels[2] = __uint_as_float(vector.y << 16);
    pixels[3] = __uint_as_float(vector.y & 0xffff0000u);
}

__device__ __forceinline__ Vector read(const Element* from) {
    return __ldg(reinterpret_cast<const Vector*>(from));
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Returns the address and keeps it in registers: otherwise ptxas recomputes it, in three instructions, for every
// predicated load.
__device__ __forceinline__ const Element* kept(const Element* address) {
    asm("" : "+l"(address));
    return address;
}
#endif

__device__ __forceinline__ unsigned floats_to_bfloat2(float low, float high) {
    return float_to_bfloat(low) | static_cast<unsigned>(float_to_bfloat(high)) << 16;
}

__device__ __forceinline__ uint2 pack(const float* sums) {
    return make_uint2(floats_to_bfloat2(sums[0], sums[1]), floats_to_bfloat2(sums[2], sums[3]));
}

__device__ __forceinline__ void write(const float* sums, Element* to) {
    *reinterpret_cast<Vector*>(to) = pack(sums);
}

// Reads one tap's weights for the thread's channels from shared memory.
__device__ __forceinline__ void read_weights(const float* from, float* weights) {
#pragma unroll
    for (int i = 0; i < kVector; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + i);
        weights[i + 0] = v.x;
        weights[i + 1] = v.y;
        weights[i + 2] = v.z;
        weights[i + 3] = v.w;
    }
}

// Loads a row of a window from global memory; `first` is the pixel that tap 0 reads for result 0. Pixels outside the
// image are zeros. Columns kInsideBegin to kInsideEnd - 1 of the window are inside for every thread: no check.
template <int kInsideBegin, int kInsideEnd, int kWindow>
__device__ __forceinline__ void read_window(const Element* first, int column, float (&pixels)[kWindow][kVector]) {
    const Element* const from = kept(first);
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
        const bool is_inside =
            (j >= kInsideBegin || column + j >= 0) && (j < kInsideEnd || column + j < kSourceColumns);
        unpack(is_inside ? read(from + j * kChannels) : Vector{}, pixels[j]);
    }
}

// Copies the weights of the block's channels to shared memory as [tap][channel].
__device__ __forceinline__ void stage_weights(const Element* __restrict__ w, int first_channel, float* weights) {
    constexpr unsigned kTaps = kFilterRows * kFilterColumns;
    for (unsigned i = threadIdx.x; i < kBlockChannels * kTaps; i += kThreads) {
        const unsigned channel = i / kTaps, tap = i % kTaps;
        weights[tap * kTapPitch + channel] = load(w + first_channel * kTaps + i);
    }
}

// Accumulates all taps of a phase. `source` points to the image's first pixel in the thread's channels; (row, column)
// is the pixel that tap 0 reads for the strip's first result.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void add_taps(const Element* source, const float* weights, int row, int column,
                                         float (&sums)[kThreadRows][kThreadColumns][kVector]) {
    constexpr Taps rows = kRowTaps[kRowPhase], columns = kColumnTaps[kColumnPhase];
    if constexpr (rows.count > 0 && columns.count > 0) {
        constexpr int kTaps = kTapRows < rows.count ? kTapRows : rows.count;
        constexpr int kWindow = kColumnStride * (kThreadColumns - 1) + columns.span;
        constexpr int kInsideBegin = -columns.low;
        constexpr int kInsideEnd = kSourceColumns + kInsideBegin - kColumnStride * (kStripsAcross - 1) * kThreadColumns;
        const float* const first_weights = weights + columns.first * kTapPitch;
#pragma unroll
        for (int first_tap = 0; first_tap < rows.count; first_tap += kTaps) {
#pragma unroll
            for (int i = 0; i <= kRowStride * (kThreadRows - 1) + (kTaps - 1) * rows.spread; ++i) {
                const int source_row = row + first_tap * rows.spread + i;
                if (source_row < 0 || source_row >= kSourceRows) {
                    continue;
                }
                float pixels[kWindow][kVector];
                read_window<kInsideBegin, kInsideEnd>(
                    source + (source_row * kSourceColumns + column) * kChannels, column, pixels);
#pragma unroll
                for (int t = 0; t < kTaps; ++t) {
                    const int offset = i - t * rows.spread;  // from the row that tap row t reads for result row 0
                    if (offset < 0 || offset % kRowStride != 0 || offset / kRowStride >= kThreadRows) {
                        continue;
                    }
                    const int r = rows.first + (first_tap + t) * rows.step;
#pragma unroll
                    for (int u = 0; u < columns.count; ++u) {
                        float weight[kVector];
                        read_weights(first_weights + (r * kFilterColumns + u * columns.step) * kTapPitch, weight);
#pragma unroll
                        for (int k = 0; k < kThreadColumns; ++k) {
#pragma unroll
                            for (int v = 0; v < kVector; ++v) {
                                float& sum = sums[offset / kRowStride][k][v];
                                sum = fmaf(weight[v], pixels[k * kColumnStride + u * columns.spread][v], sum);
                            }
                        }
                    }
                }
            }
        }
    }
}

// Computes a strip of one phase. `source` and `y` point to the image's first pixel in the thread's channels;
// (row, column) is the strip's first result within the phase.
template <int kRowPhase, int kColumnPhase>
__device__ __forceinline__ void compute(const Element* source, const float* weights, int row, int column,
                                        const float (&bias)[kVector], Element* y) {
    float sums[kThreadRows][kThreadColumns][kVector];
#pragma unroll
    for (int i = 0; i < kThreadRows * kThreadColumns; ++i) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            sums[i / kThreadColumns][i % kThreadColumns][v] = bias[v];
        }
    }
    add_taps<kRowPhase, kColumnPhase>(source, weights, row * kRowStride + kRowTaps[kRowPhase].low,
                                      column * kColumnStride + kColumnTaps[kColumnPhase].low, sums);
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        const int result_row = (row + i) * kRowPhases + kRowPhase;
#pragma unroll
        for (int k = 0; k < kThreadColumns; ++k) {
            const int result_column = (column + k) * kColumnPhases + kColumnPhase;
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                sums[i][k][v] = relu(sums[i][k][v]);
            }
            write(sums[i][k], y + (result_row * kResultColumns + result_column) * kChannels);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_depthwise_last(const Element* __restrict__ x,
                      const Element* __restrict__ w,
                      const Element* __restrict__ b,
                      Element* __restrict__ y) {
    extern __shared__ __align__(16) float weights[];
    const int first_channel = blockIdx.x % 6 * kBlockChannels;  // fastest: adjacent channels
    const int strip = blockIdx.x / 6 * kStrips + threadIdx.x / kLanes;
    const int own_channel = threadIdx.x % kLanes * kVector;  // within the block
    const int channel = first_channel + own_channel;
    stage_weights(w, first_channel, weights);
    __syncthreads();
    const int image = strip / (kStripsAcross * kStripsDown);
    const int row = strip / kStripsAcross % kStripsDown * kThreadRows;
    const int column = strip % kStripsAcross * kThreadColumns;
    const Element* const source = x + image * (kSourceRows * kSourceColumns * kChannels) + channel;
    Element* const result = y + image * (kResultRows * kResultColumns * kChannels) + channel;
    float bias[kVector];
    unpack(read(b + channel), bias);
    compute<0, 0>(source, weights + own_channel, row, column, bias, result);
}
