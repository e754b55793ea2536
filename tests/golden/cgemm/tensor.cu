// warpsmith cgemm_tensor
// problem: cgemm batch=544 m=128 n=128 k=128 b=c
// config:  block_columns=2 block_rows=4 columns=32 min_blocks=2 multiplies=4 products=1 rows=16 slices=1 splits=1 stages=3 terms=16
//
// kWarpRows x kWarpColumns results a warp, by products of the tensor cores. Each float32 is the sum of two tf32
// numbers, high and low, and a product of two is three: low * high, high * low and high * high. Tensor cores cut sums
// off where float32 rounds them, so that those of 8 terms are added up outside, and small products come first in them.

constexpr int kM = 128;  // rows of a result
constexpr int kN = 128;  // and columns
constexpr int kK = 128;  // terms of a sum
constexpr int kWarpRows = 16;
constexpr int kWarpColumns = 32;
constexpr int kBlockRows = 4;  // warps down a tile
constexpr int kBlockColumns = 2;  // and across
constexpr int kThreads = 32 * kBlockRows * kBlockColumns;
constexpr int kTileRows = kBlockRows * kWarpRows;
constexpr int kTileColumns = kBlockColumns * kWarpColumns;
constexpr int kTileTerms = 16;
constexpr int kTerms = 8;  // of one product of the tensor cores
constexpr int kTilesDown = 2;  // a result
constexpr int kTilesAcross = 2;
constexpr int kASlice = 520;  // complex numbers from kTerms terms to the next ones in shared memory
constexpr int kBSlice = 520;
constexpr int kATile = 1040;  // complex numbers
constexpr int kStage = kATile + 1040;
constexpr int kStages = 3;  // tiles in shared memory at once, of each operand
constexpr int kSteps = 8;  // tiles that a sum goes through
constexpr int kParts = 2;  // numbers that are multiplied for each one of a, and of b
constexpr int kSums = 2;  // of real numbers for each result

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// sums += a * b, 16x8 by 8x8 tf32 numbers into 16x8 floats, spread over a warp as PTX lays out mma.m16n8k8. The lower
// 13 bits of a number are not read.
__device__ __forceinline__ void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Copies past the registers where `wanted` holds, without a branch; the thread goes on at once.
template <int kBytes>
__device__ __forceinline__ void cp_async_if(bool wanted, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes) : "memory");
    }
}

__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

// Begins to copy a tile of a: `term` and `row` are its first ones.
__device__ __forceinline__ void copy_a(const float2* a, int term, int row, int thread, float2* tile) {
    constexpr int kVector = 2;  // complex numbers at once
    constexpr int kAcross = kTileTerms / kVector;
    constexpr int kCopies = 512;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_row = row + down;
        const int source_term = term + across;
        const float2* source = a + source_row * kK + source_term;
        float2* target = tile + across / kTerms * kASlice + down * kTerms + across % kTerms;
        const bool wanted = true;
        cp_async_if<16>(wanted, target, source);
    }
}

// Begins to copy a tile of b: `term` and `column` are its first ones.
__device__ __forceinline__ void copy_b(const float2* b, int term, int column, int thread, float2* tile) {
    constexpr int kVector = 2;  // complex numbers at once
    constexpr int kAcross = kTileTerms / kVector;
    constexpr int kCopies = 512;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_column = column + down;
        const int source_term = term + across;
        const float2* source = b + source_column * kK + source_term;
        float2* target = tile + across / kTerms * kBSlice + down * kTerms + across % kTerms;
        const bool wanted = true;
        cp_async_if<16>(wanted, target, source);
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
        const float2* source = slice + (row + lane / 4 + 8 * i) * kTerms + lane % 4 * 2;
        const float4 both = *reinterpret_cast<const float4*>(source);
        set(rows, i, both.x, both.y);
        set(rows, i + 2, both.z, both.w);
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
    mma_tf32(products[0][0], rows.low[0], columns[0].high[0]);
    mma_tf32(products[1][0], rows.low[0], columns[1].high[0]);
    mma_tf32(products[0][1], rows.low[1], columns[0].high[1]);
    mma_tf32(products[1][1], rows.low[1], columns[1].high[1]);
    mma_tf32(products[0][2], rows.low[0], columns[0].high[1]);
    mma_tf32(products[1][2], rows.low[0], columns[1].high[1]);
    mma_tf32(products[0][2], rows.low[1], columns[0].high[0]);
    mma_tf32(products[1][2], rows.low[1], columns[1].high[0]);
    mma_tf32(products[0][0], rows.high[0], columns[0].low[0]);
    mma_tf32(products[1][0], rows.high[0], columns[1].low[0]);
    mma_tf32(products[0][1], rows.high[1], columns[0].low[1]);
    mma_tf32(products[1][1], rows.high[1], columns[1].low[1]);
    mma_tf32(products[0][2], rows.high[0], columns[0].low[1]);
    mma_tf32(products[1][2], rows.high[0], columns[1].low[1]);
    mma_tf32(products[0][2], rows.high[1], columns[0].low[0]);
    mma_tf32(products[1][2], rows.high[1], columns[1].low[0]);
    mma_tf32(products[0][0], rows.high[0], columns[0].high[0]);
    mma_tf32(products[1][0], rows.high[0], columns[1].high[0]);
    mma_tf32(products[0][1], rows.high[1], columns[0].high[1]);
    mma_tf32(products[1][1], rows.high[1], columns[1].high[1]);
    mma_tf32(products[0][2], rows.high[0], columns[0].high[1]);
    mma_tf32(products[1][2], rows.high[0], columns[1].high[1]);
    mma_tf32(products[0][2], rows.high[1], columns[0].high[0]);
    mma_tf32(products[1][2], rows.high[1], columns[1].high[0]);
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
        const int r = row + 8 * i + lane / 4;
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

extern "C" __global__ void __launch_bounds__(kThreads, 2)
cgemm_tensor(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    extern __shared__ __align__(16) float2 shared[];
    const int thread = threadIdx.x;
    float2* tiles = shared;
    const int warp_row = thread / 32 / kBlockColumns * kWarpRows;  // within the tile
    const int warp_column = thread / 32 % kBlockColumns * kWarpColumns;
    int block = blockIdx.x;
    const int column = block % kTilesAcross * kTileColumns;  // fastest: these blocks read the same rows of a
    block /= kTilesAcross;
    const int row = block % kTilesDown * kTileRows;
    block /= kTilesDown;
    const size_t product = block;
    const float2* left = a + product * (static_cast<size_t>(kM) * kK);
    const float2* right = b + product * (static_cast<size_t>(kK) * kN);
    float2* result = c + product * (static_cast<size_t>(kM) * kN);

    const auto begin = [&](int step, int stage) {
        const int term = step * kTileTerms;
        copy_a(left, term, row, thread, tiles + stage * kStage);
        copy_b(right, term, column, thread, tiles + stage * kStage + kATile);
    };
    Sums sums = {};
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        begin(step, step);
        cp_async_commit_group();
    }
    int reading = 0;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // all copies are there, and all threads are done with the tile that is written next
        if (step + kStages - 1 < kSteps) {
            begin(step + kStages - 1, reading == 0 ? kStages - 1 : reading - 1);
        }
        cp_async_commit_group();
        multiply_tile(tiles + reading * kStage, warp_row, warp_column, thread % 32, sums);
        reading = reading + 1 == kStages ? 0 : reading + 1;
    }
    store(sums, row + warp_row, column + warp_column, thread % 32, result);
}
