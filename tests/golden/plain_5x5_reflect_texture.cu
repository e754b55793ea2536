// warpsmith filter2d_plain
// problem: filter2d image=512x640 filter=5x5 planes=1 dtype=float16 border=reflect
// config:  block_columns=32 block_rows=4 columns=1 filters=1 min_blocks=4 path=texture rows=2 weights=constant
//
// Baseline without shared memory. A thread computes kThreadRows x kThreadColumns outputs of kThreadFilters filters and
// reads a pixel through a texture for every tap. Blocks are numbered columns first, then rows, then planes.

constexpr int kRows = 512;  // rows of one plane of the image
constexpr int kColumns = 640;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kFilters = 1;
constexpr int kFilterRows = 5;
constexpr int kFilterColumns = 5;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 640;
constexpr int kBeforeRows = 2;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 2;  // columns of a window left of it

using Pixel = unsigned short;  // fp16 bits
using Result = unsigned short;  // fp16 bits

constexpr int kOutputElements = kOutputColumns * kChannels;  // elements per row of the result
constexpr int kThreadRows = 2;  // output rows per thread
constexpr int kThreadColumns = 1;  // output elements per thread in a row
constexpr int kThreadFilters = 1;  // filters per thread, which share each pixel that it reads
constexpr int kBlockColumns = 32;  // threads of a block in x
constexpr int kBlockRows = 4;  // threads of a block in y
constexpr int kColumnBlocks = 20;
constexpr int kRowBlocks = 64;

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
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

__device__ __forceinline__ float to_float(unsigned short bits) { return half_to_float(bits); }

__device__ __forceinline__ Result to_result(float value) { return float_to_half(value); }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__constant__ Weights weights;

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image; load() returns one of its elements as float.
struct Plane {
    cudaTextureObject_t texture;
    int first;  // first row of the plane in the texture
};

__device__ __forceinline__ Plane plane_of(cudaTextureObject_t image, int plane) {
    return {image, plane * kRows};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return tex2D<float>(plane.texture, element + 0.5f, plane.first + row + 0.5f);
}

// Index of the pixel that border `reflect` repeats at index i: c b a | a b c d | d c b.
__device__ __forceinline__ int source_index(int i, int size) {
    i = i < 0 ? -1 - i : i;
    return i >= size ? 2 * size - 1 - i : i;
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, source_index(row, kRows), source_index(element, kColumns));
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

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockRows, 4)
filter2d_plain(cudaTextureObject_t image, Result* __restrict__ result) {
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
