// warpsmith filter2d_window
// problem: filter2d image=1080x1920 filter=3x3 planes=1 dtype=float16 border=nearest channels=3
// config:  block_columns=32 block_strips=4 columns=8 load=cached load_vector=8 method=direct min_blocks=0 order=rows path=shared prefetch=0 rows=4 store=plain store_vector=8 tail=whole unroll=2 weights=argument
//
// A window that slides down in registers. Each thread owns kThreadColumns adjacent elements and walks down
// kThreadRows output rows. Every input row is read once and added into the outputs in progress; the output
// that it completes is stored. The outputs around, whose windows need care, are computed one by one.

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

using Pixel = unsigned short;  // the bits of a half
using Result = unsigned short;  // the bits of a half

constexpr int kThreadColumns = 8;  // outputs a thread, across
constexpr int kThreadRows = 4;  // and down
constexpr int kUnroll = 2;  // input rows in one turn of the loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kLoadVector = 8;  // elements in one load
constexpr int kStoreVector = 8;  // and in one store
constexpr int kLoads = 3;  // loads that cover a thread's part of a row
constexpr int kPixels = kLoads * kLoadVector;
constexpr int kBlockColumns = 32;  // threads across a block
constexpr int kBlockStrips = 4;  // and down
constexpr int kColumnBlocks = 23;  // blocks across the interior
constexpr int kStripBlocks = 68;  // and down
constexpr int kFrameBlocks = 225;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 1;  // of the interior
constexpr int kInteriorRows = 1078;
constexpr int kFirstColumn = 8;  // of the interior, in elements, where a row is not skewed
constexpr int kInteriorThreads = 718;  // across it

// Elements read left of a row's first tap so that loads are aligned.
__device__ constexpr int lead_of(int) { return 5; }

// Elements that a row of outputs is moved right so that stores are aligned.
__device__ constexpr int skew_of(int) { return 0; }

#ifndef WARPSMITH_ON_HOST  // the host device has its own
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

// The pixel that an element of a row belongs to; elements left of the image are negative.
__device__ __forceinline__ int column_of(int element) {
    return (element + kBeforeColumns * kChannels) / kChannels - kBeforeColumns;
}

// Where the border takes its pixel from: a a a | a b c d | d d d.
__device__ __forceinline__ int source_index(int i, int size) {
    return min(max(i, 0), size - 1);
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    const int column = column_of(element);
    const int source = source_index(column, kColumns) * kChannels + element - column * kChannels;
    return load(plane, source_index(row, kRows), source);
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorThreads * kThreadColumns;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 28768;  // of one plane

// Output n of a plane's frame: first the rows above and below the interior, then what is left and right of it.
__device__ __forceinline__ void locate(int n, int& row, int& element) {
    if (n < kFrameRowPixels) {
        row = n / kRowOutputs;
        element = n - row * kRowOutputs;
        row += row < kFirstRow ? 0 : kInteriorRows;
        return;
    }
    constexpr int kSides = kRowOutputs > kInteriorColumns ? kRowOutputs - kInteriorColumns : 1;
    const int inside = (n - kFrameRowPixels) / kSides;
    element = n - kFrameRowPixels - inside * kSides;
    row = kFirstRow + inside;
    element += element < kFirstColumn + skew_of(inside) ? 0 : kInteriorColumns;
}

__device__ __forceinline__ void compute_frame(const Plane& plane, Result* __restrict__ result, const Weights& weights,
                                              int n) {
    int row, element;
    locate(n, row, element);
#pragma unroll 1
    for (int f = 0; f < kFilters; ++f) {
        float sum = 0.0f;
#pragma unroll kFilterColumns < 8 ? 8 : 4  // so many rows' loads are in flight together
        for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float pixel = pixel_at(plane, row + r - kBeforeRows, element + (s - kBeforeColumns) * kChannels);
                sum = fmaf(tap(weights, f, r, s), pixel, sum);
            }
        }
        result[(f * kOutputRows + row) * kResultPitch + element] = to_result(sum);
    }
}

using Vector = uint4;
using StoreVector = uint4;
using Sums = float[kFilters][kInProgress][kThreadColumns];

__device__ __forceinline__ void unpack(uint4 vector, float* pixels) {
    pixels[0] = half_to_float(vector.x & 0xffff);
    pixels[1] = half_to_float(vector.x >> 16);
    pixels[2] = half_to_float(vector.y & 0xffff);
    pixels[3] = half_to_float(vector.y >> 16);
    pixels[4] = half_to_float(vector.z & 0xffff);
    pixels[5] = half_to_float(vector.z >> 16);
    pixels[6] = half_to_float(vector.w & 0xffff);
    pixels[7] = half_to_float(vector.w >> 16);
}

__device__ __forceinline__ uint4 pack(const float* sums) {
    return make_uint4(floats_to_half2(sums[0], sums[1]), floats_to_half2(sums[2], sums[3]), floats_to_half2(sums[4], sums[5]), floats_to_half2(sums[6], sums[7]));
}

// A thread's part of one row of the image, as it is stored.
struct Row {
    Vector vectors[kLoads];
};

constexpr int kTileRows = kBlockStrips * kThreadRows + kFilterRows - 1;
constexpr int kTileVectors = (kBlockColumns - 1) * kThreadColumns / kLoadVector + kLoads;  // of one row

// From the block's tile in shared memory; `first` is the strip's first row there.
struct Rows {
    const Vector* first;

    __device__ __forceinline__ Row read(int row, int) const {
        Row part;
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            part.vectors[i] = first[row * kTileVectors + i];
        }
        return part;
    }
};

// Fills the tile. `row` is its first output row in the interior, `thread` the block's first thread across it.
__device__ __forceinline__ void fill(Vector* tile, const Plane& plane, int row, int thread) {
    const int first_element = kFirstColumn + thread * kThreadColumns - kBeforeColumns * kChannels;
    const int idle = max(0, thread + kBlockColumns - kInteriorThreads);
    const int vectors = kTileVectors - idle * kThreadColumns / kLoadVector;
    const int rows = min(kTileRows, kInteriorRows - row + kFilterRows - 1);
    for (int i = threadIdx.y * kBlockColumns + threadIdx.x; i < kTileRows * kTileVectors;
         i += kBlockColumns * kBlockStrips) {
        const int tile_row = i / kTileVectors;
        const int tile_vector = i - tile_row * kTileVectors;
        if (tile_row < rows && tile_vector < vectors) {
            const int source_row = kFirstRow + row + tile_row - kBeforeRows;
            const int element = first_element - lead_of(tile_row) + tile_vector * kLoadVector;
            tile[i] = __ldg(reinterpret_cast<const Vector*>(plane.pixels + source_row * kPitch + element));
        }
    }
    __syncthreads();
}

// Stores row j of a turn, for each filter; `target` is where an unskewed row of the first filter would be stored.
__device__ __forceinline__ void store_row(Result* __restrict__ target, const Sums& sums, int j) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
        StoreVector* vectors = reinterpret_cast<StoreVector*>(target + f * (kOutputRows * kResultPitch) + skew_of(j));
#pragma unroll
        for (int i = 0; i < kThreadColumns / kStoreVector; ++i) {
            vectors[i] = pack(sums[f][j] + i * kStoreVector);
        }
    }
}

template <int kWidth>
__device__ __forceinline__ void add_tap(float (&sums)[kWidth], const float* pixels, float weight) {
#pragma unroll
    for (int c = 0; c < kWidth; ++c) {
        sums[c] = fmaf(weight, pixels[c], sums[c]);
    }
}

// Adds row k of a turn to the outputs in progress, from the oldest to the newest: filter rows `first` to `last` - 1,
// since the others lie outside the strip.
__device__ __forceinline__ void add_row(Sums& sums, const Row& part, const Weights& weights, int k, int first, int last) {
    float pixels[kPixels];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        unpack(part.vectors[i], pixels + i * kLoadVector);
    }

#pragma unroll
    for (int r = kFilterRows - 1; r >= 0; --r) {
        if (r < first || r >= last) {
            continue;
        }
#pragma unroll
        for (int f = 0; f < kFilters; ++f) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float* from = pixels + lead_of(k) + skew_of(k - r) + s * kChannels;
                add_tap(sums[f][k - r], from, tap(weights, f, r, s));
            }
        }
    }
}

// The window moves on by `rows`: what was in progress moves up, and new outputs start from nothing.
__device__ __forceinline__ void advance(Sums& sums, int rows) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
#pragma unroll
        for (int j = 0; j < kInProgress; ++j) {
#pragma unroll
            for (int c = 0; c < kThreadColumns; ++c) {
                sums[f][j][c] = j + rows < kInProgress ? sums[f][j + rows][c] : 0.0f;
            }
        }
    }
}

// Walks down a strip of `rows` output rows, of which `target` is the first.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, const Weights& weights, int rows) {
    constexpr int kLast = kFilterRows - 1;  // a window's last row completes it
    Sums sums = {};

    // The rows above the first complete window.
#pragma unroll
    for (int k = 0; k < kLast; ++k) {
        add_row(sums, source.read(k, k), weights, k, 0, k + 1);
    }

    int done = 0;
#pragma unroll 1
    for (; done < rows; done += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            add_row(sums, source.read(kLast + done + u, kLast + u), weights, kLast + u, 0, kFilterRows);
            store_row(target + (done + u) * kResultPitch, sums, u);
}
        advance(sums, kUnroll);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips)
filter2d_window(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    constexpr int kResultPlane = kFilters * kOutputRows * kResultPitch;
    // The frame is the slow part, pixel by pixel: it goes first, so that nobody waits for it at the end.
    if (blockIdx.x < kFrameBlocks) {
        const int n = (blockIdx.x * kBlockStrips + threadIdx.y) * kBlockColumns + threadIdx.x;
        const int plane = n / kFramePixels;
        if (plane < 1) {
            compute_frame(plane_of(image, plane), result + plane * kResultPlane, weights, n % kFramePixels);
        }
        return;
    }
    const int block = blockIdx.x - kFrameBlocks;
    const int first_thread = block % kColumnBlocks * kBlockColumns;
    const int first_row = block / kColumnBlocks % kStripBlocks * (kBlockStrips * kThreadRows);
    const int plane = block / (kColumnBlocks * kStripBlocks);
    const Plane pixels = plane_of(image, plane);
    __shared__ __align__(16) Vector tile[kTileRows * kTileVectors];
    fill(tile, pixels, first_row, first_thread);
    const int thread = first_thread + threadIdx.x;
    const int inside = first_row + threadIdx.y * kThreadRows;
    if (thread >= kInteriorThreads || inside >= kInteriorRows) {
        return;
    }
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const int element = kFirstColumn + thread * kThreadColumns;
    Result* target = result + plane * kResultPlane + row * kResultPitch + element;
    const int column = threadIdx.x * (kThreadColumns / kLoadVector);
    slide({tile + threadIdx.y * kThreadRows * kTileVectors + column}, target, weights, rows);
}
