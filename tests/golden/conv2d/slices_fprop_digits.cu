// warpsmith conv2d_slices
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
//
// The images of x as int8, on a line of positions with zeros between them; sixteen channels side by side.
constexpr int kThreads = 256;

constexpr int kImages = 32;
constexpr int kChannels = 64;  // of a group
constexpr int kChunks = 4;  // of sixteen channels, in a group
constexpr int kRows = 56;
constexpr int kColumns = 56;
constexpr size_t kImageStride = 200704;  // elements of x
constexpr int kChannelStride = 3136;
constexpr int kRowStride = 56;
constexpr int kColumnStride = 1;
constexpr int kRowPitch = 57;  // positions of an image, in rows
constexpr int kColumnPitch = 57;  // and of a row
constexpr int kAbove = 1;  // where the first row is
constexpr int kLeft = 1;
constexpr int kLength = 104182;  // positions
constexpr int kBlocks = 407;  // of threads, for them
constexpr size_t kLow = 416728;  // from high parts to lower ones

// Sixteen digits side by side.
struct __align__(16) Sixteen {
    signed char of[16];
};

// Stores the digits of sixteen numbers that are scaled already, the highest ones first.
__device__ __forceinline__ void store(const float (&numbers)[16], Sixteen* high, Sixteen* middle, Sixteen* low) {
    constexpr float kLargest = 8355711.0f;  // three digits of 127
    Sixteen digits[3];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int whole = static_cast<int>(rintf(fminf(fmaxf(numbers[i], -kLargest), kLargest)));
        const int last = static_cast<signed char>(whole), rest = (whole - last) / 256;
        const int next = static_cast<signed char>(rest);
        digits[0].of[i] = static_cast<signed char>((rest - next) / 256);
        digits[1].of[i] = static_cast<signed char>(next);
        digits[2].of[i] = static_cast<signed char>(last);
    }
    *high = digits[0];
    *middle = digits[1];
    *low = digits[2];
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_slices_halve_x(const float* __restrict__ x, const int* __restrict__ powers, Sixteen* __restrict__ halves) {
    int line = blockIdx.x / kBlocks;
    const int position = blockIdx.x % kBlocks * kThreads + threadIdx.x;
    if (position >= kLength) {
        return;
    }
    Sixteen* own = halves + line * static_cast<size_t>(kLength) + position;
    const int channel = line % kChunks * 16, group = line / kChunks;
    const int image = position / (kRowPitch * kColumnPitch);
    const int place = position % (kRowPitch * kColumnPitch);
    const float factor = __uint_as_float(static_cast<unsigned>(127 + powers[min(image, kImages - 1)]) << 23);
    const int row = (place / kColumnPitch - kAbove);
    const int column = (place % kColumnPitch - kLeft);
    const bool is_pixel = image < kImages && row >= 0 && row < kRows && column >= 0 && column < kColumns;
    const auto* source = x + image * kImageStride + (group * kChannels + channel) * static_cast<size_t>(kChannelStride) +
                         row * kRowStride + column * kColumnStride;
    float numbers[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        numbers[i] = is_pixel && channel + i < kChannels ? source[i * static_cast<size_t>(kChannelStride)] * factor : 0.0f;
    }
    store(numbers, own, own + kLow, own + 2 * kLow);
}
