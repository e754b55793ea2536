// warpsmith conv2d_slices
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Three figures of each summed channel of each image of x: the largest magnitude (-1 if a number is not finite), the
// sum of magnitudes and the sum of squares, added in a fixed order.
constexpr int kThreads = 256;
constexpr int kChannelThreads = 256;  // threads per channel of an image
constexpr int kLines = 2048;  // channels of all images
constexpr int kAllChannels = 64;  // channels per image, of all groups
constexpr size_t kImageStride = 200704;  // elements
constexpr int kChannels = 64;  // channels per group
constexpr int kGroupStride = 200704;  // elements
constexpr int kChannelStride = 3136;
constexpr int kInner = 3136;  // numbers of a channel at a distance of kInnerStride
constexpr int kInnerStride = 1;

// Sum over the threads of a channel, by a tree in shared memory.
__device__ __forceinline__ double channel_sum(double own, double* scratch) {
    scratch[threadIdx.x] = own;
    __syncthreads();
    for (int width = kChannelThreads / 2; width > 0; width /= 2) {
        if (threadIdx.x % kChannelThreads < width) {
            scratch[threadIdx.x] += scratch[threadIdx.x + width];
        }
        __syncthreads();
    }
    return scratch[threadIdx.x / kChannelThreads * kChannelThreads];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_measure_x(const float* __restrict__ x, double* __restrict__ measures) {
    __shared__ double scratch[kThreads];
    __shared__ unsigned maximum[kThreads / kChannelThreads];
    const int line = blockIdx.x * (kThreads / kChannelThreads) + threadIdx.x / kChannelThreads,
              lane = threadIdx.x % kChannelThreads;
    const int image = line / kAllChannels, channel = line % kAllChannels;
    if (lane == 0) {
        maximum[threadIdx.x / kChannelThreads] = 0;
    }
    __syncthreads();
    unsigned own_maximum = 0;
    double magnitudes = 0.0, squares = 0.0;
    if (line < kLines) {
        const float* const own = x + image * kImageStride + channel / kChannels * kGroupStride +
                                 channel % kChannels * kChannelStride;
#pragma unroll 4
        for (int i = lane; i < kInner; i += kChannelThreads) {
            const float magnitude = fabsf(own[i * kInnerStride]);
            own_maximum = max(own_maximum, __float_as_uint(magnitude));  // bits sort as magnitudes do, NaN last
            magnitudes += magnitude;
            squares += static_cast<double>(magnitude) * magnitude;
        }
    }
    own_maximum = __reduce_max_sync(0xffffffffu, own_maximum);
    if (threadIdx.x % 32 == 0) {
        atomicMax(&maximum[threadIdx.x / kChannelThreads], own_maximum);
    }
    magnitudes = channel_sum(magnitudes, scratch);
    __syncthreads();
    squares = channel_sum(squares, scratch);
    if (lane == 0 && line < kLines) {
        const unsigned largest = maximum[threadIdx.x / kChannelThreads];
        double* const target = measures + 3 * line;
        target[0] = largest < 0x7f800000u ? __uint_as_float(largest) : -1.0;  // -1: a number is not finite
        target[1] = magnitudes;
        target[2] = squares;
    }
}
