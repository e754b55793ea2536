// warpsmith conv2d_slices
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// The largest magnitude of each channel of each image of x that is summed over, the sum of magnitudes and that of squares; always in
// the same order.
constexpr int kThreads = 256;
constexpr int kTogether = 256;  // threads that share a channel of an image
constexpr int kLines = 2048;  // channels of all images and groups
constexpr int kAllChannels = 64;  // of an image
constexpr size_t kImageStride = 200704;  // elements
constexpr int kChannels = 64;  // of a group
constexpr int kGroupStride = 200704;  // elements
constexpr int kChannelStride = 3136;
constexpr int kInner = 3136;  // numbers of a channel that lie kInnerStride apart
constexpr int kInnerStride = 1;

// Adds up what all threads of a channel have, in the first of them.
__device__ __forceinline__ double channel_sum(double own, double* staged) {
    staged[threadIdx.x] = own;
    __syncthreads();
    for (int width = kTogether / 2; width > 0; width /= 2) {
        if (threadIdx.x % kTogether < width) {
            staged[threadIdx.x] += staged[threadIdx.x + width];
        }
        __syncthreads();
    }
    return staged[threadIdx.x / kTogether * kTogether];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_measure_x(const float* __restrict__ x, double* __restrict__ measures) {
    __shared__ double staged[kThreads];
    __shared__ unsigned most[kThreads / kTogether];
    const int line = blockIdx.x * (kThreads / kTogether) + threadIdx.x / kTogether, lane = threadIdx.x % kTogether;
    const int image = line / kAllChannels, channel = line % kAllChannels;
    if (lane == 0) {
        most[threadIdx.x / kTogether] = 0;
    }
    __syncthreads();
    unsigned own_most = 0;
    double magnitudes = 0.0, squares = 0.0;
    if (line < kLines) {
        const float* const own = x + image * kImageStride + channel / kChannels * kGroupStride + channel % kChannels * kChannelStride;
#pragma unroll 4
        for (int i = lane; i < kInner; i += kTogether) {
            const float magnitude = fabsf(own[i * kInnerStride]);
            own_most = max(own_most, __float_as_uint(magnitude));  // bits are in the order of magnitudes; NaN is beyond infinity
            magnitudes += magnitude;
            squares += static_cast<double>(magnitude) * magnitude;
        }
    }
    own_most = __reduce_max_sync(0xffffffffu, own_most);
    if (threadIdx.x % 32 == 0) {
        atomicMax(&most[threadIdx.x / kTogether], own_most);
    }
    magnitudes = channel_sum(magnitudes, staged);
    __syncthreads();
    squares = channel_sum(squares, staged);
    if (lane == 0 && line < kLines) {
        const unsigned largest = most[threadIdx.x / kTogether];
        double* const target = measures + 3 * line;
        target[0] = largest < 0x7f800000u ? __uint_as_float(largest) : -1.0;  // where a number is not finite
        target[1] = magnitudes;
        target[2] = squares;
    }
}
