// warpsmith filter2d_matrix
// problem: filter2d image=1080x1920 filter=3x3 planes=1 dtype=float16 border=reflect channels=3
//          weights=sha256:a8171ae2f908005b
// config:  block_strips=2 block_warps=2 path=global prefetch=5 rows=12 store=streaming tiles=1 unroll=12
//          weights=argument
//
// Sliding window in the accumulators of mma.m16n8k16. A warp computes a strip of kThreadRows rows by kTiles tiles of 16
// segments of 4 adjacent outputs. Row m of matrix A has the pixels of segment m, from global memory; matrix B is a
// banded Toeplitz matrix of the weights, built once per block in shared memory. Weights are split fp16 of 22 bits:
// columns 2n and 2n + 1 of B have the high and the low parts for output n of a segment, and one thread gets both sums.
// Each input row is read once and added to all output rows in progress. The first kFrameBlocks blocks compute the
// outputs around the interior, one per thread.

constexpr int kRows = 1080;  // rows of one plane of the image
constexpr int kColumns = 1920;
constexpr int kChannels = 3;  // interleaved elements of a pixel
constexpr int kPitch = 5760;  // elements from one row to the next
constexpr int kFilters = 1;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 5760;
constexpr int kBeforeRows = 1;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 1;  // columns of a window left of it

using Pixel = unsigned short;  // fp16 bits
using Result = unsigned short;  // fp16 bits

constexpr int kProductRows = 1;  // image rows that one product sums over
constexpr int kDepth = 16 / kProductRows;  // pixels of each of them, from a segment's first pixel on
constexpr int kTiles = 1;  // adjacent tiles per warp
constexpr int kWarpColumns = 64 * kTiles;  // outputs of a warp in a row
constexpr int kAdjacent = 2;  // adjacent segments per thread
constexpr int kThreadRows = 12;  // output rows of a warp
constexpr int kUnroll = 12;  // input rows per iteration of the main loop
constexpr int kProducts = kUnroll / kProductRows;  // products per iteration, one below the other
constexpr int kWindowRows = kFilterRows;
constexpr int kStep = kProductRows * kPitch;  // elements from one product to the next
constexpr int kPrologue = (kWindowRows - 1) / kProductRows;  // products of the prologue, which complete no window
constexpr int kInProgress = kWindowRows - 1 + kUnroll;  // output rows that an iteration adds to
constexpr int kFragments = kFilterRows + kProductRows - 1;  // vertical offsets at which a product and a window overlap
constexpr int kPrefetch = 5;  // products whose pixels are loaded ahead
constexpr int kPreloaded = kPrologue + kPrefetch;  // products loaded before the main loop
constexpr int kEarlyLoads = 7;  // products loaded before the weights are ready, as registers allow
constexpr int kBlockWarps = 2;  // warps of a block in x
constexpr int kBlockStrips = 2;  // warps of a block in y, each with a strip of its own
constexpr int kColumnBlocks = 45;  // blocks across the interior
constexpr int kStripBlocks = 45;  // blocks down the interior
constexpr int kFrameBlocks = 641;  // blocks for the frames of all planes
constexpr float kUnit = 1.0f;  // scale of a sum
constexpr int kFirstRow = 1;  // first output row of the interior
constexpr int kInteriorRows = 1068;
constexpr int kFirstColumn = 4;  // first output element of the interior
constexpr int kLead = 1;  // elements loaded left of a segment's windows, so that loads and stores are aligned
constexpr int kLastColumn = 5688;  // first output of the last warp, which may overlap the warp before it
constexpr int kInteriorWarps = 90;  // warps across the interior

__device__ constexpr int skew_of(int) { return 0; }  // all rows of the interior begin at kFirstColumn

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

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// sums += a * b: 16x16 by 16x8 fp16 with float32 accumulators, in the register layout of mma.m16n8k16.
__device__ __forceinline__ void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

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

// Column of the pixel that contains an element of a row; elements left of the image are negative.
__device__ __forceinline__ int column_of(int element) {
    return (element + kBeforeColumns * kChannels) / kChannels - kBeforeColumns;
}

// Index of the pixel that border `reflect` repeats at index i: c b a | a b c d | d c b.
__device__ __forceinline__ int source_index(int i, int size) {
    i = i < 0 ? -1 - i : i;
    return i >= size ? 2 * size - 1 - i : i;
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    const int column = column_of(element);
    const int source = source_index(column, kColumns) * kChannels + element - column * kChannels;
    return load(plane, source_index(row, kRows), source);
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorWarps ? kLastColumn + kWarpColumns - kFirstColumn : 0;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // above and below it
constexpr int kFramePixels = 81936;  // outputs of the frame of one plane

// Position of output n of a plane's frame: the rows above and below the interior come first, then the columns left and
// right of it.
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
#pragma unroll kFilterColumns < 8 ? 8 : 4  // rows of taps whose loads are in flight together
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

// A thread's fragment of matrix B. Of matrix A it has four adjacent pixels of a segment, from two loads: the 16
// terms of a sum may be in any order that both matrices share.
using Fragment = uint2;

// Splits the weights into fp16 parts and writes matrix B to shared memory, distributed over the warps of a block.
// Fragment f belongs to a product whose last row is row f of a window; weights of rows outside the filter are zero. The
// weights are scaled by a power of two that brings the largest near 2^14, so that the fp16 parts keep most bits.
// Returns the inverse of that scale, without kUnit.
__device__ __forceinline__ float split(const Weights& weights, Fragment (&fragments)[kFragments][32]) {
    float largest = 0.0f;
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            largest = fmaxf(largest, fabsf(tap(weights, 0, r, s)));
        }
    }
    // 2^-112 to 2^127, so that the scale and its inverse are normal floats.
    const unsigned exponent = min(max(__float_as_uint(largest) & 0x7f800000u, 0x07800000u), 0x7f000000u);
    const float scale = __uint_as_float(0x86000000u - exponent);
    const int lane = threadIdx.x % 32;
    const int tap_offset = lane % 4 * 4 % kDepth - kLead - lane / 8;  // elements from an output's first tap
    const int warp = threadIdx.y * kBlockWarps + threadIdx.x / 32;
#pragma unroll 1
    for (int f = warp; f < kFragments; f += kBlockWarps * kBlockStrips) {
        const int r = f - (kProductRows - 1) + lane % 4 * 4 / kDepth;
        float values[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int s = (tap_offset + i) / kChannels;
            const bool is_row = r >= 0 && r < kFilterRows;
            const bool is_tap = is_row && tap_offset + i >= 0 &&
                                (tap_offset + i) % kChannels == 0 && s < kFilterColumns;
            const float value = is_tap ? tap(weights, 0, is_tap ? r : 0, is_tap ? s : 0) * scale : 0.0f;
            // The low part is 2^11 times the rest that the high part leaves.
            values[i] = lane / 4 % 2 ? (value - half_to_float(float_to_half(value))) * 2048.0f : value;
        }
        fragments[f][lane] = make_uint2(floats_to_half2(values[0], values[1]), floats_to_half2(values[2], values[3]));
    }
    return __uint_as_float(exponent - 0x07000000u);
}

// A thread's pixels of one product for each tile: its fragments of matrix A.
struct Segments {
    unsigned words[kTiles][4];
};

// Elements from a thread's first segment to its segment i; quads begin 4 * kAdjacent elements apart.
__device__ constexpr int segment(int i) { return i % kAdjacent * 4 + i / kAdjacent * (32 * kAdjacent); }

__device__ __forceinline__ Segments read(const Pixel* __restrict__ source) {
    Segments segments;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        const unsigned* words = reinterpret_cast<const unsigned*>(source + segment(i));
        // Two loads: one 8-byte load would need moves to the registers that mma expects.
        segments.words[i / 2][i % 2] = __ldg(words);
        segments.words[i / 2][i % 2 + 2] = __ldg(words + 1);
    }
    return segments;
}

// Accumulators of one output row: for each tile the sums with high and low weights, for two segments.
using RowSums = float[kTiles][4];

// Adds product k of an iteration to the output rows in progress, the oldest first; rows above the strip are left out.
__device__ __forceinline__ void add(RowSums (&sums)[kInProgress], const Segments& segments,
                                    const Fragment (&fragments)[kFragments], int k) {
#pragma unroll
    for (int f = kFragments - 1; f >= 0; --f) {
        const int j = (k + 1) * kProductRows - 1 - f;  // output row with the product's last row in filter row f
        if (j >= 0) {
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
                mma_f16(sums[j][tile], segments.words[tile], {fragments[f].x, fragments[f].y});
            }
        }
    }
}

__device__ __forceinline__ float finished(float first, float second, float undo) {
    return fmaf(second, kUnit / 2048.0f, first * kUnit) * undo;
}

// Each thread of a quad has one output of every segment. They exchange outputs by shuffles, so that each thread gets
// 2 adjacent outputs of one segment. Members are the __byte_perm() selectors of the exchange steps.
struct Exchange {
    unsigned first;
};

__device__ __forceinline__ Exchange exchange_of(int lane) {
    return {lane % 2 ? 0x3276u : 0x5410u};
}

// Stores an output row from `target`, the first output that the thread stores, on. A warp's stores are adjacent.
__device__ __forceinline__ void store(Result* __restrict__ target, const RowSums& sums, float undo, Exchange exchange) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; i += 2) {
        const auto output = [&](int n) {
            const float* parts = sums[(i + n) / 2] + n % 2 * 2;
            return finished(parts[0], parts[1], undo);
        };
        unsigned word = floats_to_half2(output(0), output(1));
        word = __byte_perm(word, __shfl_xor_sync(0xffffffffu, word, 1), exchange.first);
        __stcs(reinterpret_cast<unsigned*>(target + segment(i)), word);
    }
}

// Offset in elements of the first output that a thread stores from the first one of its warp, in a row.
__device__ __forceinline__ int first_output(int lane) {
    return lane / 4 * 8 + lane % 2 * 4 + lane % 4 / 2 * 2;
}

// Moves the window down by one iteration: accumulators shift up by kUnroll rows, and new ones start at zero.
__device__ __forceinline__ void advance(RowSums (&sums)[kInProgress]) {
    constexpr int kCarried = kInProgress - kUnroll;
#pragma unroll
    for (int j = 0; j < kCarried; ++j) {
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) {
            sums[j][i / 4][i % 4] = sums[j + kUnroll][i / 4][i % 4];
        }
    }
#pragma unroll
    for (int j = kCarried; j < kInProgress; ++j) {
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) {
            sums[j][i / 4][i % 4] = 0.0f;
        }
    }
}

// Computes a strip of `rows` output rows. `source` and `target` point to the thread's first elements in it; `preloaded`
// has the pixels of the first products.
__device__ __forceinline__ void slide(const Pixel* __restrict__ source, Result* __restrict__ target,
                                      Segments (&preloaded)[kPreloaded + 1], const Fragment (&fragments)[kFragments],
                                      float undo, int rows) {
    const Exchange exchange = exchange_of(threadIdx.x % 32);
    RowSums sums[kInProgress] = {};
    // Prologue: products that complete no window.
#pragma unroll
    for (int k = 0; k < kPrologue; ++k) {
        if (k + kPrefetch >= kEarlyLoads) {
            preloaded[k + kPrefetch] = read(source + (k + kPrefetch) * kStep);
        }
        add(sums, preloaded[k], fragments, k);
    }
    Segments ahead[kPrefetch + 1];
#pragma unroll
    for (int k = kPrologue; k < kPreloaded; ++k) {
        ahead[k % (kPrefetch + 1)] = preloaded[k];
    }
#pragma unroll 1
    for (int done = 0; done < rows; done += kUnroll) {
#pragma unroll
        for (int k = kPrologue; k < kPrologue + kProducts; ++k) {
            const int complete = (k - kPrologue) * kProductRows;  // first output row that this product completes
            const int next = complete + kPrefetch * kProductRows;
            if (next < kUnroll || done + next < rows) {
                ahead[(k + kPrefetch) % (kPrefetch + 1)] = read(source + (k + kPrefetch) * kStep);
            }
            add(sums, ahead[k % (kPrefetch + 1)], fragments, k);
#pragma unroll
            for (int j = complete; j < complete + kProductRows; ++j) {
                store(target + j * kResultPitch, sums[j], undo, exchange);
            }
        }
        advance(sums);
        source += kUnroll * kPitch;
        target += kUnroll * kResultPitch;
    }
}

extern "C" __global__ void __launch_bounds__(32 * kBlockWarps * kBlockStrips)
filter2d_matrix(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    constexpr int kResultPlane = kOutputRows * kResultPitch;
    // The frame's blocks are the slowest, so they start first and leave no tail at the end of the grid.
    if (blockIdx.x < kFrameBlocks) {
        const int n = (blockIdx.x * kBlockStrips + threadIdx.y) * (32 * kBlockWarps) + threadIdx.x;
        const int plane = n / kFramePixels;
        if (plane < 1) {
            compute_frame(plane_of(image, plane), result + plane * kResultPlane, weights, n % kFramePixels);
        }
        return;
    }
    const int block = blockIdx.x - kFrameBlocks;
    const int warp = block % kColumnBlocks * kBlockWarps + threadIdx.x / 32;
    const int inside = (block / kColumnBlocks % kStripBlocks * kBlockStrips + threadIdx.y) * kThreadRows;
    const int plane = block / (kColumnBlocks * kStripBlocks);
    const bool idle = warp >= kInteriorWarps || inside >= kInteriorRows;
    const int row = kFirstRow + (idle ? 0 : inside);
    const int element = min(kFirstColumn + warp * kWarpColumns, kLastColumn);
    const int lane = threadIdx.x % 32;
    const Pixel* first = plane_of(image, plane).pixels + (row - kBeforeRows + lane % 4 * 4 / kDepth) * kPitch;
    const Pixel* source = first + element - kBeforeColumns * kChannels - kLead + lane % 4 * 4 % kDepth +
                          lane / 4 * (4 * kAdjacent);
    Segments preloaded[kPreloaded + 1];
#pragma unroll
    for (int k = 0; k < kEarlyLoads; ++k) {
        preloaded[k] = read(source + k * kStep);
    }
    __shared__ Fragment shared[kFragments][32];  // matrix B, one fragment per lane
    const float undo = split(weights, shared);
    __syncthreads();
    if (idle) {
        return;
    }
    Fragment fragments[kFragments];
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
        fragments[f] = shared[f][lane];
    }
    slide(source, result + plane * kResultPlane + row * kResultPitch + element + first_output(lane), preloaded,
          fragments, undo, min(kThreadRows, kInteriorRows - inside));
}
