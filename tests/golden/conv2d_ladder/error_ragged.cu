// warpsmith conv2d_ladder
// problem: conv2d pass=dgrad input=3x5x30x45 weight=7x5x5x5 precision=ieee padding=2x2 mask=y
// config:  across=32 batch=outer bounds=padded down=8 kept=sums mask=apart min_blocks=0 rows=4
//
// One thread computes kThreadRows pixels of dx below each other, of one channel, in every image.
// It loads each weight and each pixel where it multiplies them.

constexpr int kImages = 3;
constexpr int kChannels = 7;  // channels that are summed over
constexpr int kResultChannels = 5;
constexpr int kRows = 30;  // size of a plane of results
constexpr int kColumns = 45;
constexpr int kSourceRows = 36;  // size of a plane that taps read, zeros around it included
constexpr int kSourceColumns = 68;
constexpr int kFilterRows = 5;
constexpr int kFilterColumns = 5;
constexpr int kThreadRows = 4;  // rows of results of a thread
constexpr int kAcross = 32;  // threads of a block along a row
constexpr int kDown = 8;

using Sums = float[kThreadRows];

// Loads the pixel at (row, column), counted from that under the first tap of result (0, 0).
__device__ __forceinline__ float pixel(const float* plane, int row, int column) {
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
                const float weight = __ldg(weights + (kFilterRows - 1 - r) * kFilterColumns + kFilterColumns - 1 - s);
                sums[i] = fmaf(pixel(plane, row + i + r, column + s), weight, sums[i]);
            }
        }
    }
}

// Stores the sums of one image.
__device__ __forceinline__ void store(const Sums& sums, int row, int column, float* plane) {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        if (row + i < kRows) {
            plane[(row + i) * kColumns + column] = sums[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(kAcross * kDown)
conv2d_ladder(const float* __restrict__ source, const float* __restrict__ w,
              float* __restrict__ dx) {
    const int column = blockIdx.x * kAcross + threadIdx.x;
    const int row = (blockIdx.y * kDown + threadIdx.y) * kThreadRows;  // of the first result
    const int channel = blockIdx.z;
    if (column >= kColumns || row >= kRows) {
        return;
    }
#pragma unroll 1
    for (int image = 0; image < kImages; ++image) {
        Sums sums;
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            sums[i] = 0.0f;
        }
        for (int c = 0; c < kChannels; ++c) {
            const int plane = (image * kChannels + c) * (kSourceRows * kSourceColumns);
            const float* weights = w + (c * kResultChannels + channel) * (kFilterRows * kFilterColumns);
            add_channel(source + plane, weights, row, column, sums);
        }
        store(sums, row, column, dx + (image * kResultChannels + channel) * (kRows * kColumns));
    }
}
