// warpsmith filter2d_plain
// problem: filter2d image=1080x1920 filter=3x3 planes=1 dtype=uint8 border=mirror channels=3 convolve=yes
// config:  block_columns=64 block_rows=4 columns=4 filters=1 min_blocks=0 path=global rows=1 weights=argument
//
// kThreadRows x kThreadColumns outputs a thread. A pixel is read from global memory wherever a tap needs it.
// The baseline that a winner has to beat.

constexpr int kRows = 1080;  // of one plane of the image
constexpr int kColumns = 1920;
constexpr int kChannels = 3;  // elements of a pixel, side by side
constexpr int kPitch = 5760;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 5760;
constexpr int kBeforeRows = 1;  // of a window, above its output pixel
constexpr int kBeforeColumns = 1;  // and left of it

using Pixel = unsigned char;
using Result = unsigned char;

constexpr int kOutputElements = kOutputColumns * kChannels;  // of a row of the result
constexpr int kThreadRows = 1;  // outputs a thread, down
constexpr int kThreadColumns = 4;  // and across, in elements
constexpr int kThreadFilters = 1;  // that use a pixel once it is read
constexpr int kBlockColumns = 64;  // threads across a block
constexpr int kBlockRows = 4;  // and down
constexpr int kColumnBlocks = 23;
constexpr int kRowBlocks = 270;

__device__ __forceinline__ float to_float(unsigned char value) { return value; }

// To the nearest integer, half to even, in the lowest byte: 1.5 * 2^23 leaves a float no bits for fractions.
__device__ __forceinline__ unsigned rounded(float value) {
    return __float_as_uint(fminf(fmaxf(value, 0.0f), 255.0f) + 12582912.0f);
}

__device__ __forceinline__ Result to_result(float value) { return static_cast<Result>(rounded(value)); }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

// The filter turned by 180 degrees: a convolution.
__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][kFilterRows - 1 - r][kFilterColumns - 1 - s];
}

// One plane of the image, and one of its elements as float.
struct Plane {
    const Pixel* pixels;
};

__device__ __forceinline__ Plane plane_of(const Pixel* image, int plane) {
    return {image + plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return to_float(__ldg(plane.pixels + row * kPitch + element));
}

// The pixel that an element of a row belongs to; elements left of the image are negative.
__device__ __forceinline__ int column_of(int element) {
    return (element + kBeforeColumns * kChannels) / kChannels - kBeforeColumns;
}

// Where the border takes its pixel from: d c b | a b c d | c b a.
__device__ __forceinline__ int source_index(int i, int size) {
    i = i < 0 ? -i : i;
    return i >= size ? 2 * size - 2 - i : i;
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    const int column = column_of(element);
    const int source = source_index(column, kColumns) * kChannels + element - column * kChannels;
    return load(plane, source_index(row, kRows), source);
}

// One element of each result; `results` are those of the plane.
__device__ __forceinline__ void filter_element(const Plane& plane, Result* results, const Weights& weights,
                                               int row, int element) {
    float sums[kThreadFilters] = {};
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            const float pixel = pixel_at(plane, row + r - kBeforeRows, element + (s - kBeforeColumns) * kChannels);
#pragma unroll
            for (int f = 0; f < kThreadFilters; ++f) {
                const float weight = tap(weights, f, r, s);
                sums[f] = fmaf(weight, pixel, sums[f]);
            }
        }
    }
#pragma unroll
    for (int f = 0; f < kThreadFilters; ++f) {
        results[f * (kOutputRows * kResultPitch) + row * kResultPitch + element] = to_result(sums[f]);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockRows)
filter2d_plain(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    const int block = blockIdx.x;
    const int block_column = block % kColumnBlocks;
    const int block_row = block / kColumnBlocks % kRowBlocks;
    const int plane_index = block / (kColumnBlocks * kRowBlocks);
    const int first_element = (block_column * kBlockColumns + threadIdx.x) * kThreadColumns;
    const int first_row = (block_row * kBlockRows + threadIdx.y) * kThreadRows;
    if (first_element >= kOutputElements || first_row >= kOutputRows) {
        return;
    }
    const Plane plane = plane_of(image, plane_index);
    Result* results = result + (plane_index * kFilters) * (kOutputRows * kResultPitch);
#pragma unroll
    for (int row = first_row; row < first_row + kThreadRows; ++row) {
#pragma unroll
        for (int element = first_element; element < first_element + kThreadColumns; ++element) {
            filter_element(plane, results, weights, row, element);
        }
    }
}
