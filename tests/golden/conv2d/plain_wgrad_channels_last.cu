// warpsmith conv2d_plain
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee dtype=bfloat16 padding=1x1 layout=nhwc
// config:  threads=256 unroll=1
//
// A block kLanes weights side by side: its threads add up every kParts-th position of y, then each other's sums.
// Neighbouring threads have neighbouring channels, which lie side by side in memory.

constexpr int kGroups = 1;
constexpr int kChannels = 64;  // of x
constexpr int kRows = 56;  // of an image of x
constexpr int kColumns = 56;
constexpr int kFilters = 64;  // and so channels of y
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 56;  // of an image of y
constexpr int kOutputColumns = 56;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kAbove = 1;  // rows of zeros
constexpr int kLeft = 1;

constexpr unsigned kPositions = 100352;  // of y, in all images
constexpr unsigned kWeights = 36864;
constexpr int kLanes = 8;
constexpr int kThreads = 256;
constexpr int kParts = kThreads / kLanes;

using Element = unsigned short;  // the bits of a bfloat16

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// To the nearest, ties to even; a NaN stays one.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
}

__device__ __forceinline__ float load(const Element* from) { return bfloat_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_bfloat(value); }

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const Element* __restrict__ x, const Element* __restrict__ dy, Element* __restrict__ dw) {
    const unsigned place = blockIdx.x * kLanes + threadIdx.x % kLanes;
    const unsigned weight = min(place, kWeights - 1);  // of the taps one after the other, and of each all filters
    const int channel = weight % kChannels;  // in its group
    const int filter = weight / kChannels % (kGroups * kFilters);
    const int s = weight / (kChannels * kGroups * kFilters) % kFilterColumns;
    const int r = weight / (kChannels * kGroups * kFilters * kFilterColumns);
    const int source_channel = filter / kFilters * kChannels + channel;
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned position = threadIdx.x / kLanes; position < kPositions; position += kParts) {
        const int q = position % kOutputColumns;
        const int p = position / kOutputColumns % kOutputRows;
        const int image = position / (kOutputColumns * kOutputRows);
        const int row = p * kStrideRows + r * kDilationRows - kAbove;
        const int column = q * kStrideColumns + s * kDilationColumns - kLeft;
        if (row < 0 || row >= kRows || column < 0 || column >= kColumns) {
            continue;  // the padding
        }
        const int pixel = (image * kRows + row) * kColumns + column;
        sum = fmaf(load(x + pixel * (kGroups * kChannels) + source_channel),
                   load(dy + position * (kGroups * kFilters) + filter), sum);
    }
    __shared__ float sums[kThreads];
    sums[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int threads = kThreads / 2; threads >= kLanes; threads /= 2) {
        if (threadIdx.x < threads) {
            sums[threadIdx.x] += sums[threadIdx.x + threads];
        }
        __syncthreads();
    }
    if (threadIdx.x < kLanes && place < kWeights) {
        dw[((filter * kFilterRows + r) * kFilterColumns + s) * kChannels + channel] = rounded(sums[threadIdx.x]);
    }
}
