// warpsmith conv2d_plain
// problem: conv2d pass=dgrad input=32x256x28x28 weight=256x8x3x3 precision=ieee dtype=bfloat16 padding=1x1
//          padding_mode=reflect groups=32 layout=nhwc bias=yes
// config:  threads=256 unroll=1
//
// One thread computes one element of dx and reads every tap from global memory, without staging.
// Consecutive threads own consecutive channels, which are contiguous in memory.

constexpr int kGroups = 32;
constexpr int kChannels = 8;  // C: channels of x per group
constexpr int kRows = 28;  // H, W: size of an image of x
constexpr int kColumns = 28;
constexpr int kFilters = 8;  // K: filters per group, the channels of y
constexpr int kFilterRows = 3;  // R, S: taps of a filter
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 28;  // P, Q: size of an image of y
constexpr int kOutputColumns = 28;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kPadTop = 1;  // rows of padding above an image of x
constexpr int kPadLeft = 1;

constexpr unsigned kResults = 6422528;
constexpr int kPaddedRows = 30;  // size of a padded image of x
constexpr int kPaddedColumns = 30;
constexpr int kThreads = 256;

using Element = unsigned short;  // bits of a bfloat16

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ float load(const Element* from) { return bfloat_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_bfloat(value); }

// Iterates over the places of element i on the padded axis, counted from its first place, `before` places ahead of the
// elements: c b | a b c d | c b. The places ascend; the iteration ends at a place >= `places`.
__device__ __forceinline__ int first_place(int i, int before, int size) {
    return i > 0 && i <= before ? before - i : before + i;
}

__device__ __forceinline__ int next_place(int place, int i, int before, int size, int places) {
    const int last = before + size - 1;  // place of the last element itself
    return place < before ? before + i : place < last ? 2 * last - place : places;
}

extern "C" __global__ void __launch_bounds__(kThreads)
conv2d_plain(const Element* __restrict__ dy,
             const Element* __restrict__ w,
             const Element* __restrict__ b,
             Element* __restrict__ dx) {
    const unsigned index = blockIdx.x * kThreads + threadIdx.x;
    if (index >= kResults) {
        return;
    }
    const int channel = index % (kGroups * kChannels);  // among the channels of all groups
    const unsigned input_pixel = index / (kGroups * kChannels);
    const int column = input_pixel % kColumns;
    const int row = input_pixel / kColumns % kRows;
    const int image = input_pixel / (kColumns * kRows);
    const int first_filter = channel / kChannels * kFilters;
    const Element* gradients = dy + image * (kOutputRows * kOutputColumns * (kGroups * kFilters)) + first_filter;
    const Element* weights = w + first_filter * (kFilterRows * kFilterColumns * kChannels) + channel % kChannels;
    float sum = 0.0f;
    // Sums the gradients of all pixels of the padded image that repeat this one, in ascending order.
    for (int place = first_place(row, kPadTop, kRows); place < kPaddedRows;
         place = next_place(place, row, kPadTop, kRows, kPaddedRows)) {
        for (int column_place = first_place(column, kPadLeft, kColumns); column_place < kPaddedColumns;
             column_place = next_place(column_place, column, kPadLeft, kColumns, kPaddedColumns)) {
#pragma unroll
            for (int r = 0; r < kFilterRows; ++r) {
                // Tap r of output row p reads this row of x if row_offset == p * kStrideRows.
                const int row_offset = place - r * kDilationRows;
                const int p = row_offset / kStrideRows;
#pragma unroll
                for (int s = 0; s < kFilterColumns; ++s) {
                    const int column_offset = column_place - s * kDilationColumns;
                    const int q = column_offset / kStrideColumns;
                    if (row_offset >= 0 && row_offset % kStrideRows == 0 && p < kOutputRows &&
                        column_offset >= 0 && column_offset % kStrideColumns == 0 && q < kOutputColumns) {
                        const Element* gradient = gradients + (p * kOutputColumns + q) * (kGroups * kFilters);
                        const Element* weight = weights + (r * kFilterColumns + s) * kChannels;
#pragma unroll 1
                        for (int k = 0; k < kFilters; ++k) {
                            sum = fmaf(load(weight + k * (kFilterRows * kFilterColumns * kChannels)),
                                       load(gradient + k), sum);
                        }
                    }
                }
            }
        }
    }
    sum += load(b + channel);
    dx[index] = rounded(sum);
}
