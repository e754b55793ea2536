// warpsmith conv2d_plain
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  threads=256 unroll=1
//
// One thread computes one element of y and reads every tap from global memory, without staging.
// The baseline that a tuned kernel has to beat.

constexpr int kChannels = 64;  // C: channels of x
constexpr int kRows = 56;  // H, W: size of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 64;  // K: filters, the channels of y
constexpr int kFilterRows = 3;  // R, S: taps of a filter
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // P, Q: size of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kPadTop = 1;  // rows of zero padding above an image of x
constexpr int kPadLeft = 1;

constexpr unsigned kResults = 6422528;
constexpr int kThreads = 256;

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float sum) { return sum < 0.0f ? 0.0f : sum; }

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const float* __restrict__ x,
             const float* __restrict__ w,
             const float* __restrict__ b,
             float* __restrict__ y) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= kResults) {
        return;
    }
    const int q = index % kOutputColumns;
    const int p = index / kOutputColumns % kOutputRows;
    const int filter = index / (kOutputColumns * kOutputRows) % (kFilters);
    const int image = index / (kOutputColumns * kOutputRows * kFilters);
    const int first_plane = image * kChannels;
    float sum = __ldg(b + filter);
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
                if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
                    continue;  // zero padding
                }
                sum = fmaf(__ldg(weights + r * kFilterColumns + s), __ldg(plane + row * kColumns + column), sum);
            }
        }
    }
    y[index] = relu(sum);
}
