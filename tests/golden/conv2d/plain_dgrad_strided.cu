// warpsmith conv2d_plain
// problem: conv2d pass=dgrad input=32x64x56x56 weight=128x64x3x3 precision=ieee stride=2x2 padding=1x1
// config:  threads=256 unroll=1
//
// A thread a result, and every tap read from global memory where it is needed.
// The baseline that a winner has to beat.

constexpr int kChannels = 64;  // of x
constexpr int kRows = 56;  // of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 128;  // and so channels of y
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 28;  // of an image of y
constexpr int kOutputColumns = 28;
constexpr int kStrideRows = 2;
constexpr int kStrideColumns = 2;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kAbove = 1;  // rows of zeros
constexpr int kLeft = 1;

constexpr unsigned kResults = 6422528;
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= kResults) {
        return;
    }
    const int column = index % kColumns;
    const int row = index / kColumns % kRows;
    const int channel = index / (kColumns * kRows) % kChannels;  // in its group
    const int image = index / (kColumns * kRows * kChannels);
    const int first_plane = image * kFilters;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < kFilters; ++k) {
        const float* plane = dy + (first_plane + k) * (kOutputRows * kOutputColumns);
        const float* weights = w + ((k) * kChannels + channel) * (kFilterRows * kFilterColumns);
#pragma unroll
        for (int r = 0; r < kFilterRows; ++r) {
            // The row of y whose tap r lies on this row of x, where that is a whole number.
            const int steps = row + kAbove - r * kDilationRows;
            const int p = steps / kStrideRows;
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const int column_steps = column + kLeft - s * kDilationColumns;
                const int q = column_steps / kStrideColumns;
                if (steps >= 0 && steps % kStrideRows == 0 && p < kOutputRows &&
                    column_steps >= 0 && column_steps % kStrideColumns == 0 && q < kOutputColumns) {
                    sum = fmaf(__ldg(weights + r * kFilterColumns + s), __ldg(plane + p * kOutputColumns + q), sum);
                }
            }
        }
    }
    dx[index] = sum;
}
