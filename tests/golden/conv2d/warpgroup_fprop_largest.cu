// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Largest finite magnitude of a sample of each image of x: each block writes one partial maximum, as bits.
constexpr int kThreads = 256;
constexpr int kImages = 32;
constexpr int kImageBlocks = 2;  // blocks per image
constexpr size_t kNumbers = 200704;  // numbers per image
constexpr unsigned kVectors = 50176;  // aligned float4 vectors within an image
constexpr unsigned kStep = 23;  // vectors from one that is sampled to the next

// Magnitude as bits, which sort as magnitudes do; 0 if the number is not finite.
__device__ __forceinline__ unsigned magnitude(float number) {
    constexpr unsigned kInfinityBits = 0x7f800000u;
    const unsigned bits = __float_as_uint(fabsf(number));
    return bits < kInfinityBits ? bits : 0u;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_largest_x(const float* __restrict__ x, unsigned* __restrict__ largest) {
    __shared__ unsigned warp_maxima[kThreads / 32];
    const unsigned image = blockIdx.x / kImageBlocks, first = blockIdx.x % kImageBlocks * kThreads + threadIdx.x;
    unsigned maximum = 0;
    const float4* vectors =
        reinterpret_cast<const float4*>(x) + image * (kNumbers / 4);
#pragma unroll 4
    for (unsigned i = first; i < kVectors / kStep; i += kImageBlocks * kThreads) {
        const float4 vector = vectors[i * kStep];
        maximum = max(max(max(maximum, magnitude(vector.x)), max(magnitude(vector.y), magnitude(vector.z))),
                      magnitude(vector.w));
    }
    maximum = __reduce_max_sync(0xffffffffu, maximum);
    if (threadIdx.x % 32 == 0) {
        warp_maxima[threadIdx.x / 32] = maximum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < kThreads / 32; ++warp) {
            maximum = max(maximum, warp_maxima[warp]);
        }
        largest[blockIdx.x] = maximum;
        // Clears the largest numbers beyond the sample's range: of each image, and of all images.
        if (blockIdx.x % kImageBlocks == 0) {
            largest[kImages * (kImageBlocks + 1) + image] = 0;
        }
        if (blockIdx.x == 0) {
            largest[kImages * (kImageBlocks + 2)] = 0;
        }
    }
}
