// warpsmith conv2d_cufft
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  basis=60x60 calls=strided function=cgemm threads=256 transposers=8
//
// Copies the valid part of each transformed plane, scaled. One thread per element of the result.
constexpr long long kCount = 36864;  // elements written
constexpr int kRows = 3;  // size of the valid part
constexpr int kColumns = 3;
constexpr int kFftRows = 60;  // points of the transform
constexpr int kFftColumns = 60;
constexpr int kFirstRow = 59;  // where the valid part begins in the transform, cyclically
constexpr int kFirstColumn = 59;
constexpr float kScale = 0.000277777778f;
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_cufft_clip(const float* __restrict__ from, float* __restrict__ to) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= kCount) {
        return;
    }
    const int column = (static_cast<int>(i % kColumns) + kFirstColumn) % kFftColumns;
    const int row = (static_cast<int>(i / kColumns % kRows) + kFirstRow) % kFftRows;
    const long long plane = i / (kColumns * kRows);
    to[i] = kScale * __ldg(from + (plane * kFftRows + row) * kFftColumns + column);
}
