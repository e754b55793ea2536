// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Packs the images of x as float16 for the tensor cores. The pixels of all images lie on one line, row by row and
// image by image, with zeros between rows and images; `position` counts them. A channel vector is eight channels of a
// pixel; each thread packs one. Layout:
// [part][group][channel vector][plane][position][channel].
constexpr int kThreads = 256;
constexpr int kImageMaxima = 2;  // partial maxima per image
constexpr int kBlockImages = 2;  // most images that the positions of a block belong to
constexpr int kHeadroom = 6;  // log2 of how far numbers may exceed the sample's maximum
constexpr int kAllBlocks = 3256;
constexpr int kAlreadyPacked = 0x7fffffff;  // instead of an exponent: the image needs no repacking

constexpr int kImages = 32;
constexpr int kChannels = 64;  // channels per group
constexpr int kVectors = 8;  // channel vectors (eight channels) per group
constexpr int kRows = 56;
constexpr int kColumns = 56;
constexpr size_t kImageStride = 200704;  // elements of x
constexpr int kChannelStride = 3136;
constexpr int kRowStride = 56;
constexpr int kColumnStride = 1;
constexpr int kRowPitch = 57;  // rows per image, rows between images included
constexpr int kColumnPitch = 57;  // pixels per row, pixels between rows included
constexpr int kAbove = 1;  // rows before the first row of an image
constexpr int kLeft = 1;
constexpr int kLength = 104182;  // positions per plane
constexpr int kBlocks = 407;  // blocks per plane
constexpr size_t kLow = 833456;  // from high parts to low parts

// Eight channels of 16 bits.
struct __align__(16) ChannelVector {
    unsigned short values[8];
};

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_half2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

// Magnitude as bits, which sort as magnitudes do; 0 if the number is not finite.
__device__ __forceinline__ unsigned magnitude(float number) {
    constexpr unsigned kInfinityBits = 0x7f800000u;
    const unsigned bits = __float_as_uint(fabsf(number));
    return bits < kInfinityBits ? bits : 0u;
}

// Exponent of the power of two that scales `largest` into [2^14, 2^15), minus the headroom; at most 126.
__device__ __forceinline__ int power_of(unsigned largest, int headroom = 0) {
    return min(14 + 127 - static_cast<int>(largest >> 23) - headroom, 126);
}

// Records the largest number of an image whose scaled magnitude is 2^15 or more: fp16 ends at 2^16.
__device__ __forceinline__ void record_overflow(unsigned maximum, int power, unsigned* __restrict__ overflow,
                                                int image) {
    if (static_cast<int>(maximum >> 23) - 127 + power > 14) {
        atomicMax(&overflow[image], maximum);
        atomicMax(&overflow[kImages], maximum);
    }
}

// Computes the exponents of the images of a block's positions, from their samples' partial maxima.
__device__ __forceinline__ void find_powers(const unsigned* __restrict__ largest, int first_image,
                                            int (&powers)[kBlockImages]) {
    for (int own = threadIdx.x; own < kBlockImages; own += kThreads) {
        unsigned maximum = 0;
        if (first_image + own < kImages) {
#pragma unroll
            for (int i = 0; i < kImageMaxima; ++i) {
                maximum = max(maximum, largest[(first_image + own) * kImageMaxima + i]);
            }
        }
        powers[own] = power_of(maximum, kHeadroom);
    }
    __syncthreads();
}

// Stores eight scaled numbers as high + low: high is the nearest fp16 number, low the fp16 rest, or 0 if high is not
// finite.
__device__ __forceinline__ void store(const float (&numbers)[8], ChannelVector* high, ChannelVector* low) {
    ChannelVector above, below;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        above.values[i] = float_to_half(numbers[i]);
        const float left = numbers[i] - half_to_float(above.values[i]);
        below.values[i] = float_to_half(fabsf(left) <= 16.0f ? left : 0.0f);
    }
    *high = above;
    *low = below;
}

// Packs the numbers of one block of threads.
__device__ __forceinline__ void pack_block(int block, int first_image, const int (&own_powers)[kBlockImages],
                                           const float* __restrict__ x, int* __restrict__ powers,
                                           ChannelVector* __restrict__ packed) {
    unsigned* const overflow = reinterpret_cast<unsigned*>(powers) + kImages;
    int line = block / kBlocks;
    const int position = block % kBlocks * kThreads + threadIdx.x;
    if (position >= kLength) {
        return;
    }
    ChannelVector* own = packed + line * static_cast<size_t>(kLength) + position;
    const int channel = line % kVectors * 8, group = line / kVectors;
    const int image = position / (kRowPitch * kColumnPitch);
    const int offset = position % (kRowPitch * kColumnPitch);
    const int power = image < kImages ? own_powers[image - first_image] : 0;
    if (power == kAlreadyPacked) {
        return;
    }
    if (block < kBlocks && offset == 0 && image < kImages) {
        powers[image] = power;
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    const int row = (offset / kColumnPitch - kAbove);
    const int column = (offset % kColumnPitch - kLeft);
    const bool is_pixel = image < kImages && row >= 0 && row < kRows && column >= 0 && column < kColumns;
    const auto* source = x + image * kImageStride +
                         (group * kChannels + channel) * static_cast<size_t>(kChannelStride) + row * kRowStride +
                         column * kColumnStride;
    float numbers[8];
    unsigned maximum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float number = is_pixel && channel + i < kChannels
                                 ? source[i * static_cast<size_t>(kChannelStride)]
                                 : 0.0f;
        maximum = max(maximum, magnitude(number));
        numbers[i] = number * factor;
    }
    record_overflow(maximum, power, overflow, image);
    store(numbers, own, own + kLow);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_pack_x(const float* __restrict__ x, const unsigned* __restrict__ largest,
                        int* __restrict__ powers, ChannelVector* __restrict__ packed) {
    __shared__ int own_powers[kBlockImages];
    const int block = blockIdx.x, first_image = block % kBlocks * kThreads / (kRowPitch * kColumnPitch);
    find_powers(largest, first_image, own_powers);
    pack_block(block, first_image, own_powers, x, powers, packed);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_pack_x_again(const float* __restrict__ x, const unsigned* __restrict__ largest,
                              int* __restrict__ powers, ChannelVector* __restrict__ packed) {
    const unsigned* const overflow = reinterpret_cast<const unsigned*>(powers) + kImages;
    if (overflow[kImages] == 0) {
        return;
    }
    __shared__ int own_powers[kBlockImages];
    for (int block = blockIdx.x; block < kAllBlocks; block += gridDim.x) {
        const int first_image = block % kBlocks * kThreads / (kRowPitch * kColumnPitch);
        __syncthreads();  // all threads have read the exponents of the previous block
        for (int own = threadIdx.x; own < kBlockImages; own += kThreads) {
            const unsigned maximum = first_image + own < kImages ? overflow[first_image + own] : 0;
            own_powers[own] = maximum == 0 ? kAlreadyPacked : power_of(maximum);
        }
        __syncthreads();
        pack_block(block, first_image, own_powers, x, powers, packed);
    }
}
