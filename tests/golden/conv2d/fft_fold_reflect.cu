// warpsmith conv2d_fft
// problem: conv2d pass=dgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 padding_mode=reflect
// config:  threads=256
//
// The gradient of padded images is that of the images where each pixel adds up all places at which it stands.

constexpr unsigned kPixels = 6422528;  // of dx
constexpr int kImageRows = 56;
constexpr int kImageColumns = 56;
constexpr int kPaddedRows = 58;
constexpr int kPaddedColumns = 58;
constexpr int kPadAbove = 1;
constexpr int kPadLeft = 1;
constexpr int kFoldThreads = 256;

// The places at which element i of `size` stands, counted from the first of the padding, of which there are `before`
// ahead of the elements: c b | a b c d | c b. They ascend; behind the last one comes one that is not below `places`.
__device__ __forceinline__ int first_place(int i, int before, int size) {
    return i > 0 && i <= before ? before - i : before + i;
}

__device__ __forceinline__ int next_place(int place, int i, int before, int size, int places) {
    const int last = before + size - 1;  // where the last element stands itself
    return place < before ? before + i : place < last ? 2 * last - place : places;
}

// A thread a pixel: the gradients of all places at which it stands in the padded image, row by row.
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
    for (int i = first_place(row, kPadAbove, kImageRows); i < kPaddedRows;
         i = next_place(i, row, kPadAbove, kImageRows, kPaddedRows)) {
        for (int j = first_place(column, kPadLeft, kImageColumns); j < kPaddedColumns;
             j = next_place(j, column, kPadLeft, kImageColumns, kPaddedColumns)) {
            sum += __ldg(plane + i * kPaddedColumns + j);
        }
    }
    dx[index] = sum;
}
