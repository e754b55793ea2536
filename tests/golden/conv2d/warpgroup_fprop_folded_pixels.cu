// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=128x3x227x227 weight=96x3x11x11 precision=ieee stride=4x4
//
// The images of x as float16, on a line of positions with zeros between them; eight channels side by side.
constexpr int kThreads = 256;
constexpr int kShares = 1;  // of an image, whose largest numbers were found
constexpr int kBlockImages = 2;  // that a block of threads has positions of, at the most
constexpr int kHeadroom = 6;  // powers of two that numbers may lie above the sample
constexpr int kAllBlocks = 9750;
constexpr int kLaidOut = 0x7fffffff;  // in place of a power of two: the image is right as it is

constexpr int kImages = 128;
constexpr int kChannels = 48;  // of a group
constexpr int kChunks = 6;  // of eight channels, in a group
constexpr int kRows = 57;
constexpr int kColumns = 57;
constexpr int kFoldedRows = 4;  // that are channels
constexpr int kFoldedColumns = 4;
constexpr int kFolded = kFoldedRows * kFoldedColumns;  // those of one channel side by side
constexpr int kImageRows = 227;
constexpr int kImageColumns = 227;
constexpr int kRowMultiple = 4;  // rows of the image from row to row of the folded one
constexpr int kColumnMultiple = 4;
constexpr int kColumnSpread = 1;  // columns from one that is folded to the next
constexpr int kZerosAbove = 0;  // that the folded image has as pixels
constexpr int kZerosLeft = 0;
constexpr size_t kImageStride = 154587;  // elements of x
constexpr int kChannelStride = 51529;
constexpr int kRowStride = 227;
constexpr int kColumnStride = 1;
constexpr int kRowPitch = 57;  // positions of an image, in rows
constexpr int kColumnPitch = 57;  // and of a row
constexpr int kAbove = 0;  // where the first row is
constexpr int kLeft = 0;
constexpr int kLength = 415990;  // positions
constexpr int kBlocks = 1625;  // of threads, for them
constexpr size_t kLow = 2495940;  // from high parts to low ones

// Eight numbers of 16 bits side by side.
struct __align__(16) Eight {
    unsigned short of[8];
};

#ifndef WARPSMITH_ON_HOST  // the host device has its own
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

// The bits of a magnitude, which are in the order of magnitudes; 0 of what is not finite.
__device__ __forceinline__ unsigned magnitude(float number) {
    constexpr unsigned kInfinityBits = 0x7f800000u;
    const unsigned bits = __float_as_uint(fabsf(number));
    return bits < kInfinityBits ? bits : 0u;
}

// 2 to which power brings `largest` to [2^14, 2^15), or so much lower, as far as floats go.
__device__ __forceinline__ int power_of(unsigned largest, int headroom = 0) {
    return min(14 + 127 - static_cast<int>(largest >> 23) - headroom, 126);
}

// Remembers the largest number of an image that is beyond 2^15 when it is scaled: halves end at 2^16.
__device__ __forceinline__ void tell_beyond(unsigned most, int power, unsigned* __restrict__ beyond, int image) {
    if (static_cast<int>(most >> 23) - 127 + power > 14) {
        atomicMax(&beyond[image], most);
        atomicMax(&beyond[kImages], most);
    }
}

// The power of each image that a block has positions of, of what the blocks of its sample have found.
__device__ __forceinline__ void find_powers(const unsigned* __restrict__ largest, int first_image, int (&powers)[kBlockImages]) {
    for (int own = threadIdx.x; own < kBlockImages; own += kThreads) {
        unsigned most = 0;
        if (first_image + own < kImages) {
#pragma unroll
            for (int i = 0; i < kShares; ++i) {
                most = max(most, largest[(first_image + own) * kShares + i]);
            }
        }
        powers[own] = power_of(most, kHeadroom);
    }
    __syncthreads();
}

// Stores the halves of eight numbers that are scaled already: what each half leaves is the low one. An infinity leaves nothing.
__device__ __forceinline__ void store(const float (&numbers)[8], Eight* high, Eight* low) {
    Eight above, below;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        above.of[i] = float_to_half(numbers[i]);
        const float left = numbers[i] - half_to_float(above.of[i]);
        below.of[i] = float_to_half(fabsf(left) <= 16.0f ? left : 0.0f);
    }
    *high = above;
    *low = below;
}

// The row and the column of the image that are a folded channel's row and column.
__device__ __forceinline__ int image_row(int channel, int row) {
    return row * kRowMultiple + channel / kFoldedColumns % kFoldedRows - kZerosAbove;
}

__device__ __forceinline__ int image_column(int channel, int column) {
    return column * kColumnMultiple + channel % kFoldedColumns * kColumnSpread - kZerosLeft;
}

__device__ __forceinline__ bool is_image(int row, int column) {
    return row >= 0 && row < kImageRows && column >= 0 && column < kImageColumns;
}

__device__ __forceinline__ bool is_folded(int channel, int row, int column) {
    return channel < kChannels && is_image(image_row(channel, row), image_column(channel, column));
}

__device__ __forceinline__ int folded_pixel(int channel, int row, int column) {
    return channel / kFolded * kChannelStride + image_row(channel, row) * kRowStride +
           image_column(channel, column) * kColumnStride;
}

// Lays out the numbers of one block of threads.
__device__ __forceinline__ void lay_out(int block, int first_image, const int (&own_powers)[kBlockImages],
                                        const float* __restrict__ x, int* __restrict__ powers,
                                        Eight* __restrict__ halves) {
    unsigned* const beyond = reinterpret_cast<unsigned*>(powers) + kImages;
    int line = block / kBlocks;
    const int position = block % kBlocks * kThreads + threadIdx.x;
    if (position >= kLength) {
        return;
    }
    Eight* own = halves + line * static_cast<size_t>(kLength) + position;
    const int channel = line % kChunks * 8;
    const int image = position / (kRowPitch * kColumnPitch);
    const int place = position % (kRowPitch * kColumnPitch);
    const int power = image < kImages ? own_powers[image - first_image] : 0;
    if (power == kLaidOut) {
        return;
    }
    if (block < kBlocks && place == 0 && image < kImages) {
        powers[image] = power;
    }
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    const int row = (place / kColumnPitch - kAbove);
    const int column = (place % kColumnPitch - kLeft);
    const bool is_pixel = image < kImages && row >= 0 && row < kRows && column >= 0 && column < kColumns;
    const auto* source = x + image * kImageStride;
    float numbers[8];
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float number = is_pixel && is_folded(channel + i, row, column) ? source[folded_pixel(channel + i, row, column)] : 0.0f;
        most = max(most, magnitude(number));
        numbers[i] = number * factor;
    }
    tell_beyond(most, power, beyond, image);
    store(numbers, own, own + kLow);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_halve_x(const float* __restrict__ x, const unsigned* __restrict__ largest, int* __restrict__ powers, Eight* __restrict__ halves) {
    __shared__ int own_powers[kBlockImages];
    const int block = blockIdx.x, first_image = block % kBlocks * kThreads / (kRowPitch * kColumnPitch);
    find_powers(largest, first_image, own_powers);
    lay_out(block, first_image, own_powers, x, powers, halves);
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_warpgroup_halve_x_again(const float* __restrict__ x, const unsigned* __restrict__ largest, int* __restrict__ powers, Eight* __restrict__ halves) {
    const unsigned* const beyond = reinterpret_cast<const unsigned*>(powers) + kImages;
    if (beyond[kImages] == 0) {
        return;
    }
    __shared__ int own_powers[kBlockImages];
    for (int block = blockIdx.x; block < kAllBlocks; block += gridDim.x) {
        const int first_image = block % kBlocks * kThreads / (kRowPitch * kColumnPitch);
        __syncthreads();  // all have read the powers of the block before
        for (int own = threadIdx.x; own < kBlockImages; own += kThreads) {
            const unsigned most = first_image + own < kImages ? beyond[first_image + own] : 0;
            own_powers[own] = most == 0 ? kLaidOut : power_of(most);
        }
        __syncthreads();
        lay_out(block, first_image, own_powers, x, powers, halves);
    }
}
