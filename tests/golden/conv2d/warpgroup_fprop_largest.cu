// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// The largest finite magnitude of a sample of each image of x, of each block's share one number.
constexpr int kThreads = 256;
constexpr int kImages = 32;
constexpr int kShares = 2;  // blocks of an image
constexpr size_t kNumbers = 200704;  // of an image
constexpr unsigned kFours = 50176;  // that lie within it and begin at multiples of four
constexpr unsigned kStep = 23;  // from one of them that is read to the next one

// The bits of a magnitude, which are in the order of magnitudes; 0 of what is not finite.
__device__ __forceinline__ unsigned magnitude(float number) {
    constexpr unsigned kInfinityBits = 0x7f800000u;
    const unsigned bits = __float_as_uint(fabsf(number));
    return bits < kInfinityBits ? bits : 0u;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_largest_x(const float* __restrict__ x, unsigned* __restrict__ largest) {
    __shared__ unsigned of_warps[kThreads / 32];
    const unsigned image = blockIdx.x / kShares, first = blockIdx.x % kShares * kThreads + threadIdx.x;
    unsigned most = 0;
    const float4* fours = reinterpret_cast<const float4*>(x) + image * (kNumbers / 4);
#pragma unroll 4
    for (unsigned i = first; i < kFours / kStep; i += kShares * kThreads) {
        const float4 four = fours[i * kStep];
        most = max(max(max(most, magnitude(four.x)), max(magnitude(four.y), magnitude(four.z))), magnitude(four.w));
    }
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = most;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < kThreads / 32; ++warp) {
            most = max(most, of_warps[warp]);
        }
        largest[blockIdx.x] = most;
        // None beyond it so far: of the image, and of all.
        if (blockIdx.x % kShares == 0) {
            largest[kImages * (kShares + 1) + image] = 0;
        }
        if (blockIdx.x == 0) {
            largest[kImages * (kShares + 2)] = 0;
        }
    }
}
