// warpsmith conv2d_ladder
// problem: conv2d pass=fprop input=8x32x256x256 weight=32x32x3x3 precision=ieee padding=1x1 bias=yes relu=yes
//
// Copies planes with zeros around them. One thread per element of the copy.
constexpr unsigned kElements = 17040384;  // of the copy
constexpr int kRows = 256;  // size of a plane
constexpr int kColumns = 256;
constexpr int kCopyRows = 258;  // size of its copy
constexpr int kCopyColumns = 258;
constexpr int kAbove = 1;  // rows of zeros above it
constexpr int kLeft = 1;
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_ladder_copy(const float* __restrict__ from, float* __restrict__ to) {
    const unsigned i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= kElements) {
        return;
    }
    const int column = static_cast<int>(i % kCopyColumns) - kLeft;
    const int row = static_cast<int>(i / kCopyColumns % kCopyRows) - kAbove;
    const int plane = i / (kCopyColumns * kCopyRows);
    const int at = (plane * kRows + row) * kColumns + column;
    const bool is_inside = row >= 0 && row < kRows && column >= 0 && column < kColumns;
    to[i] = is_inside ? __ldg(from + at) : 0.0f;
}
