// warpsmith conv2d_plain
// problem: conv2d pass=dgrad input=32x64x56x56 weight=128x64x3x3 precision=ieee stride=2x2 padding=1x1
// config:  threads=256 unroll=1
//
// One thread computes one element of dx and reads every tap from global memory, without staging.
// The baseline that a tuned kernel has to beat.

constexpr int kChannels = 64;  // C: channels of x
constexpr int kRows = 56;  // H, W: size of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 128;  // K: filters, the channels of y
constexpr int kFilterRows = 3;  // R, S: taps of a filter
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 28;  // P, Q: size of an image of y
constexpr int kOutputColumns = 28;
constexpr int kStrideRows = 2;
constexpr int kStrideColumns = 2;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kPadTop = 1;  // rows of zero padding above an image of x
constexpr int kPadLeft = 1;

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
    const int channel = index / (kColumns * kRows) % kChannels;  // within its group
    const int image = index / (kColumns * kRows * kChannels);
    const int first_plane = image * kFilters;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < kFilters; ++k) {
        const float* plane = dy + (first_plane + k) * (kOutputRows * kOutputColumns);
        const float* weights = w + ((k) * kChannels + channel) * (kFilterRows * kFilterColumns);
#pragma unroll
        for (int r = 0; r < kFilterRows; ++r) {
            // Tap r of output row p reads this row of x if row_offset == p * kStrideRows.
            const int row_offset = row + kPadTop - r * kDilationRows;
            const int p = row_offset / kStrideRows;
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const int column_offset = column + kPadLeft - s * kDilationColumns;
                const int q = column_offset / kStrideColumns;
                if (row_offset >= 0 && row_offset % kStrideRows == 0 && p < kOutputRows &&
                    column_offset >= 0 && column_offset % kStrideColumns == 0 && q < kOutputColumns) {
                    sum = fmaf(__ldg(weights + r * kFilterColumns + s), __ldg(plane + p * kOutputColumns + q), sum);
                }
            }
        }
    }
    dx[index] = sum;
}
