// warpsmith cgemm_tensor
// problem: cgemm batch=544 m=128 n=128 k=128 b=c
// config:  block_columns=2 block_rows=4 columns=32 min_blocks=2 multiplies=4 products=1 rows=16 slices=1 splits=1
//          stages=3 terms=16
//
// c = op(a) * op(b) by mma.sync m16n8k8 on TF32 (3xTF32). A block computes a kTileM x kTileN tile of c, a
// warp kWarpM x kWarpN of it. Each float32 is high + low, two TF32 numbers; a product is low * high + high * low +
// high * high.
// Tensor cores truncate sums where float32 rounds them, so accumulators in registers take the sums of 8 terms, in which
// small products come first. A stage is a tile of a, then a tile of b, in k blocks of kMmaK terms.
// While one stage is multiplied, cp.async fills the others; one __syncthreads() per k tile separates reads and writes.

constexpr int kM = 128;
constexpr int kN = 128;
constexpr int kK = 128;
constexpr int kWarpM = 16;  // rows of c per warp
constexpr int kWarpN = 32;
constexpr int kWarpsM = 4;  // warps along the rows of a tile
constexpr int kWarpsN = 2;
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kTileM = kWarpsM * kWarpM;
constexpr int kTileN = kWarpsN * kWarpN;
constexpr int kTileK = 16;
constexpr int kMmaK = 8;  // K of one mma instruction
constexpr int kTilesM = 2;  // tiles along M
constexpr int kTilesN = 2;
constexpr int kAKBlock = 520;  // complex numbers from one k block to the next in shared memory
constexpr int kBKBlock = 520;
constexpr int kATile = 1040;  // complex numbers of a in a stage
constexpr int kStage = kATile + 1040;
constexpr int kStages = 3;  // k tiles in shared memory at once
constexpr int kSteps = 8;  // k tiles per dot product
constexpr int kOperandParts = 2;  // real factors per complex number of a or b
constexpr int kAccumulatorParts = 2;  // real accumulators per element of c

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// sums += a * b: 16x8 by 8x8 TF32 with float32 accumulators, in the register layout of mma.m16n8k8. The hardware
// ignores the lower 13 bits of a float.
__device__ __forceinline__ void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// cp.async if `wanted`: predicated, without a branch.
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

// Issues the copies of a tile of a whose first term (K) is `term` and whose first row is `row`.
__device__ __forceinline__ void copy_a(const float2* a, int term, int row, int thread,
                                       float2* tile) {
    constexpr int kVector = 2;  // complex numbers per copy
    constexpr int kAcross = kTileK / kVector;
    constexpr int kCopies = 512;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_row = row + down;
        const int source_term = term + across;
        const float2* source = a + source_row * kK + source_term;
        float2* target = tile + across / kMmaK * kAKBlock + down * kMmaK + across % kMmaK;
        const bool wanted = true;
        cp_async_if<16>(wanted, target, source);
    }
}

// Issues the copies of a tile of b whose first term (K) is `term` and whose first column is `column`.
__device__ __forceinline__ void copy_b(const float2* b, int term, int column, int thread,
                                       float2* tile) {
    constexpr int kVector = 2;  // complex numbers per copy
    constexpr int kAcross = kTileK / kVector;
    constexpr int kCopies = 512;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_column = column + down;
        const int source_term = term + across;
        const float2* source = b + source_column * kK + source_term;
        float2* target = tile + across / kMmaK * kBKBlock + down * kMmaK + across % kMmaK;
        const bool wanted = true;
        cp_async_if<16>(wanted, target, source);
    }
}

// Splits a float32 into high + low, exact to 23 of its 24 bits: high is the nearest TF32 number, and the MMA reads low
// as TF32. Since high is rounded, low has either sign, and the omitted product low * low is zero on average.
__device__ __forceinline__ void split(float value, unsigned& high, unsigned& low) {
    high = (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(value - __uint_as_float(high));
}

// A thread's operand fragments of one MMA, split into high and low TF32 parts for each real factor.
struct FragmentA {
    unsigned high[kOperandParts][4], low[kOperandParts][4];
};
struct FragmentB {
    unsigned high[kOperandParts][2], low[kOperandParts][2];
};
using Accumulators = float[kWarpM / 16][kWarpN / 8][kAccumulatorParts][4];

__device__ __forceinline__ void set(FragmentA& fragment_a, int i, float x, float y) {
    split(x, fragment_a.high[0][i], fragment_a.low[0][i]);
    split(-y, fragment_a.high[1][i], fragment_a.low[1][i]);
}

__device__ __forceinline__ void set(FragmentB& fragment_b, int i, float x, float y) {
    split(x, fragment_b.high[0][i], fragment_b.low[0][i]);
    split(y, fragment_b.high[1][i], fragment_b.low[1][i]);
}

__device__ __forceinline__ float2 finished(const float (&sums)[kAccumulatorParts][4], int n) {
    return make_float2(sums[0][n], -sums[1][n]);
}

// Loads 16 rows of a from `row` on, for the terms of one k block.
__device__ __forceinline__ FragmentA read_a(const float2* k_block, int row, int lane) {
    FragmentA fragment_a;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float2* source = k_block + (row + lane / 4 + 8 * i) * kMmaK + lane % 4 * 2;
        const float4 both = *reinterpret_cast<const float4*>(source);
        set(fragment_a, i, both.x, both.y);
        set(fragment_a, i + 2, both.z, both.w);
    }
    return fragment_a;
}

// Loads 16 columns of b from `column` on, the fragments of two MMAs, for the terms of one k block.
__device__ __forceinline__ void read_b(const float2* k_block, int column, int lane, FragmentB* fragment_b) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float2* source = k_block + (column + lane / 4 + 8 * i) * kMmaK + lane % 4 * 2;
        const float4 both = *reinterpret_cast<const float4*>(source);
        set(fragment_b[i], 0, both.x, both.y);
        set(fragment_b[i], 1, both.z, both.w);
    }
}

// sums += the product of 16 rows and 16 columns over 8 terms: first factors, second factors, and the mixed products. An
// MMA waits for the accumulator that it adds to, so MMAs on two times three independent accumulators alternate.
__device__ __forceinline__ void multiply_add(const FragmentA& fragment_a, const FragmentB* fragment_b,
                                             float (*sums)[kAccumulatorParts][4]) {
    float products[2][3][4] = {};
    mma_tf32(products[0][0], fragment_a.low[0], fragment_b[0].high[0]);
    mma_tf32(products[1][0], fragment_a.low[0], fragment_b[1].high[0]);
    mma_tf32(products[0][1], fragment_a.low[1], fragment_b[0].high[1]);
    mma_tf32(products[1][1], fragment_a.low[1], fragment_b[1].high[1]);
    mma_tf32(products[0][2], fragment_a.low[0], fragment_b[0].high[1]);
    mma_tf32(products[1][2], fragment_a.low[0], fragment_b[1].high[1]);
    mma_tf32(products[0][2], fragment_a.low[1], fragment_b[0].high[0]);
    mma_tf32(products[1][2], fragment_a.low[1], fragment_b[1].high[0]);
    mma_tf32(products[0][0], fragment_a.high[0], fragment_b[0].low[0]);
    mma_tf32(products[1][0], fragment_a.high[0], fragment_b[1].low[0]);
    mma_tf32(products[0][1], fragment_a.high[1], fragment_b[0].low[1]);
    mma_tf32(products[1][1], fragment_a.high[1], fragment_b[1].low[1]);
    mma_tf32(products[0][2], fragment_a.high[0], fragment_b[0].low[1]);
    mma_tf32(products[1][2], fragment_a.high[0], fragment_b[1].low[1]);
    mma_tf32(products[0][2], fragment_a.high[1], fragment_b[0].low[0]);
    mma_tf32(products[1][2], fragment_a.high[1], fragment_b[1].low[0]);
    mma_tf32(products[0][0], fragment_a.high[0], fragment_b[0].high[0]);
    mma_tf32(products[1][0], fragment_a.high[0], fragment_b[1].high[0]);
    mma_tf32(products[0][1], fragment_a.high[1], fragment_b[0].high[1]);
    mma_tf32(products[1][1], fragment_a.high[1], fragment_b[1].high[1]);
    mma_tf32(products[0][2], fragment_a.high[0], fragment_b[0].high[1]);
    mma_tf32(products[1][2], fragment_a.high[0], fragment_b[1].high[1]);
    mma_tf32(products[0][2], fragment_a.high[1], fragment_b[0].high[0]);
    mma_tf32(products[1][2], fragment_a.high[1], fragment_b[1].high[0]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int j = i / 4, n = i % 4;
        sums[j][0][n] += products[j][0][n] - products[j][1][n];
        sums[j][1][n] += products[j][2][n];
    }
}

// Multiplies one stage: sums += a warp's part of the tile of a times that of b.
__device__ __forceinline__ void multiply_tile(const float2* tile, int row, int column, int lane, Accumulators& sums) {
#pragma unroll 1
    for (int k_block = 0; k_block < kTileK / kMmaK; ++k_block) {
        FragmentB fragment_b[kWarpN / 8];
#pragma unroll
        for (int j = 0; j < kWarpN / 8; j += 2) {
            read_b(tile + kATile + k_block * kBKBlock, column + 8 * j, lane, fragment_b + j);
        }
#pragma unroll
        for (int i = 0; i < kWarpM / 16; ++i) {
            const FragmentA fragment_a = read_a(tile + k_block * kAKBlock, row + 16 * i, lane);
#pragma unroll
            for (int j = 0; j < kWarpN / 8; j += 2) {
                multiply_add(fragment_a, fragment_b + j, sums[i] + j);
            }
        }
    }
}

// Epilogue: stores a warp's accumulators to c.
__device__ __forceinline__ void store(const Accumulators& sums, int row, int column, int lane,
                                      float2* c) {
#pragma unroll
    for (int i = 0; i < kWarpM / 8; ++i) {
        const int r = row + 8 * i + lane / 4;
#pragma unroll
        for (int j = 0; j < kWarpN / 8; ++j) {
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
    const int warp_row = thread / 32 / kWarpsN * kWarpM;  // first row within the tile
    const int warp_column = thread / 32 % kWarpsN * kWarpN;
    int block = blockIdx.x;
    const int column = block % kTilesN * kTileN;  // N varies fastest: neighbouring blocks read the same rows of a
    block /= kTilesN;
    const int row = block % kTilesM * kTileM;
    block /= kTilesM;
    const size_t product = block;
    const float2* left = a + product * (static_cast<size_t>(kM) * kK);
    const float2* right = b + product * (static_cast<size_t>(kK) * kN);
    float2* result = c + product * (static_cast<size_t>(kM) * kN);

    // Issues the copies of k tile `step` of both operands into `stage`.
    const auto begin = [&](int step, int stage) {
        const int term = step * kTileK;
        copy_a(left, term, row, thread, tiles + stage * kStage);
        copy_b(right, term, column, thread, tiles + stage * kStage + kATile);
    };
    Accumulators sums = {};
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        begin(step, step);
        cp_async_commit_group();
    }
    int reading = 0;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // k tile `step` has arrived, and no thread reads the stage that is filled next
        if (step + kStages - 1 < kSteps) {
            begin(step + kStages - 1, reading == 0 ? kStages - 1 : reading - 1);
        }
        cp_async_commit_group();
        multiply_tile(tiles + reading * kStage, warp_row, warp_column, thread % 32, sums);
        reading = reading + 1 == kStages ? 0 : reading + 1;
    }
    store(sums, row + warp_row, column + warp_column, thread % 32, result);
}
