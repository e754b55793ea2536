// warpsmith filter2d_plain
// problem: filter2d image=9216x9216 filter=3x3 planes=1 dtype=float32 border=valid
// config:  block_columns=32 block_rows=8 columns=1 filters=1 min_blocks=0 path=global rows=1 weights=argument
//
// Baseline without shared memory. A thread computes kThreadRows x kThreadColumns outputs of kThreadFilters filters and
// reads a pixel from global memory for every tap. Blocks are numbered columns first, then rows, then planes.

constexpr int kRows = 9216;  // rows of one plane of the image
constexpr int kColumns = 9216;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 9216;  // elements from one row to the next
constexpr int kFilters = 1;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 9214;
constexpr int kBeforeRows = 0;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 0;  // columns of a window left of it

using Pixel = float;
using Result = float;

constexpr int kOutputElements = kOutputColumns * kChannels;  // elements per row of the result
constexpr int kThreadRows = 1;  // output rows per thread
constexpr int kThreadColumns = 1;  // output elements per thread in a row
constexpr int kThreadFilters = 1;  // filters per thread, which share each pixel that it reads
constexpr int kBlockColumns = 32;  // threads of a block in x
constexpr int kBlockRows = 8;  // threads of a block in y
constexpr int kColumnBlocks = 288;
constexpr int kRowBlocks = 1152;

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image; load() returns one of its elements as float.
struct Plane {
    const Pixel* pixels;
};

__device__ __forceinline__ Plane plane_of(const Pixel* image, int plane) {
    return {image + plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return to_float(__ldg(plane.pixels + row * kPitch + element));
}

// Border `valid`: no window reaches outside the image.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, row, element);
}

// Computes one element of each result; `results` points to the result of the plane's first filter.
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
