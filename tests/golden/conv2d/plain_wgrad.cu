// warpsmith conv2d_plain
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  threads=256 unroll=1
//
// One block computes one weight: each thread accumulates every kThreads-th output pixel, then the block reduces its
// threads' sums by warp shuffles and shared memory. The baseline that a tuned kernel has to beat.

constexpr int kGroups = 1;
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

constexpr unsigned kOutputPixels = 100352;  // pixels of y in all images
constexpr int kThreads = 256;

// Sum over a warp's 32 lanes, returned in every lane. The order is fixed, so equal inputs give equal bits.
__device__ __forceinline__ float warp_sum(float sum) {
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lane_mask);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    const int s = blockIdx.x % kFilterColumns;
    const int r = blockIdx.x / kFilterColumns % kFilterRows;
    const int channel = blockIdx.x / (kFilterColumns * kFilterRows) % kChannels;  // within its group
    const int filter = blockIdx.x / (kFilterColumns * kFilterRows * kChannels);
    const int source_channel = filter / kFilters * kChannels + channel;
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned output_pixel = threadIdx.x; output_pixel < kOutputPixels; output_pixel += kThreads) {
        const int q = output_pixel % kOutputColumns;
        const int p = output_pixel / kOutputColumns % kOutputRows;
        const int image = output_pixel / (kOutputColumns * kOutputRows);
        const int row = p * kStrideRows + r * kDilationRows - kPadTop;
        const int column = q * kStrideColumns + s * kDilationColumns - kPadLeft;
        if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
            continue;  // zero padding
        }
        const int plane = image * (kGroups * kChannels) + source_channel;
        const int dy_plane = image * (kGroups * kFilters) + filter;
        const float pixel = __ldg(x + (plane * kRows + row) * kColumns + column);
        sum = fmaf(pixel, __ldg(dy + (dy_plane * kOutputRows + p) * kOutputColumns + q), sum);
    }
    // Each thread adds some hundred terms and the block some hundred threads: the rounding error grows with these
    // counts, not with the number of all terms.
    __shared__ float warp_sums[kThreads / 32];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        warp_sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = warp_sums[0];
#pragma unroll
        for (int warp = 1; warp < kThreads / 32; ++warp) {
            total += warp_sums[warp];
        }
        dw[blockIdx.x] = total;
    }
}
