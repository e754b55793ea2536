// warpsmith filter2d_plain
// problem: filter2d image=512x512 filter=3x3 planes=1 dtype=float32 border=nearest weights=sha256:a8171ae2f908005b
// config:  block_columns=32 block_rows=8 columns=1 filters=1 min_blocks=0 path=global rows=1 weights=literal
//
// kThreadRows x kThreadColumns outputs a thread. A pixel is read from global memory wherever a tap needs it.
// The baseline that a winner has to beat.

constexpr int kRows = 512;  // of one plane of the image
constexpr int kColumns = 512;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 512;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 512;
constexpr int kBeforeRows = 1;  // of a window, above its output pixel
constexpr int kBeforeColumns = 1;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kOutputElements = kOutputColumns * kChannels;  // of a row of the result
constexpr int kThreadRows = 1;  // outputs a thread, down
constexpr int kThreadColumns = 1;  // and across, in elements
constexpr int kThreadFilters = 1;  // that use a pixel once it is read
constexpr int kBlockColumns = 32;  // threads across a block
constexpr int kBlockRows = 8;  // and down
constexpr int kColumnBlocks = 16;
constexpr int kRowBlocks = 64;

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {};  // known when the kernel was generated: see tap()

// Zero taps vanish, since the compiler knows what a constant index finds.
__constant__ constexpr float kTaps[kFilters][kFilterRows][kFilterColumns] = {
    {
        { 0.0f, 1.0f, 0.0f },
        { 1.0f, -4.0f, 1.0f },
        { 0.0f, 1.0f, 0.0f },
    },
};

__device__ __forceinline__ float tap(const Weights&, int f, int r, int s) {
    return kTaps[f][r][s];
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

// Where the border takes its pixel from: a a a | a b c d | d d d.
__device__ __forceinline__ int source_index(int i, int size) {
    return min(max(i, 0), size - 1);
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, source_index(row, kRows), source_index(element, kColumns));
}

// Whether a filter uses this tap: a pixel that none needs is not read.
__device__ __forceinline__ bool is_used(const Weights& weights, int r, int s) {
    bool used = false;
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
        used = used || tap(weights, f, r, s) != 0.0f;
    }
    return used;
}

// One element of each result; `results` are those of the plane.
__device__ __forceinline__ void filter_element(const Plane& plane, Result* results, const Weights& weights,
                                               int row, int element) {
    float sums[kThreadFilters] = {};
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            if (!is_used(weights, r, s)) {
                continue;
            }
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
filter2d_plain(const Pixel* __restrict__ image, Result* __restrict__ result) {
    const Weights weights{};
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
