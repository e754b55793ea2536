// warpsmith conv2d_cufft
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  basis=60x60 calls=strided function=cgemm threads=256 transposers=8
//
// Copies planes into larger ones of zeros, a number of those a thread.
constexpr long long kCount = 14745600;  // of numbers that are written
constexpr int kRows = 3;  // of a plane as it is
constexpr int kColumns = 3;
constexpr int kAllRows = 60;  // of a transform
constexpr int kAllColumns = 60;
constexpr int kFirstRow = 59;  // of the plane in the transform, cyclically
constexpr int kFirstColumn = 59;
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_cufft_pad(const float* __restrict__ from, float* __restrict__ to) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= kCount) {
        return;
    }
    const int column = (static_cast<int>(i % kAllColumns) + kAllColumns - kFirstColumn) % kAllColumns;
    const int row = (static_cast<int>(i / kAllColumns % kAllRows) + kAllRows - kFirstRow) % kAllRows;
    const long long plane = i / (kAllColumns * kAllRows);
    const bool inside = row < kRows && column < kColumns;
    to[i] = inside ? __ldg(from + (plane * kRows + row) * kColumns + column) : 0.0f;
}
