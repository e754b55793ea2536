// warpsmith conv2d_plain
// problem: conv2d pass=dgrad input=32x256x28x28 weight=256x8x3x3 precision=ieee dtype=bfloat16 padding=1x1 padding_mode=reflect groups=32 layout=nhwc bias=yes
// config:  threads=256 unroll=1
//
// A thread a result, and every tap read from global memory where it is needed.
// Neighbouring threads have neighbouring channels, which lie side by side in memory.

constexpr int kGroups = 32;
constexpr int kChannels = 8;  // of x, in a group
constexpr int kRows = 28;  // of an image of x
constexpr int kColumns = 28;
constexpr int kFilters = 8;  // and so channels of y, in a group
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = 28;  // of an image of y
constexpr int kOutputColumns = 28;
constexpr int kStrideRows = 1;
constexpr int kStrideColumns = 1;
constexpr int kDilationRows = 1;
constexpr int kDilationColumns = 1;
constexpr int kAbove = 1;  // rows of padding
constexpr int kLeft = 1;

constexpr unsigned kResults = 6422528;
constexpr int kPaddedRows = 30;  // of an image of x with its padding
constexpr int kPaddedColumns = 30;
constexpr int kThreads = 256;

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

// The places at which element i of `size` stands, counted from the first of the padding, of which there are `before`
// ahead of the elements: c b | a b c d | c b. They ascend; behind the last one comes one that is not below `places`.
__device__ __forceinline__ int first_place(int i, int before, int size) {
    return i > 0 && i <= before ? before - i : before + i;
}

__device__ __forceinline__ int next_place(int place, int i, int before, int size, int places) {
    const int last = before + size - 1;  // where the last element stands itself
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
    const int channel = index % (kGroups * kChannels);  // of all groups
    const unsigned position = index / (kGroups * kChannels);
    const int column = position % kColumns;
    const int row = position / kColumns % kRows;
    const int image = position / (kColumns * kRows);
    const int first_filter = channel / kChannels * kFilters;
    const Element* gradients = dy + image * (kOutputRows * kOutputColumns * (kGroups * kFilters)) + first_filter;
    const Element* weights = w + first_filter * (kFilterRows * kFilterColumns * kChannels) + channel % kChannels;
    float sum = 0.0f;
    // Of all places at which the pixel stands, row by row.
    for (int place = first_place(row, kAbove, kRows); place < kPaddedRows;
         place = next_place(place, row, kAbove, kRows, kPaddedRows)) {
        for (int column_place = first_place(column, kLeft, kColumns); column_place < kPaddedColumns;
             column_place = next_place(column_place, column, kLeft, kColumns, kPaddedColumns)) {
#pragma unroll
            for (int r = 0; r < kFilterRows; ++r) {
                // The row of y whose tap r lies on this row of x, where that is a whole number.
                const int steps = place - r * kDilationRows;
                const int p = steps / kStrideRows;
#pragma unroll
                for (int s = 0; s < kFilterColumns; ++s) {
                    const int column_steps = column_place - s * kDilationColumns;
                    const int q = column_steps / kStrideColumns;
                    if (steps >= 0 && steps % kStrideRows == 0 && p < kOutputRows &&
                        column_steps >= 0 && column_steps % kStrideColumns == 0 && q < kOutputColumns) {
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
