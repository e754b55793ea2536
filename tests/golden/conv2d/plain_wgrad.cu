// warpsmith conv2d_plain
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  threads=256 unroll=1
//
// A block a weight: its threads add up every kThreads-th position of y, then each other's sums.
// The baseline that a winner has to beat.

constexpr int kGroups = 1;
constexpr int kChannels = 64;  // of x
constexpr int kRows = 56;  // of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 64;  // and so channels of y
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kAbove = 1;  // rows of zeros
constexpr int kLeft = 1;

constexpr unsigned kPositions = 100352;  // of y, in all images
constexpr int kThreads = 256;

// The sum over a warp's lanes, in every lane; always in the same order, so that the same inputs give the same bits.
__device__ __forceinline__ float warp_sum(float sum) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    const int s = blockIdx.x % kFilterColumns;
    const int r = blockIdx.x / kFilterColumns % kFilterRows;
    const int channel = blockIdx.x / (kFilterColumns * kFilterRows) % kChannels;  // in its group
    const int filter = blockIdx.x / (kFilterColumns * kFilterRows * kChannels);
    const int source_channel = filter / kFilters * kChannels + channel;
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned position = threadIdx.x; position < kPositions; position += kThreads) {
        const int q = position % kOutputColumns;
        const int p = position / kOutputColumns % kOutputRows;
        const int image = position / (kOutputColumns * kOutputRows);
        const int row = p * kStrideRows + r * kDilationRows - kAbove;
        const int column = q * kStrideColumns + s * kDilationColumns - kLeft;
        if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
            continue;  // the padding
        }
        const int plane = image * (kGroups * kChannels) + source_channel;
        const int result_plane = image * (kGroups * kFilters) + filter;
        const float pixel = __ldg(x + (plane * kRows + row) * kColumns + column);
        sum = fmaf(pixel, __ldg(dy + (result_plane * kOutputRows + p) * kOutputColumns + q), sum);
    }
    // Some hundred threads add up some hundred terms each: the error grows with that and not with all terms.
    __shared__ float sums[kThreads / 32];  // of the warps
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = sums[0];
#pragma unroll
        for (int warp = 1; warp < kThreads / 32; ++warp) {
            total += sums[warp];
        }
        dw[blockIdx.x] = total;
    }
}
