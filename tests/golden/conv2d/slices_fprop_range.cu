// warpsmith conv2d_slices
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Which powers of two bring each image of x and w to three digits, and whether these are too few.
constexpr int kThreads = 256;
constexpr int kImages = 32;  // a block each
constexpr int kChannels = 64;  // that are summed over, of all groups
constexpr double kXShare = 1.0 / 3136;  // of a channel's numbers in an image
constexpr double kWShare = 1.0 / 576;
constexpr double kShare = 9.0 / 1;  // of what all channels give, for a result
constexpr double kMostError = 1.6666666666666665e-07;  // a standard deviation, in the unit of errors

// Brings the largest number to half of kLargest or more, as far as floats go.
__device__ __forceinline__ int power_for(double largest) {
    constexpr float kLargest = 8355711.0f;  // that three digits make
    const float number = static_cast<float>(largest);
    int power = min(22 + 127 - static_cast<int>(__float_as_uint(number) >> 23), 126);
    if (number * __uint_as_float(static_cast<unsigned>(127 + power) << 23) > kLargest) {
        --power;
    }
    return power;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_range(const double* __restrict__ x, const double* __restrict__ w, int* __restrict__ range) {
    __shared__ double staged[6][kThreads];
    double own[6] = {};  // the largest numbers, sums of mean squares, products of mean squares and of mean magnitudes
    bool is_finite = true, has_weights = true;
    x += 3 * kChannels * static_cast<size_t>(blockIdx.x);
    for (int i = threadIdx.x; i < kChannels; i += kThreads) {
        const double* const xs = x + 3 * i;
        const double* const ws = w + 3 * i;
        is_finite = is_finite && xs[0] >= 0.0;
        has_weights = has_weights && ws[0] >= 0.0;
        own[0] = fmax(own[0], xs[0]);
        own[1] = fmax(own[1], ws[0]);
        own[2] += xs[2] * kXShare;
        own[3] += ws[2] * kWShare;
        own[4] += xs[2] * kXShare * (ws[2] * kWShare);
        own[5] += xs[1] * kXShare * (ws[1] * kWShare);
    }
    is_finite = __syncthreads_and(is_finite);
    has_weights = __syncthreads_and(has_weights);
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        staged[k][threadIdx.x] = own[k];
    }
    __syncthreads();
    for (int width = kThreads / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
#pragma unroll
            for (int k = 0; k < 6; ++k) {
                const double here = staged[k][threadIdx.x], there = staged[k][threadIdx.x + width];
                staged[k][threadIdx.x] = k < 2 ? fmax(here, there) : here + there;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) {
        return;
    }
    const int x_power = is_finite ? power_for(staged[0][0]) : 0, w_power = has_weights ? power_for(staged[1][0]) : 0;
    is_finite = is_finite && has_weights;
    // What rounding loses is 1 / sqrt(12) of a step, times what it meets; a result has a group's terms.
    const double x_step = ldexp(1.0, -x_power), w_step = ldexp(1.0, -w_power);
    const double lost = x_step * x_step * staged[3][0] + w_step * w_step * staged[2][0];
    const double error = sqrt(lost * (kShare / 12.0));
    // What errors are measured by: twice the root mean square of a result, or a sum of magnitudes.
    const double unit = fmax(2.0 * sqrt(staged[4][0] * kShare), staged[5][0] * kShare);
    const bool is_zero = is_finite && (staged[0][0] == 0.0 || staged[1][0] == 0.0);
    range[blockIdx.x] = x_power;
    if (blockIdx.x == 0) {
        range[kImages] = w_power;  // the same of all blocks
    }
    range[kImages + 1 + blockIdx.x] = is_zero || (is_finite && error <= kMostError * unit) ? 0 : 1;
}
