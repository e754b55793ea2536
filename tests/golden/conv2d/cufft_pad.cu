// warpsmith conv2d_cufft
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  basis=60x60 calls=strided function=cgemm threads=256 transposers=8
//
// Copies planes into zero-padded planes of the transform's size. One thread per element of the padded planes.
constexpr long long kCount = 14745600;  // elements written
constexpr int kRows = 3;  // size of a source plane
constexpr int kColumns = 3;
constexpr int kFftRows = 60;  // points of the transform
constexpr int kFftColumns = 60;
constexpr int kFirstRow = 59;  // where the plane begins in the transform, cyclically
constexpr int kFirstColumn = 59;
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_cufft_pad(const float* __restrict__ from, float* __restrict__ to) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= kCount) {
        return;
    }
    const int column = (static_cast<int>(i % kFftColumns) + kFftColumns - kFirstColumn) % kFftColumns;
    const int row = (static_cast<int>(i / kFftColumns % kFftRows) + kFftRows - kFirstRow) % kFftRows;
    const long long plane = i / (kFftColumns * kFftRows);
    const bool is_inside = row < kRows && column < kColumns;
    to[i] = is_inside ? __ldg(from + (plane * kRows + row) * kColumns + column) : 0.0f;
}
