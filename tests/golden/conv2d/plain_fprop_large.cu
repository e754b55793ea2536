// warpsmith conv2d_plain
// problem: conv2d pass=fprop input=1x8x16384x16400 weight=4x8x3x3 precision=ieee
// config:  threads=256 unroll=1
//
// One thread computes one element of y and reads every tap from global memory, without staging.
// The baseline that a tuned kernel has to beat.

constexpr long long kChannels = 8;  // C: channels of x
constexpr long long kRows = 16384;  // H, W: size of an image of x
constexpr long long kColumns = 16400;
constexpr long long kFilters = 4;  // K: filters, the channels of y
constexpr int kFilterRows = 3;  // R, S: taps of a filter
constexpr int kFilterColumns = 3;
constexpr long long kOutputRows = 16382;  // P, Q: size of an image of y
constexpr long long kOutputColumns = 16398;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kPadTop = 0;  // rows of zero padding above an image of x
constexpr int kPadLeft = 0;

constexpr unsigned long long kResults = 1074528144;
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y) {
    const unsigned long long index = static_cast<unsigned long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (index >= kResults) {
        return;
    }
    const int q = index % kOutputColumns;
    const int p = index / kOutputColumns % kOutputRows;
    const int filter = index / (kOutputColumns * kOutputRows) % (kFilters);
    const int image = index / (kOutputColumns * kOutputRows * kFilters);
    const long long first_plane = image * kChannels;
    float sum = 0.0f;
#pragma unroll 1
    for (int c = 0; c < kChannels; ++c) {
        const float* plane = x + (first_plane + c) * (kRows * kColumns);
        const float* weights = w + (filter * kChannels + c) * (kFilterRows * kFilterColumns);
#pragma unroll
        for (int r = 0; r < kFilterRows; ++r) {
            const int row = p * kStrideRows + r * kDilationRows - kPadTop;
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const int column = q * kStrideColumns + s * kDilationColumns - kPadLeft;
                sum = fmaf(__ldg(weights + r * kFilterColumns + s), __ldg(plane + row * kColumns + column), sum);
            }
        }
    }
    y[index] = sum;
}
