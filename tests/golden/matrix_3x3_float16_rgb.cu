// warpsmith filter2d_matrix
// problem: filter2d image=1080x1920 filter=3x3 planes=1 dtype=float16 border=reflect channels=3 weights=sha256:a8171ae2f908005b
// config:  block_strips=2 block_warps=2 path=global prefetch=5 rows=12 store=streaming tiles=1 unroll=12 weights=argument
//
// A window that slides down in the accumulators of the tensor cores. A warp owns tiles of 16 segments of 4 adjacent
// outputs. A row of matrix A holds pixels of a segment. Weights are split into two halves, so that products keep 22
// bits: columns 2n and 2n + 1 of matrix B make the two parts of output n of a segment, and one thread gets both.
// The outputs around the interior are computed one by one.

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

constexpr int kProductRows = 1;  // rows of the image that one product sums over
constexpr int kDepth = 16 / kProductRows;  // pixels of each, from a segment's first one on
constexpr int kTiles = 1;  // of a warp, side by side
constexpr int kWarpColumns = 64 * kTiles;  // outputs of a warp, across
constexpr int kAdjacent = 2;  // segments of a thread that lie side by side
constexpr int kThreadRows = 12;  // and down
constexpr int kUnroll = 12;  // input rows in one turn of the loop
constexpr int kProducts = kUnroll / kProductRows;  // products one below the other in a turn
constexpr int kWindowRows = kFilterRows;
constexpr int kStep = kProductRows * kPitch;  // from product to product
constexpr int kStart = (kWindowRows - 1) / kProductRows;  // products before the first one that completes a window
constexpr int kInProgress = kWindowRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kFragments = kFilterRows + kProductRows - 1;  // ways in which a product and a window can overlap
constexpr int kPrefetch = 5;  // products whose pixels are read ahead
constexpr int kBegin = kStart + kPrefetch;  // products read before the first turn
constexpr int kEarly = 7;  // and before the weights are there, as registers allow
constexpr int kBlockWarps = 2;  // across a block
constexpr int kBlockStrips = 2;  // and down
constexpr int kColumnBlocks = 45;  // blocks across the interior
constexpr int kStripBlocks = 45;  // and down
constexpr int kFrameBlocks = 641;  // blocks for the outputs around it, in all planes
constexpr float kUnit = 1.0f;  // of a sum
constexpr int kFirstRow = 1;  // of the interior
constexpr int kInteriorRows = 1068;
constexpr int kFirstColumn = 4;  // of the interior, in elements
constexpr int kLead = 1;  // elements read before a segment's windows, so that loads and stores are aligned
constexpr int kLastColumn = 5688;  // where the last warp begins, which may overlap the one before
constexpr int kInteriorWarps = 90;  // across it

__device__ constexpr int skew_of(int) { return 0; }  // rows of outputs all begin at kFirstColumn

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

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// sums += a * b, 16x16 halves by 16x8 halves into 16x8 floats, spread over a warp as PTX lays out mma.m16n8k16.
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

// Where the border takes its pixel from: c b a | a b c d | d c b.
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
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 81936;  // of one plane

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

// A thread's part of matrix B. Of matrix A it owns four adjacent pixels of a segment, of which a load fetches two:
// the order of the 16 that are summed over is free, as long as both matrices agree on it.
using Fragment = uint2;

// Fragment f of matrix B is for a product whose last row meets row f of the filter; where its first one lies above the
// filter, or its last one below, weights are zero. The warps of a block share the work.
// Weights are scaled by a power of two, so that the largest is near 2^14 and their halves keep most of their bits.
// Returns what 1 in a sum then stands for, but for kUnit.
__device__ __forceinline__ float split(const Weights& weights, Fragment (&fragments)[kFragments][32]) {
    float largest = 0.0f;
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            largest = fmaxf(largest, fabsf(tap(weights, 0, r, s)));
        }
    }
    // 2^-112 to 2^127, so that both the scale and what undoes it are normal.
    const unsigned exponent = min(max(__float_as_uint(largest) & 0x7f800000u, 0x07800000u), 0x7f000000u);
    const float scale = __uint_as_float(0x86000000u - exponent);
    const int lane = threadIdx.x % 32;
    const int away = lane % 4 * 4 % kDepth - kLead - lane / 8;  // elements from an output's first tap to these pixels
    const int warp = threadIdx.y * kBlockWarps + threadIdx.x / 32;
#pragma unroll 1
    for (int f = warp; f < kFragments; f += kBlockWarps * kBlockStrips) {
        const int r = f - (kProductRows - 1) + lane % 4 * 4 / kDepth;
        float values[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int s = (away + i) / kChannels;
            const bool is_row = r >= 0 && r < kFilterRows;
            const bool is_tap = is_row && away + i >= 0 && (away + i) % kChannels == 0 && s < kFilterColumns;
            const float value = is_tap ? tap(weights, 0, is_tap ? r : 0, is_tap ? s : 0) * scale : 0.0f;
            // The second half is 2^11 times what the first one leaves.
            values[i] = lane / 4 % 2 ? (value - half_to_float(float_to_half(value))) * 2048.0f : value;
        }
        fragments[f][lane] = make_uint2(floats_to_half2(values[0], values[1]), floats_to_half2(values[2], values[3]));
    }
    return __uint_as_float(exponent - 0x07000000u);
}

// A thread's pixels of one product for each tile: its part of matrix A.
struct Segments {
    unsigned words[kTiles][4];
};

// Elements from a thread's first segment to its i-th; the quads' first ones lie 4 * kAdjacent apart.
__device__ constexpr int segment(int i) { return i % kAdjacent * 4 + i / kAdjacent * (32 * kAdjacent); }

__device__ __forceinline__ Segments read(const Pixel* __restrict__ source) {
    Segments segments;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        const unsigned* words = reinterpret_cast<const unsigned*>(source + segment(i));
        // One load of both would not leave them where the product wants them.
        segments.words[i / 2][i % 2] = __ldg(words);
        segments.words[i / 2][i % 2 + 2] = __ldg(words + 1);
    }
    return segments;
}

// Per tile the two parts of the thread's output of one segment, then of another.
using RowSums = float[kTiles][4];

// Adds product k of a turn to the output rows in progress, from the oldest to the newest; rows above the strip are left
// out.
__device__ __forceinline__ void add(RowSums (&sums)[kInProgress], const Segments& segments,
                                    const Fragment (&fragments)[kFragments], int k) {
#pragma unroll
    for (int f = kFragments - 1; f >= 0; --f) {
        const int j = (k + 1) * kProductRows - 1 - f;  // the output row whose filter row f meets the product's last row
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

// Each thread of a quad has an output of every segment. They exchange them, so that each has 2 of one segment:
// what it keeps of its own word and its partner's at each step, for __byte_perm().
struct Exchange {
    unsigned first;
};

__device__ __forceinline__ Exchange exchange_of(int lane) {
    return {lane % 2 ? 0x3276u : 0x5410u};
}

// Stores an output row; `target` is the first output that the thread stores in it. A warp's stores are adjacent.
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

// Elements from a warp's first output of a row to the first one that a thread stores.
__device__ __forceinline__ int first_output(int lane) {
    return lane / 4 * 8 + lane % 2 * 4 + lane % 4 / 2 * 2;
}

// The window moves on by a turn: rows that are complete make room for new ones.
__device__ __forceinline__ void advance(RowSums (&sums)[kInProgress]) {
    constexpr int kKept = kInProgress - kUnroll;
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) {
            sums[j][i / 4][i % 4] = sums[j + kUnroll][i / 4][i % 4];
        }
    }
#pragma unroll
    for (int j = kKept; j < kInProgress; ++j) {
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) {
            sums[j][i / 4][i % 4] = 0.0f;
        }
    }
}

// Walks down a strip of `rows` output rows. `source` and `target` are the thread's first elements in it; the pixels of
// the first products are in `begin`.
__device__ __forceinline__ void slide(const Pixel* __restrict__ source, Result* __restrict__ target,
                                      Segments (&begin)[kBegin + 1], const Fragment (&fragments)[kFragments],
                                      float undo, int rows) {
    const Exchange exchange = exchange_of(threadIdx.x % 32);
    RowSums sums[kInProgress] = {};
    // Rows that complete no window.
#pragma unroll
    for (int k = 0; k < kStart; ++k) {
        if (k + kPrefetch >= kEarly) {
            begin[k + kPrefetch] = read(source + (k + kPrefetch) * kStep);
        }
        add(sums, begin[k], fragments, k);
    }
    Segments ahead[kPrefetch + 1];
#pragma unroll
    for (int k = kStart; k < kBegin; ++k) {
        ahead[k % (kPrefetch + 1)] = begin[k];
    }
#pragma unroll 1
    for (int done = 0; done < rows; done += kUnroll) {
#pragma unroll
        for (int k = kStart; k < kStart + kProducts; ++k) {
            const int complete = (k - kStart) * kProductRows;  // output rows of the turn
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
    // The frame is the slow part, pixel by pixel: it goes first, so that nobody waits for it at the end.
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
    Segments begin[kBegin + 1];
#pragma unroll
    for (int k = 0; k < kEarly; ++k) {
        begin[k] = read(source + k * kStep);
    }
    __shared__ Fragment shared[kFragments][32];  // for all lanes
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
    slide(source, result + plane * kResultPlane + row * kResultPitch + element + first_output(lane), begin, fragments,
          undo, min(kThreadRows, kInteriorRows - inside));
}
