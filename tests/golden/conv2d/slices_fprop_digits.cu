// warpsmith conv2d_slices
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// Packs the images of x as int8 for the tensor cores. The pixels of all images lie on one line, row by row and
// image by image, with zeros between rows and images; `position` counts them. A channel vector is sixteen channels of a
// pixel; each thread packs one. Layout:
// [part][group][channel vector][plane][position][channel].
constexpr int kThreads = 256;

constexpr int kImages = 32;
constexpr int kChannels = 64;  // channels per group
constexpr int kVectors = 4;  // channel vectors (sixteen channels) per group
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
constexpr size_t kLow = 416728;  // from slice to slice

// One slice of sixteen channels.
struct __align__(16) ChannelVector {
    signed char values[16];
};

// Rounds sixteen scaled numbers to integers and stores their three signed base-256 digits as slices.
__device__ __forceinline__ void store(const float (&numbers)[16], ChannelVector* high, ChannelVector* middle,
                                      ChannelVector* low) {
    constexpr float kLargest = 8355711.0f;  // largest number of three digits: 127 each
    ChannelVector digits[3];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int whole = static_cast<int>(rintf(fminf(fmaxf(numbers[i], -kLargest), kLargest)));
        const int last = static_cast<signed char>(whole), rest = (whole - last) / 256;
        const int next = static_cast<signed char>(rest);
        digits[0].values[i] = static_cast<signed char>((rest - next) / 256);
        digits[1].values[i] = static_cast<signed char>(next);
        digits[2].values[i] = static_cast<signed char>(last);
    }
    *high = digits[0];
    *middle = digits[1];
    *low = digits[2];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_pack_x(const float* __restrict__ x, const int* __restrict__ powers,
                     ChannelVector* __restrict__ packed) {
    int line = blockIdx.x / kBlocks;
    const int position = blockIdx.x % kBlocks * kThreads + threadIdx.x;
    if (position >= kLength) {
        return;
    }
    ChannelVector* own = packed + line * static_cast<size_t>(kLength) + position;
    const int channel = line % kVectors * 16, group = line / kVectors;
    const int image = position / (kRowPitch * kColumnPitch);
    const int offset = position % (kRowPitch * kColumnPitch);
    const float factor = __uint_as_float(static_cast<unsigned>(127 + powers[min(image, kImages - 1)]) << 23);
    const int row = (offset / kColumnPitch - kAbove);
    const int column = (offset % kColumnPitch - kLeft);
    const bool is_pixel = image < kImages && row >= 0 && row < kRows && column >= 0 && column < kColumns;
    const auto* source = x + image * kImageStride +
                         (group * kChannels + channel) * static_cast<size_t>(kChannelStride) + row * kRowStride +
                         column * kColumnStride;
    float numbers[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        numbers[i] = is_pixel && channel + i < kChannels
                         ? source[i * static_cast<size_t>(kChannelStride)] * factor
                         : 0.0f;
    }
    store(numbers, own, own + kLow, own + 2 * kLow);
}
