// warpsmith conv2d_fft
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 padding_mode=reflect
// config:  threads=256
//
// Adjoint of the padding: each pixel of dx sums the gradients of all pixels of the padded image that repeat it.

constexpr unsigned kPixels = 6422528;  // pixels of dx in all channels and images
constexpr int kImageRows = 56;
constexpr int kImageColumns = 56;
constexpr int kPaddedRows = 58;
constexpr int kPaddedColumns = 58;
constexpr int kPadTop = 1;
constexpr int kPadLeft = 1;
constexpr int kFoldThreads = 256;

// Iterates over the places of element i on the padded axis, counted from its first place, `before` places ahead of the
// elements: c b | a b c d | c b. The places ascend; the iteration ends at a place >= `places`.
__device__ __forceinline__ int first_place(int i, int before, int size) {
    return i > 0 && i <= before ? before - i : before + i;
}

__device__ __forceinline__ int next_place(int place, int i, int before, int size, int places) {
    const int last = before + size - 1;  // place of the last element itself
    return place < before ? before + i : place < last ? 2 * last - place : places;
}

// Gradient of the unpadded image. One thread per pixel sums the gradients of all pixels of the padded image that repeat
// it, in ascending order of rows and columns.
extern "C" __global__ void __launch_bounds__(kFoldThreads)
fold(const float* __restrict__ padded, float* __restrict__ dx) {
    const unsigned index = blockIdx.x * kFoldThreads + threadIdx.x;
    if (index >= kPixels) {
        return;
    }
    const int column = index % kImageColumns;
    const int row = index / kImageColumns % kImageRows;
    const float* plane = padded + index / (kImageColumns * kImageRows) * (kPaddedRows * kPaddedColumns);
    float sum = 0.0f;
    for (int i = first_place(row, kPadTop, kImageRows); i < kPaddedRows;
         i = next_place(i, row, kPadTop, kImageRows, kPaddedRows)) {
        for (int j = first_place(column, kPadLeft, kImageColumns); j < kPaddedColumns;
             j = next_place(j, column, kPadLeft, kImageColumns, kPaddedColumns)) {
            sum += __ldg(plane + i * kPaddedColumns + j);
        }
    }
    dx[index] = sum;
}
