// warpsmith filter2d_plain
// problem: filter2d image=1x4099 filter=1x6 planes=64 dtype=float32 border=constant cval=-1.25
// config:  block_columns=256 block_rows=1 weights=argument
//
// One output a thread, every pixel read from global memory once for each tap.
// The baseline that a winner has to beat.

constexpr int kRows = 1;  // of one plane of the image
constexpr int kColumns = 4099;
constexpr int kOutputRows = 1;
constexpr int kOutputColumns = 4099;
constexpr int kFilterRows = 1;
constexpr int kFilterColumns = 6;
constexpr int kAnchorRow = 0;  // the tap that lies on the output pixel
constexpr int kAnchorColumn = 3;

constexpr int kBlockColumns = 256;
constexpr int kBlockRows = 1;
constexpr int kColumnBlocks = 17;
constexpr int kRowBlocks = 1;

struct Weights {
    float taps[kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int r, int s) {
    return weights.taps[r][s];
}

// k k k | a b c d | k k k
__device__ __forceinline__ float pixel_at(const float* __restrict__ plane, int row, int column) {
    const bool inside = row >= 0 && row < kRows && column >= 0 && column < kColumns;
    return inside ? __ldg(plane + row * kColumns + column) : -1.25f;
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
