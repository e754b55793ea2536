// warpsmith cgemm_tensor
// problem: cgemm batch=2047 m=16 n=16 k=16 a=t b=c
// config:  block_columns=1 block_rows=1 columns=16 min_blocks=2 multiplies=4 products=8 rows=16 slices=1 splits=1 stages=1 terms=16
//
// kWarpRows x kWarpColumns results a warp, by products of the tensor cores. Each float32 is the sum of two tf32
// numbers, high and low, and a product of two is three: low * high, high * low and high * high. Tensor cores cut sums
// off where float32 rounds them, so that those of 8 terms are added up outside, and small products come first in them.

constexpr int kBatch = 2047;
constexpr int kM = 16;  // rows of a result
constexpr int kN = 16;  // and columns
constexpr int kK = 16;  // terms of a sum
constexpr int kWarpRows = 16;
constexpr int kWarpColumns = 16;
constexpr int kBlockRows = 1;  // warps down a tile
constexpr int kBlockColumns = 1;  // and across
constexpr int kThreads = 32 * kBlockRows * kBlockColumns;
constexpr int kTileRows = kBlockRows * kWarpRows;
constexpr int kTileColumns = kBlockColumns * kWarpColumns;
constexpr int kTileTerms = 16;
constexpr int kTerms = 8;  // of one product of the tensor cores
constexpr int kTilesDown = 1;  // a result
constexpr int kTilesAcross = 1;
constexpr int kASlice = 144;  // complex numbers from kTerms terms to the next ones in shared memory
constexpr int kBSlice = 136;
constexpr int kAPitch = 18;  // and from term to term
constexpr int kATile = 288;  // complex numbers
constexpr int kStage = kATile + 272;
constexpr int kProducts = 8;  // of a block
constexpr int kParts = 2;  // numbers that are multiplied for each one of a, and of b
constexpr int kSums = 2;  // of real numbers for each result

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// sums += a * b, 16x8 by 8x8 tf32 numbers into 16x8 floats, spread over a warp as PTX lays out mma.m16n8k8. The lower
// 13 bits of a number are not read.
__device__ __forceinline__ void multiply_add_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Copies past the registers where `wanted` holds, without a branch; the thread goes on at once.
template <int kBytes>
__device__ __forceinline__ void copy_async_if(bool wanted, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes) : "memory");
    }
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

// Begins to copy a tile of a: `term` and `row` are its first ones.
__device__ __forceinline__ void copy_a(const float2* a, int term, int row, int thread, float2* tile) {
    constexpr int kVector = 2;  // complex numbers at once
    constexpr int kAcross = kTileRows / kVector;
    constexpr int kCopies = 128;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_row = row + across;
        const int source_term = term + down;
        const float2* source = a + source_term * kM + source_row;
        const int place = down % kTerms / 2 + down % 2 * 4;  // even terms of a slice first, then odd ones
        float2* target = tile + down / kTerms * kASlice + place * kAPitch + across;
        const bool wanted = true;
        copy_async_if<16>(wanted, target, source);
    }
}

// Begins to copy a tile of b: `term` and `column` are its first ones.
__device__ __forceinline__ void copy_b(const float2* b, int term, int column, int thread, float2* tile) {
    constexpr int kVector = 2;  // complex numbers at once
    constexpr int kAcross = kTileTerms / kVector;
    constexpr int kCopies = 128;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_column = column + down;
        const int source_term = term + across;
        const float2* source = b + source_column * kK + source_term;
        float2* target = tile + across / kTerms * kBSlice + down * kTerms + across % kTerms;
        const bool wanted = true;
        copy_async_if<16>(wanted, target, source);
    }
}

// A float32 is high + low but for the last bit of 24: high is the nearest tf32 number, low is read as one. Rounded high
// numbers leave low ones of either sign, so that what low * low would add is zero on average.
__device__ __forceinline__ void split(float value, unsigned& high, unsigned& low) {
    high = (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(value - __uint_as_float(high));
}

// Of a thread, for one product of the tensor cores.
struct Rows {
    unsigned high[kParts][4], low[kParts][4];
};
struct Columns {
    unsigned high[kParts][2], low[kParts][2];
};
using Sums = float[kWarpRows / 16][kWarpColumns / 8][kSums][4];

__device__ __forceinline__ void set(Rows& rows, int i, float x, float y) {
    split(x, rows.high[0][i], rows.low[0][i]);
    split(-y, rows.high[1][i], rows.low[1][i]);
}

__device__ __forceinline__ void set(Columns& columns, int i, float x, float y) {
    split(x, columns.high[0][i], columns.low[0][i]);
    split(y, columns.high[1][i], columns.low[1][i]);
}

__device__ __forceinline__ float2 finished(const float (&sums)[kSums][4], int n) {
    return make_float2(sums[0][n], -sums[1][n]);
}

// 16 rows from `row` on, and the terms of a slice.
__device__ __forceinline__ Rows read_a(const float2* slice, int row, int lane) {
    Rows rows;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float2* source = slice + (lane % 4 + 4 * i) * kAPitch + row + 2 * (lane / 8 + lane / 4 % 2 * 4);
        const float4 both = *reinterpret_cast<const float4*>(source);
        set(rows, 2 * i, both.x, both.y);
        set(rows, 2 * i + 1, both.z, both.w);
    }
    return rows;
}

// 16 columns from `column` on, in two products, and the terms of a slice.
__device__ __forceinline__ void read_b(const float2* slice, int column, int lane, Columns* columns) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float2* source = slice + (column + lane / 4 + 8 * i) * kTerms + lane % 4 * 2;
        const float4 both = *reinterpret_cast<const float4*>(source);
        set(columns[i], 0, both.x, both.y);
        set(columns[i], 1, both.z, both.w);
    }
}

// Adds what 8 terms give 16 rows and 16 columns: the first parts, the second ones, and each by the other. A product of
// the tensor cores waits for the sum that it adds to: those of two times three sums take turns.
__device__ __forceinline__ void multiply_add(const Rows& rows, const Columns* columns, float (*sums)[kSums][4]) {
    float products[2][3][4] = {};
    multiply_add_tf32(products[0][0], rows.low[0], columns[0].high[0]);
    multiply_add_tf32(products[1][0], rows.low[0], columns[1].high[0]);
    multiply_add_tf32(products[0][1], rows.low[1], columns[0].high[1]);
    multiply_add_tf32(products[1][1], rows.low[1], columns[1].high[1]);
    multiply_add_tf32(products[0][2], rows.low[0], columns[0].high[1]);
    multiply_add_tf32(products[1][2], rows.low[0], columns[1].high[1]);
    multiply_add_tf32(products[0][2], rows.low[1], columns[0].high[0]);
    multiply_add_tf32(products[1][2], rows.low[1], columns[1].high[0]);
    multiply_add_tf32(products[0][0], rows.high[0], columns[0].low[0]);
    multiply_add_tf32(products[1][0], rows.high[0], columns[1].low[0]);
    multiply_add_tf32(products[0][1], rows.high[1], columns[0].low[1]);
    multiply_add_tf32(products[1][1], rows.high[1], columns[1].low[1]);
    multiply_add_tf32(products[0][2], rows.high[0], columns[0].low[1]);
    multiply_add_tf32(products[1][2], rows.high[0], columns[1].low[1]);
    multiply_add_tf32(products[0][2], rows.high[1], columns[0].low[0]);
    multiply_add_tf32(products[1][2], rows.high[1], columns[1].low[0]);
    multiply_add_tf32(products[0][0], rows.high[0], columns[0].high[0]);
    multiply_add_tf32(products[1][0], rows.high[0], columns[1].high[0]);
    multiply_add_tf32(products[0][1], rows.high[1], columns[0].high[1]);
    multiply_add_tf32(products[1][1], rows.high[1], columns[1].high[1]);
    multiply_add_tf32(products[0][2], rows.high[0], columns[0].high[1]);
    multiply_add_tf32(products[1][2], rows.high[0], columns[1].high[1]);
    multiply_add_tf32(products[0][2], rows.high[1], columns[0].high[0]);
    multiply_add_tf32(products[1][2], rows.high[1], columns[1].high[0]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int j = i / 4, n = i % 4;
        sums[j][0][n] += products[j][0][n] - products[j][1][n];
        sums[j][1][n] += products[j][2][n];
    }
}

// Adds what a tile gives the results of a warp.
__device__ __forceinline__ void multiply_tile(const float2* tile, int row, int column, int lane, Sums& sums) {
#pragma unroll 1
    for (int slice = 0; slice < kTileTerms / kTerms; ++slice) {
        Columns columns[kWarpColumns / 8];
#pragma unroll
        for (int j = 0; j < kWarpColumns / 8; j += 2) {
            read_b(tile + kATile + slice * kBSlice, column + 8 * j, lane, columns + j);
        }
#pragma unroll
        for (int i = 0; i < kWarpRows / 16; ++i) {
            const Rows rows = read_a(tile + slice * kASlice, row + 16 * i, lane);
#pragma unroll
            for (int j = 0; j < kWarpColumns / 8; j += 2) {
                multiply_add(rows, columns + j, sums[i] + j);
            }
        }
    }
}

// Writes a warp's sums where they lie in the result.
__device__ __forceinline__ void store(const Sums& sums, int row, int column, int lane, float2* c) {
#pragma unroll
    for (int i = 0; i < kWarpRows / 8; ++i) {
        const int r = row + i / 2 * 16 + i % 2 + 2 * (lane / 8 + lane / 4 % 2 * 4);
#pragma unroll
        for (int j = 0; j < kWarpColumns / 8; ++j) {
            const int s = column + 8 * j + lane % 4 * 2;
            const float2 sum = finished(sums[i / 2][j], i % 2 * 2), next = finished(sums[i / 2][j], i % 2 * 2 + 1);
            float4* target = reinterpret_cast<float4*>(c + r * kN + s);
            float4 both = make_float4(sum.x, sum.y, next.x, next.y);
            *target = both;
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads * kProducts, 2)
cgemm_tensor(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    extern __shared__ __align__(16) float2 shared[];
    const int thread = threadIdx.x % kThreads;
    float2* tiles = shared + threadIdx.x / kThreads * kStage;
    const int warp_row = thread / 32 / kBlockColumns * kWarpRows;  // within the tile
    const int warp_column = thread / 32 % kBlockColumns * kWarpColumns;
    int block = blockIdx.x;
    const int column = block % kTilesAcross * kTileColumns;  // fastest: these blocks read the same rows of a
    block /= kTilesAcross;
    const int row = block % kTilesDown * kTileRows;
    block /= kTilesDown;
    const int own = block * kProducts + threadIdx.x / kThreads;
    const bool is_used = own < kBatch;
    const size_t product = min(own, kBatch - 1);  // the last block's other threads read that again, and write nothing
    const float2* left = a + product * (static_cast<size_t>(kM) * kK);
    const float2* right = b + product * (static_cast<size_t>(kK) * kN);
    float2* result = c + product * (static_cast<size_t>(kM) * kN);

    const auto begin = [&](int step, int stage) {
        const int term = step * kTileTerms;
        copy_a(left, term, row, thread, tiles + stage * kStage);
        copy_b(right, term, column, thread, tiles + stage * kStage + kATile);
    };
    Sums sums = {};
    begin(0, 0);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    multiply_tile(tiles, warp_row, warp_column, thread % 32, sums);
    if (!is_used) {
        return;
    }
    store(sums, row + warp_row, column + warp_column, thread % 32, result);
}
