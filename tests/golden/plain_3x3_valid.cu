// warpsmith filter2d_plain
// problem: filter2d image=9216x9216 filter=3x3 planes=1 dtype=float32 border=valid
// config:  block_columns=32 block_rows=8 weights=argument
//
// One output a thread, every pixel read from global memory once for each tap.
// The baseline that a winner has to beat.

constexpr int kRows = 9216;  // of one plane of the image
constexpr int kColumns = 9216;
constexpr int kOutputRows = 9214;
constexpr int kOutputColumns = 9214;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kAnchorRow = 0;  // the tap that lies on the output pixel
constexpr int kAnchorColumn = 0;

constexpr int kBlockColumns = 32;
constexpr int kBlockRows = 8;
constexpr int kColumnBlocks = 288;
constexpr int kRowBlocks = 1152;

struct Weights {
    float taps[kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int r, int s) {
    return weights.taps[r][s];
}

// Where the border takes its pixel from: nobody stores what is made of pixels outside, so any legal one will do.
__device__ __forceinline__ int source_index(int i, int size) {
    return min(max(i, 0), size - 1);
}

__device__ __forceinline__ float pixel_at(const float* __restrict__ plane, int row, int column) {
    return __ldg(plane + source_index(row, kRows) * kColumns + source_index(column, kColumns));
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockRows)
filter2d_plain(const float* __restrict__ image, float* __restrict__ result, const __grid_constant__ Weights weights) {
    const int block_column = blockIdx.x % kColumnBlocks;
    const int block_row = blockIdx.x / kColumnBlocks % kRowBlocks;
    const int plane = blockIdx.x / (kColumnBlocks * kRowBlocks);
    const int column = block_column * kBlockColumns + threadIdx.x;
    const int row = block_row * kBlockRows + threadIdx.y;
    if (column >= kOutputColumns || row >= kOutputRows) {
        return;
    }
    const float* source = image + plane * (kRows * kColumns);

    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            const float weight = tap(weights, r, s);
            sum = fmaf(weight, pixel_at(source, row + r - kAnchorRow, column + s - kAnchorColumn), sum);
        }
    }
    result[(plane * kOutputRows + row) * kOutputColumns + column] = sum;
}
