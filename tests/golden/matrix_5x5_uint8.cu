// warpsmith filter2d_matrix
// problem: filter2d image=4320x7680 filter=5x5 planes=1 dtype=uint8 border=valid
// config:  block_strips=2 block_warps=2 path=global prefetch=1 rows=16 store=streaming unroll=2 weights=argument
//
// A window that slides down in the accumulators of the tensor cores. A warp owns 16 segments of 8 adjacent outputs.
// Row m of matrix A holds the pixels of segment m, column n of matrix B the weights that make output n of them.
// Weights are split into two halves, so that products keep 22 bits. The outputs around are computed one by one.

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

constexpr int kWarpColumns = 128;  // outputs of a warp, across
constexpr int kThreadRows = 16;  // and down
constexpr int kUnroll = 2;  // input rows in one turn of the loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kPrefetch = 1;  // rows that are read ahead
constexpr int kLead = 0;  // elements read left of a row's first tap so that loads are aligned
constexpr int kBlockWarps = 2;  // across a block
constexpr int kBlockStrips = 2;  // and down
constexpr int kColumnBlocks = 30;  // blocks across the interior
constexpr int kStripBlocks = 135;  // and down
constexpr int kFrameBlocks = 135;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 0;  // of the interior
constexpr int kInteriorRows = 4316;
constexpr int kFirstColumn = 0;  // of the interior, in elements
constexpr int kLastColumn = 7544;  // where the last warp begins, which may overlap the one before
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

// Two halves at once.
__device__ __forceinline__ unsigned subtract_halves(unsigned a, unsigned b) {
    unsigned difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
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
constexpr int kFramePixels = 17264;  // of one plane

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

using Sums = float[kInProgress][2][4];  // of the first and of the second halves of the weights
using StoreVector = unsigned short;

__device__ __forceinline__ unsigned pack_bytes(float a, float b, float c, float d) {
    const unsigned low = __byte_perm(rounded(a), rounded(b), 0x0040);
    return __byte_perm(low, __byte_perm(rounded(c), rounded(d), 0x0040), 0x5410);
}

__device__ __forceinline__ unsigned short pack(const float* sums) {
    return static_cast<unsigned short>(__byte_perm(rounded(sums[0]), rounded(sums[1]), 0x0040));
}

// A thread's part of matrix B for each row of the filter, in two halves; they are scaled by a power of two so that the
// largest weight is near 1.
struct Taps {
    unsigned first[kFilterRows][2];
    unsigned second[kFilterRows][2];
    float unscale;
};

__device__ __forceinline__ Taps split(const Weights& weights) {
    float largest = 0.0f;
#pragma unroll 1
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int s = 0; s < kFilterColumns; ++s) {
            largest = fmaxf(largest, fabsf(tap(weights, 0, r, s)));
        }
    }
    const unsigned exponent = min(max(__float_as_uint(largest) & 0x7f800000u, 0x00800000u), 0x7e000000u);
    const float scale = __uint_as_float(0x7f000000u - exponent);
    const int lane = threadIdx.x % 32;
    Taps taps;
    taps.unscale = __uint_as_float(exponent);
#pragma unroll
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float value[2], rest[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int away = lane % 4 * 2 + half * 8 + i - lane / 4 - kLead;  // elements from the output's first tap
                const int s = away / kChannels;
                const bool is_tap = away >= 0 && away % kChannels == 0 && s < kFilterColumns;
                value[i] = is_tap ? tap(weights, 0, r, is_tap ? s : 0) * scale : 0.0f;
                // The second half is 2^11 times what the first one leaves.
                rest[i] = (value[i] - half_to_float(float_to_half(value[i]))) * 2048.0f;
            }
            taps.first[r][half] = floats_to_half2(value[0], value[1]);
            taps.second[r][half] = floats_to_half2(rest[0], rest[1]);
        }
    }
    return taps;
}

// Two adjacent elements as they are stored, and as halves.
using Pair = unsigned short;

// A thread's part of one row: element pairs of segments g and g + 8, from their first and from their ninth element on.
struct Row {
    Pair pairs[4];
};

__device__ __forceinline__ Row read_row(const Pixel* __restrict__ source) {
    Row row;
    row.pairs[0] = __ldg(reinterpret_cast<const Pair*>(source));
    row.pairs[1] = __ldg(reinterpret_cast<const Pair*>(source + 64));
    row.pairs[2] = __ldg(reinterpret_cast<const Pair*>(source + 8));
    row.pairs[3] = __ldg(reinterpret_cast<const Pair*>(source + 72));
    return row;
}

// Adds row k of a turn to the outputs in progress, from the oldest to the newest: filter rows below `last`, since the
// others lie above the strip.
__device__ __forceinline__ void add_row(Sums& sums, const Row& row, const Taps& taps, int k, int last) {
    unsigned pixels[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        // A byte below the exponent of 1024 is that much more than 1024.
        pixels[i] = subtract_halves(__byte_perm(row.pairs[i], 0x64646464u, 0x4140), 0x64006400u);
    }
#pragma unroll
    for (int r = kFilterRows - 1; r >= 0; --r) {
        if (r < last) {
            multiply_add(sums[k - r][0], pixels, taps.first[r]);
            multiply_add(sums[k - r][1], pixels, taps.second[r]);
        }
    }
}

// Stores row j of a turn; `target` is the thread's first output in it.
__device__ __forceinline__ void store_row(Result* __restrict__ target, const Sums& sums, float unscale, int j) {
    float done[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        done[i] = fmaf(sums[j][1][i], 1.0f / 2048.0f, sums[j][0][i]) * unscale;
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        StoreVector* vector = reinterpret_cast<StoreVector*>(target + i / 2 * 64 + i % 2);
        __stcs(vector, pack(done + i));
    }
}

// The window moves on by a turn.
__device__ __forceinline__ void advance(Sums& sums) {
#pragma unroll
    for (int j = 0; j < kInProgress; ++j) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sums[j][i / 4][i % 4] = j + kUnroll < kInProgress ? sums[j + kUnroll][i / 4][i % 4] : 0.0f;
        }
    }
}

// Walks down a strip of `rows` output rows. `source` and `target` are the thread's first elements in it.
__device__ __forceinline__ void slide(const Pixel* __restrict__ source, Result* __restrict__ target, const Taps& taps,
                                      int rows) {
    constexpr int kLast = kFilterRows - 1;  // a window's last row completes it
    Sums sums = {};
    Row ahead[kPrefetch + 1];
#pragma unroll
    for (int k = 0; k < kPrefetch; ++k) {
        ahead[k] = read_row(source + k * kPitch);
    }
    // The rows above the first complete window.
#pragma unroll
    for (int k = 0; k < kLast; ++k) {
        ahead[(k + kPrefetch) % (kPrefetch + 1)] = read_row(source + (k + kPrefetch) * kPitch);
        add_row(sums, ahead[k % (kPrefetch + 1)], taps, k, k + 1);
    }
#pragma unroll 1
    for (int done = 0; done < rows; done += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (done + u + kPrefetch < rows) {
                ahead[(kLast + u + kPrefetch) % (kPrefetch + 1)] =
                    read_row(source + (kLast + done + u + kPrefetch) * kPitch);
            }
            add_row(sums, ahead[(kLast + u) % (kPrefetch + 1)], taps, kLast + u, kFilterRows);
            store_row(target + (done + u) * kResultPitch, sums, taps.unscale, u);
        }
        advance(sums);
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
    if (warp >= kInteriorWarps || inside >= kInteriorRows) {
        return;
    }
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const int lane = threadIdx.x % 32;
    const int element = min(kFirstColumn + warp * kWarpColumns, kLastColumn) + lane / 4 * 8 + lane % 4 * 2;
    const Pixel* first = plane_of(image, plane).pixels + (row - kBeforeRows) * kPitch;
    slide(first + element - kBeforeColumns * kChannels - kLead,
          result + plane * kResultPlane + row * kResultPitch + element, split(weights), rows);
}
