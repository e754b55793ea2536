// warpsmith conv2d_ladder
// problem: conv2d pass=wgrad input=8x32x256x256 weight=32x32x3x3 precision=ieee padding=1x1
// config:  across=32 bounds=checked down=8 last_step=float min_blocks=0 reduction=shared rows=1 sums=tap
//
// One block multiplies a part of the planes of one channel of x by those of one filter of dy, in every image.
// It adds its sums to the weights by atomic additions, in any order: bits of a weight may differ from run to run.

constexpr int kImages = 8;
constexpr int kChannels = 32;
constexpr int kFilters = 32;
constexpr int kOutputRows = 256;  // size of a plane of dy
constexpr int kOutputColumns = 256;
constexpr int kSourceRows = 256;  // size of a plane that taps read
constexpr int kSourceColumns = 256;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kAbove = 1;  // rows of zero padding above a plane
constexpr int kLeft = 1;
constexpr int kThreadRows = 1;  // rows of results of a thread
constexpr int kAcross = 32;  // threads of a block along a row
constexpr int kDown = 8;
constexpr int kThreads = kAcross * kDown;
constexpr int kPartials = kThreads;
constexpr int kWeights = 9216;
constexpr int kZeroThreads = 256;

// Loads the pixel at (row, column), counted from that under the first tap of result (0, 0).
// Returns 0 in the padding.
__device__ __forceinline__ float pixel(const float* plane, int row, int column) {
    row -= kAbove;
    column -= kLeft;
    if (row < 0 || row >= kSourceRows || column < 0 || column >= kSourceColumns) {
        return 0.0f;
    }
    const int at = row * kSourceColumns + column;
    return __ldg(plane + at);
}

// Loads the gradient at one pixel of dy.
__device__ __forceinline__ float gradient(const float* plane, int row, int column) {
    return __ldg(plane + row * kOutputColumns + column);
}

// Adds the sum of all threads of the block to one weight.
__device__ __forceinline__ void reduce(float sum, float (&partials)[kPartials], int thread, float* weight) {
    partials[thread] = sum;
    __syncthreads();
    for (int half = kThreads / 2; half >= 1; half /= 2) {
        if (thread < half) {
            partials[thread] += partials[thread + half];
        }
        __syncthreads();
    }
    if (thread == 0) {
        atomicAdd(weight, partials[0]);
    }
}

extern "C" __global__ void __launch_bounds__(kZeroThreads)
conv2d_ladder_zero(float* __restrict__ dw) {
    const int i = blockIdx.x * kZeroThreads + threadIdx.x;
    if (i < kWeights) {
        dw[i] = 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_ladder(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    __shared__ float partials[kPartials];
    const int column = blockIdx.x * kAcross + threadIdx.x;
    const int row = (blockIdx.y * kDown + threadIdx.y) * kThreadRows;  // of the thread's first pixel of dy
    const int channel = blockIdx.z % kChannels;
    const int filter = blockIdx.z / kChannels;
    const int thread = threadIdx.y * kAcross + threadIdx.x;
    float* weights = dw + (filter * kChannels + channel) * (kFilterRows * kFilterColumns);
#pragma unroll 1
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll 1
        for (int s = 0; s < kFilterColumns; ++s) {
            float sum = 0.0f;
            for (int image = 0; image < kImages; ++image) {
                const float* plane = x + (image * kChannels + channel) * (kSourceRows * kSourceColumns);
                const float* gradients = dy + (image * kFilters + filter) * (kOutputRows * kOutputColumns);
#pragma unroll
                for (int i = 0; i < kThreadRows; ++i) {
                    const float value = gradient(gradients, row + i, column);
                    sum = fmaf(pixel(plane, row + i + r, column + s), value, sum);
                }
            }
            reduce(sum, partials, thread, weights + r * kFilterColumns + s);
        }
    }
}
