// warpsmith conv2d_ladder
// problem: conv2d pass=fprop input=8x32x256x256 weight=32x32x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  across=32 batch=outer bounds=checked down=8 kept=sums min_blocks=0 rows=1
//
// One thread computes kThreadRows results below each other, of one filter, in every image.
// It loads each weight and each pixel where it multiplies them.

constexpr int kImages = 8;
constexpr int kChannels = 32;  // channels that are summed over
constexpr int kFilters = 32;
constexpr int kRows = 256;  // size of a plane of results
constexpr int kColumns = 256;
constexpr int kSourceRows = 256;  // size of a plane that taps read
constexpr int kSourceColumns = 256;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kAbove = 1;  // rows of zero padding above a plane
constexpr int kLeft = 1;
constexpr int kThreadRows = 1;  // rows of results of a thread
constexpr int kAcross = 32;  // threads of a block along a row
constexpr int kDown = 8;

using Sums = float[kThreadRows];

// Loads the pixel at (row, column), counted from that under the first tap of result (0, 0).
// Returns 0 in the padding.
__device__ __forceinline__ float pixel(const float* plane, int row, int column) {
    row -= kAbove;
    column -= kLeft;
    if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
        return 0.0f;
    }
    const int at = row * kSourceColumns + column;
    return __ldg(plane + at);
}

// Adds the products of one channel to the sums of a thread, whose first result is at (row, column).
__device__ __forceinline__ void add_channel(const float* plane, const float* weights, int row, int column, Sums& sums) {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float weight = __ldg(weights + r * kFilterColumns + s);
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

extern "C" __global__ void __launch_bounds__(kAcross * kDown)
conv2d_ladder(const float* __restrict__ x, const float* __restrict__ w,
              const float* __restrict__ b, float* __restrict__ y) {
    const int column = blockIdx.x * kAcross + threadIdx.x;
    const int row = (blockIdx.y * kDown + threadIdx.y) * kThreadRows;  // of the first result
    const int filter = blockIdx.z;
    const float bias = __ldg(b + filter);
#pragma unroll 1
    for (int image = 0; image < kImages; ++image) {
        Sums sums;
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            sums[i] = bias;
        }
        for (int c = 0; c < kChannels; ++c) {
            const int plane = (image * kChannels + c) * (kSourceRows * kSourceColumns);
            const float* weights = w + (filter * kChannels + c) * (kFilterRows * kFilterColumns);
            add_channel(x + plane, weights, row, column, sums);
        }
        store(sums, row, column, y + (image * kFilters + filter) * (kRows * kColumns));
    }
}
