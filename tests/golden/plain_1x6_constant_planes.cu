// warpsmith filter2d_plain
// problem: filter2d image=1x4099 filter=1x6 planes=64 dtype=float32 border=constant cval=-1.25
// config:  block_columns=256 block_rows=1 columns=1 filters=1 min_blocks=0 path=global rows=1 weights=argument
//
// kThreadRows x kThreadColumns outputs a thread. A pixel is read from global memory wherever a tap needs it.
// The baseline that a winner has to beat.

constexpr int kRows = 1;  // of one plane of the image
constexpr int kColumns = 4099;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 4099;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 1;
constexpr int kFilterColumns = 6;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 4099;
constexpr int kBeforeRows = 0;  // of a window, above its output pixel
constexpr int kBeforeColumns = 3;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kOutputElements = kOutputColumns * kChannels;  // of a row of the result
constexpr int kThreadRows = 1;  // outputs a thread, down
constexpr int kThreadColumns = 1;  // and across, in elements
constexpr int kThreadFilters = 1;  // that use a pixel once it is read
constexpr int kBlockColumns = 256;  // threads across a block
constexpr int kBlockRows = 1;  // and down
constexpr int kColumnBlocks = 17;
constexpr int kRowBlocks = 1;

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
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

// k k k | a b c d | k k k
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    const bool inside = row >= 0 && row < kRows && element >= 0 && element < kColumns * kChannels;
    return inside ? load(plane, row, element) : -1.25f;
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
