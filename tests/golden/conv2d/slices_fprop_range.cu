// warpsmith conv2d_slices
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Exponents of the powers of two that scale each image of x and w to three int8 slices, and
// whether the range is too wide for that.
constexpr int kThreads = 256;
constexpr int kImages = 32;  // one block per image
constexpr int kChannels = 64;  // channels that are summed over, of all groups
constexpr double kXShare = 1.0 / 3136;  // turns sums over a channel of an image into means
constexpr double kWShare = 1.0 / 576;
constexpr double kShare = 9.0 / 1;  // terms of a result per term of a sum over the channels of all groups
constexpr double kMostError = 1.6666666666666665e-07;  // largest admissible standard deviation, relative to `unit`

// Exponent of the power of two that scales the largest number between kLargest / 2 and kLargest, at most 126.
__device__ __forceinline__ int power_for(double largest) {
    constexpr float kLargest = 8355711.0f;  // largest magnitude that three base-256 digits represent
    const float number = static_cast<float>(largest);
    int power = min(22 + 127 - static_cast<int>(__float_as_uint(number) >> 23), 126);
    if (number * __uint_as_float(static_cast<unsigned>(127 + power) << 23) > kLargest) {
        --power;
    }
    return power;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_range(const double* __restrict__ x, const double* __restrict__ w, int* __restrict__ range) {
    __shared__ double scratch[6][kThreads];
    // Largest numbers of x and w; sums of mean squares of x and w; sums of products of mean squares and of mean
    // magnitudes.
    double own[6] = {};
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
        scratch[k][threadIdx.x] = own[k];
    }
    __syncthreads();
    for (int width = kThreads / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
#pragma unroll
            for (int k = 0; k < 6; ++k) {
                const double here = scratch[k][threadIdx.x], there = scratch[k][threadIdx.x + width];
                scratch[k][threadIdx.x] = k < 2 ? fmax(here, there) : here + there;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) {
        return;
    }
    const int x_power = is_finite ? power_for(scratch[0][0]) : 0, w_power = has_weights ? power_for(scratch[1][0]) : 0;
    is_finite = is_finite && has_weights;
    // A rounding error has standard deviation step / sqrt(12) and is multiplied by the other operand's number; a result
    // has the terms of one group.
    const double x_step = ldexp(1.0, -x_power), w_step = ldexp(1.0, -w_power);
    const double lost = x_step * x_step * scratch[3][0] + w_step * w_step * scratch[2][0];
    const double error = sqrt(lost * (kShare / 12.0));
    // Errors are relative to twice the root mean square of a result, or to its sum of magnitudes if that is larger.
    const double unit = fmax(2.0 * sqrt(scratch[4][0] * kShare), scratch[5][0] * kShare);
    const bool is_zero = is_finite && (scratch[0][0] == 0.0 || scratch[1][0] == 0.0);
    range[blockIdx.x] = x_power;
    if (blockIdx.x == 0) {
        range[kImages] = w_power;  // all blocks compute the same
    }
    range[kImages + 1 + blockIdx.x] = is_zero || (is_finite && error <= kMostError * unit) ? 0 : 1;
}
