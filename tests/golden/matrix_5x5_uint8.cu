// warpsmith filter2d_matrix
// problem: filter2d image=4320x7680 filter=5x5 planes=1 dtype=uint8 border=valid
// config:  block_strips=1 block_warps=4 path=global prefetch=3 rows=32 store=streaming tiles=2 unroll=8 weights=argument
//
// A window that slides down in the accumulators of the tensor cores. A warp owns tiles of 16 segments of 4 adjacent
// outputs. A row of matrix A holds pixels of a segment. Weights are split into two halves, so that products keep 22
// bits: columns 2n and 2n + 1 of matrix B make the two parts of output n of a segment, and one thread gets both.
// The outputs around the interior are computed one by one.

constexpr int kRows = 4320;  // of one plane of the image
constexpr int kColumns = 7680;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 7680;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 5;
constexpr int kFilterColumns = 5;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 7676;
constexpr int kBeforeRows = 0;  // of a window, above its output pixel
constexpr int kBeforeColumns = 0;  // and left of it

using Pixel = unsigned char;
using Result = unsigned char;

constexpr int kProductRows = 2;  // rows of the image that one product sums over
constexpr int kDepth = 16 / kProductRows;  // pixels of each, from a segment's first one on
constexpr int kTiles = 2;  // of a warp, side by side
constexpr int kWarpColumns = 64 * kTiles;  // outputs of a warp, across
constexpr int kAdjacent = 4;  // segments of a thread that lie side by side
constexpr int kThreadRows = 32;  // and down
constexpr int kUnroll = 8;  // input rows in one turn of the loop
constexpr int kProducts = kUnroll / kProductRows;  // products one below the other in a turn
constexpr int kWindowRows = kFilterRows;
constexpr int kStep = kProductRows * kPitch;  // from product to product
constexpr int kStart = (kWindowRows - 1) / kProductRows;  // products before the first one that completes a window
constexpr int kInProgress = kWindowRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kFragments = kFilterRows + kProductRows - 1;  // ways in which a product and a window can overlap
constexpr int kPrefetch = 3;  // products whose pixels are read ahead
constexpr int kBegin = kStart + kPrefetch;  // products read before the first turn
constexpr int kEarly = 5;  // and before the weights are there, as registers allow
constexpr int kBlockWarps = 4;  // across a block
constexpr int kBlockStrips = 1;  // and down
constexpr int kColumnBlocks = 15;  // blocks across the interior
constexpr int kStripBlocks = 135;  // and down
constexpr int kFrameBlocks = 240;  // blocks for the outputs around it, in all planes
constexpr float kUnit = 0x1p-125f;  // of a sum: 2^24 as bytes are subnormal halves, 2^-149 as finished() wants it
constexpr int kFirstRow = 0;  // of the interior
constexpr int kInteriorRows = 4312;
constexpr int kFirstColumn = 0;  // of the interior, in elements
constexpr int kLead = 0;  // elements read before a segment's windows, so that loads and stores are aligned
constexpr int kLastColumn = 7548;  // where the last warp begins, which may overlap the one before
constexpr int kInteriorWarps = 60;  // across it

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

// To the nearest integer, half to even, in the lowest byte: 1.5 * 2^23 leaves a float no bits for fractions.
__device__ __forceinline__ unsigned rounded(float value) {
    return __float_as_uint(fminf(fmaxf(value, 0.0f), 255.0f) + 12582912.0f);
}

__device__ __forceinline__ Result to_result(float value) { return static_cast<Result>(rounded(value)); }

__device__ __forceinline__ float to_float(unsigned char value) { return value; }

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// sums += a * b, 16x16 halves by 16x8 halves into 16x8 floats, spread over a warp as PTX lays out mma.m16n8k16.
__device__ __forceinline__ void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// `low` and `high`, clamped to a byte each, below the lower half of `above`.
__device__ __forceinline__ unsigned saturated_bytes(int low, int high, unsigned above) {
    unsigned bytes;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(high), "r"(low), "r"(above));
    return bytes;
}

// Stores the lowest byte, marked as evicted first: __stcs() without masking what the instruction leaves out anyway.
__device__ __forceinline__ void store_byte_streaming(unsigned char* address, unsigned bits) {
    asm volatile("st.global.cs.u8 [%0], %1;" ::"l"(address), "r"(bits) : "memory");
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

// No window reaches outside the image.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, row, element);
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorWarps ? kLastColumn + kWarpColumns - kFirstColumn : 0;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 30704;  // of one plane

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

// A thread's part of matrix B. Of matrix A it owns four adjacent pixels of a segment, of which a load fetches all:
// the order of the 16 that are summed over is free, as long as both matrices agree on it.
using Fragment = uint2;

// Fragment f of matrix B is for a product whose last row meets row f of the filter; where its first one lies above the
// filter, or its last one below, weights are zero. The warps of a block share the work.
// Weights are scaled by a power of two, so that the largest is near 2^14 and their halves keep most of their bits.
// Returns what 1 in a sum then stands for, times kUnit.
__device__ __forceinline__ float split(const Weights& weights, Fragment (&fragments)[kFragments][32]) {
    float largest = 0.0f;
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            largest = fmaxf(largest, fabsf(tap(weights, 0, r, s)));
        }
    }
    // 2^-10 to 2^127: a sum's unit is a float even times kUnit, and so is the scale.
    const unsigned exponent = min(max(__float_as_uint(largest) & 0x7f800000u, 0x3a800000u), 0x7f000000u);
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
    return __uint_as_float(exponent - 0x07000000u) * kUnit;
}

// A thread's pixels of one product for each tile: four in row g of matrix A, and four in row g + 8.
struct Segments {
    unsigned words[kTiles][2];
};

// Elements from a thread's first segment to its i-th; the quads' first ones lie 4 * kAdjacent apart.
__device__ constexpr int segment(int i) { return i % kAdjacent * 4 + i / kAdjacent * (32 * kAdjacent); }

__device__ __forceinline__ Segments read(const Pixel* __restrict__ source) {
    Segments segments;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        const unsigned* words = reinterpret_cast<const unsigned*>(source + segment(i));
        segments.words[i / 2][i % 2] = __ldg(words);
    }
    return segments;
}

// Per tile the two parts of the thread's output of one segment, then of another.
using RowSums = float[kTiles][4];

// Adds product k of a turn to the output rows in progress, from the oldest to the newest; rows above the strip are left
// out.
__device__ __forceinline__ void add(RowSums (&sums)[kInProgress], const Segments& segments,
                                    const Fragment (&fragments)[kFragments], int k) {
    // A byte as the bits of a half is a subnormal, which tensor cores multiply exactly.
    unsigned pixels[kTiles][4];
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
        pixels[i / 2][i % 2] = __byte_perm(segments.words[i / 2][i % 2], 0, 0x4140);
        pixels[i / 2][i % 2 + 2] = __byte_perm(segments.words[i / 2][i % 2], 0, 0x4342);
    }
#pragma unroll
    for (int f = kFragments - 1; f >= 0; --f) {
        const int j = (k + 1) * kProductRows - 1 - f;  // the output row whose filter row f meets the product's last row
        if (j >= 0) {
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
                multiply_add(sums[j][tile], pixels[tile], {fragments[f].x, fragments[f].y});
            }
        }
    }
}

// An output, to be clamped to a byte: kUnit makes it a subnormal float, whose bits count 2^-149. The product is rounded
// to one as rounded() does it; below zero its sign bit makes it a negative integer.
__device__ __forceinline__ int finished(float first, float second, float undo) {
    return static_cast<int>(__float_as_uint(fmaf(second, 1.0f / 2048.0f, first) * undo));
}

// Each thread of a quad has an output of every segment. They exchange them, so that each has 4 of one segment:
// what it keeps of its own word and its partner's at each step, for __byte_perm().
struct Exchange {
    unsigned first, second;
};

__device__ __forceinline__ Exchange exchange_of(int lane) {
    return {lane % 2 ? 0x3715u : 0x6240u, lane % 4 / 2 ? 0x3276u : 0x5410u};
}

// Stores an output row; `target` is the first output that the thread stores in it. A warp's stores are adjacent.
__device__ __forceinline__ void store(Result* __restrict__ target, const RowSums& sums, float undo, Exchange exchange) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; i += 4) {
        const auto output = [&](int n) {
            const float* parts = sums[(i + n) / 2] + n % 2 * 2;
            return finished(parts[0], parts[1], undo);
        };
        unsigned word = saturated_bytes(output(0), output(1), saturated_bytes(output(2), output(3), 0));
        word = __byte_perm(word, __shfl_xor_sync(0xffffffffu, word, 1), exchange.first);
        word = __byte_perm(word, __shfl_xor_sync(0xffffffffu, word, 2), exchange.second);
        __stcs(reinterpret_cast<unsigned*>(target + segment(i)), word);
    }
}

// Elements from a warp's first output of a row to the first one that a thread stores.
__device__ __forceinline__ int first_output(int lane) {
    return 4 * lane;
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
