// warpsmith conv2d_ladder
// problem: conv2d pass=fprop input=8x32x256x256 weight=32x32x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  across=32 batch=inner bounds=padded down=8 kept=weights min_blocks=2 rows=4
//
// One thread computes kThreadRows results below each other, of one filter, in every image.
// It keeps the weights of a channel in registers.

constexpr int kImages = 8;
constexpr int kChannels = 32;  // channels that are summed over
constexpr int kFilters = 32;
constexpr int kRows = 256;  // size of a plane of results
constexpr int kColumns = 256;
constexpr int kSourceRows = 258;  // size of a plane that taps read, zeros around it included
constexpr int kSourceColumns = 258;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kThreadRows = 4;  // rows of results of a thread
constexpr int kAcross = 32;  // threads of a block along a row
constexpr int kDown = 8;

using Taps = float[kFilterRows][kFilterColumns];  // weights, or pixels under them
using Sums = float[kThreadRows];

// Loads the pixel at (row, column), counted from that under the first tap of result (0, 0).
__device__ __forceinline__ float pixel(const float* plane, int row, int column) {
    const int at = row * kSourceColumns + column;
    return __ldg(plane + at);
}

// Loads the weights of one channel.
__device__ __forceinline__ void load_taps(const float* weights, Taps& taps) {
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            taps[r][s] = __ldg(weights + r * kFilterColumns + s);
        }
    }
}

// Adds the products of one channel to the sums of a thread, whose first result is at (row, column).
__device__ __forceinline__ void add_channel(const float* plane, const Taps& taps, int row, int column, Sums& sums) {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float weight = taps[r][s];
                sums[i] = fmaf(pixel(plane, row + i + r, column + s), weight, sums[i]);
            }
        }
    }
}

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float sum) { return sum < 0.0f ? 0.0f : sum; }

// Stores the sums of one image.
__device__ __forceinline__ void store(const Sums& sums, int row, int column, float* plane) {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        plane[(row + i) * kColumns + column] = relu(sums[i]);
    }
}

extern "C" __global__ void __launch_bounds__(kAcross * kDown, 2)
conv2d_ladder(const float* __restrict__ source, const float* __restrict__ w,
              const float* __restrict__ b, float* __restrict__ y) {
    const int column = blockIdx.x * kAcross + threadIdx.x;
    const int row = (blockIdx.y * kDown + threadIdx.y) * kThreadRows;  // of the first result
    const int filter = blockIdx.z;
    const float bias = __ldg(b + filter);
    Sums sums[kImages];
#pragma unroll
    for (int image = 0; image < kImages; ++image) {
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            sums[image][i] = bias;
        }
    }
    for (int c = 0; c < kChannels; ++c) {
        const float* weights = w + (filter * kChannels + c) * (kFilterRows * kFilterColumns);
        Taps taps;
        load_taps(weights, taps);
#pragma unroll
        for (int image = 0; image < kImages; ++image) {
            const int plane = (image * kChannels + c) * (kSourceRows * kSourceColumns);
            add_channel(source + plane, taps, row, column, sums[image]);
        }
    }
#pragma unroll
    for (int image = 0; image < kImages; ++image) {
        store(sums[image], row, column, y + (image * kFilters + filter) * (kRows * kColumns));
    }
}
