// warpsmith conv2d_slices
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// The largest magnitude of each channel of x that is summed over, the sum of magnitudes and that of squares; always in
// the same order.
constexpr int kThreads = 256;
constexpr int kChannels = 64;  // of a group
constexpr int kGroupStride = 200704;  // elements
constexpr int kChannelStride = 3136;
constexpr int kInner = 3136;  // numbers of a channel that lie kInnerStride apart
constexpr int kInnerStride = 1;
constexpr int kOuterStride = 200704;
constexpr int kNumbers = 100352;  // of a channel

// Adds up, in thread 0, what all threads of the block have.
__device__ __forceinline__ double block_sum(double own, double* staged) {
    staged[threadIdx.x] = own;
    __syncthreads();
    for (int width = kThreads / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            staged[threadIdx.x] += staged[threadIdx.x + width];
        }
        __syncthreads();
    }
    return staged[0];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_measure_x(const float* __restrict__ x, double* __restrict__ measures) {
    __shared__ double staged[kThreads];
    __shared__ unsigned of_warps[kThreads / 32];
    unsigned most = 0;
    double magnitudes = 0.0, squares = 0.0;
    const float* const own = x + blockIdx.x / kChannels * kGroupStride + blockIdx.x % kChannels * kChannelStride;
#pragma unroll 4
    for (int i = threadIdx.x; i < kNumbers; i += kThreads) {
        const float magnitude = fabsf(own[i / kInner * kOuterStride + i % kInner * kInnerStride]);
        most = max(most, __float_as_uint(magnitude));  // bits are in the order of magnitudes; NaN is beyond infinity
        magnitudes += magnitude;
        squares += static_cast<double>(magnitude) * magnitude;
    }
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = most;
    }
    __syncthreads();
    magnitudes = block_sum(magnitudes, staged);
    __syncthreads();
    squares = block_sum(squares, staged);
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < kThreads / 32; ++warp) {
            most = max(most, of_warps[warp]);
        }
        double* const target = measures + 3 * blockIdx.x;
        target[0] = most < 0x7f800000u ? __uint_as_float(most) : -1.0;  // where a number is not finite
        target[1] = magnitudes;
        target[2] = squares;
    }
}
