// warpsmith conv2d_ladder
// problem: conv2d pass=wgrad input=8x32x256x256 weight=32x32x3x3 precision=ieee padding=1x1
// config:  across=32 bounds=padded down=8 last_step=double min_blocks=0 reduction=two_levels rows=4 sums=registers
//
// One block multiplies a part of the planes of one channel of x by those of one filter of dy, in every image.
// It adds its sums to the weights by atomic additions, in any order: bits of a weight may differ from run to run.

constexpr int kImages = 8;
constexpr int kChannels = 32;
constexpr int kFilters = 32;
constexpr int kOutputRows = 256;  // size of a plane of dy
constexpr int kOutputColumns = 256;
constexpr int kSourceRows = 258;  // size of a plane that taps read, zeros around it included
constexpr int kSourceColumns = 258;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kThreadRows = 4;  // rows of results of a thread
constexpr int kAcross = 32;  // threads of a block along a row
constexpr int kDown = 8;
constexpr int kThreads = kAcross * kDown;
constexpr int kWarps = kThreads / 32;
constexpr int kPartials = kWarps;
constexpr int kWeights = 9216;
constexpr int kZeroThreads = 256;

using Last = double;  // type of the sums that shuffles add up

// Loads the pixel at (row, column), counted from that under the first tap of result (0, 0).
__device__ __forceinline__ float pixel(const float* plane, int row, int column) {
    const int at = row * kSourceColumns + column;
    return __ldg(plane + at);
}

// Loads the gradient at one pixel of dy.
__device__ __forceinline__ float gradient(const float* plane, int row, int column) {
    return __ldg(plane + row * kOutputColumns + column);
}

// Sum over a warp's 32 lanes, valid in lane 0.
__device__ __forceinline__ Last warp_sum(Last sum) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    return sum;
}

// Adds the sum of all threads of the block to one weight.
__device__ __forceinline__ void reduce(float sum, float (&partials)[kPartials], int thread, float* weight) {
    const Last of_warp = warp_sum(sum);
    if (thread % 32 == 0) {
        partials[thread / 32] = static_cast<float>(of_warp);
    }
    __syncthreads();
    if (thread < 32) {
        const Last total = warp_sum(thread < kWarps ? partials[thread] : 0.0f);
        if (thread == 0) {
            atomicAdd(weight, static_cast<float>(total));
        }
    }
    __syncthreads();  // the next sums overwrite what the first warp has read now
}

extern "C" __global__ void __launch_bounds__(kZeroThreads)
conv2d_ladder_zero(float* __restrict__ dw) {
    const int i = blockIdx.x * kZeroThreads + threadIdx.x;
    if (i < kWeights) {
        dw[i] = 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_ladder(const float* __restrict__ source, const float* __restrict__ dy, float* __restrict__ dw) {
    __shared__ float partials[kPartials];
    const int column = blockIdx.x * kAcross + threadIdx.x;
    const int row = (blockIdx.y * kDown + threadIdx.y) * kThreadRows;  // of the thread's first pixel of dy
    const int channel = blockIdx.z % kChannels;
    const int filter = blockIdx.z / kChannels;
    const int thread = threadIdx.y * kAcross + threadIdx.x;
    float* weights = dw + (filter * kChannels + channel) * (kFilterRows * kFilterColumns);
    float sums[kFilterRows][kFilterColumns] = {};
#pragma unroll 1
    for (int image = 0; image < kImages; ++image) {
        const float* plane = source + (image * kChannels + channel) * (kSourceRows * kSourceColumns);
        const float* gradients = dy + (image * kFilters + filter) * (kOutputRows * kOutputColumns);
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
            const float value = gradient(gradients, row + i, column);
#pragma unroll
            for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
                for (int s = 0; s < kFilterColumns; ++s) {
                    sums[r][s] = fmaf(pixel(plane, row + i + r, column + s), value, sums[r][s]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            reduce(sums[r][s], partials, thread, weights + r * kFilterColumns + s);
        }
    }
}
