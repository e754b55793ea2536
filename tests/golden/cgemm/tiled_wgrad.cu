// warpsmith cgemm_tiled
// problem: cgemm batch=2112 m=64 n=64 k=128 a=c
// config:  block_columns=16 block_rows=8 columns=4 lanes=8 min_blocks=0 multiplies=4 products=1 rows=8 splits=1
//          stages=3 terms=8
//
// c = op(a) * op(b) on the FP32 cores. A block computes a kTileM x kTileN tile of c, a thread
// kThreadM x kThreadN accumulators of it in registers. A stage has a tile of a, then a tile of b, laid out as in
// global memory, so that cp.async copies them. While one stage is multiplied, cp.async fills the others; one
// __syncthreads() per k tile separates readers from writers.
// Threads read shared memory in 16-byte vectors: two terms of one row, or two rows.

constexpr int kM = 64;
constexpr int kN = 64;
constexpr int kK = 128;
constexpr int kThreadM = 8;  // rows of c per thread
constexpr int kThreadN = 4;
constexpr int kThreadsM = 8;  // threads along the rows of a tile
constexpr int kThreadsN = 16;
constexpr int kThreads = kThreadsM * kThreadsN;
constexpr int kLanes = 8;  // lanes of a warp along N; 32 / kLanes along M
constexpr int kTileM = kThreadsM * kThreadM;
constexpr int kTileN = kThreadsN * kThreadN;
constexpr int kTileK = 8;
constexpr int kTilesM = 1;  // tiles along M
constexpr int kTilesN = 1;
constexpr int kAPitch = 64;  // complex numbers from row to row of the tile of a in shared memory
constexpr int kBPitch = 64;
constexpr int kATile = 512;  // complex numbers of a in a stage
constexpr int kStage = kATile + 512;
constexpr int kStages = 3;  // k tiles in shared memory at once
constexpr int kSteps = 16;  // k tiles per dot product

using Number = float2;
using Accumulator = float2;

__device__ __forceinline__ Number number_a(float x, float y) { return make_float2(x, y); }
__device__ __forceinline__ Number number_b(float x, float y) { return make_float2(x, y); }

// sum += op(a) * op(b).
__device__ __forceinline__ void multiply_add(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(a.y, b.y, sum.x);
    sum.y = fmaf(a.x, b.y, sum.y);
    sum.y = fmaf(-a.y, b.x, sum.y);
}

__device__ __forceinline__ float2 finished(Accumulator sum) { return sum; }

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
    constexpr int kAcross = kTileM / kVector;
    constexpr int kCopies = 256;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_row = row + across;
        const int source_term = term + down;
        const float2* source = a + source_term * kM + source_row;
        const bool wanted = true;
        cp_async_if<16>(wanted, tile + down * kAPitch + across, source);
    }
}

// Issues the copies of a tile of b whose first term (K) is `term` and whose first column is `column`.
__device__ __forceinline__ void copy_b(const float2* b, int term, int column, int thread,
                                       float2* tile) {
    constexpr int kVector = 2;  // complex numbers per copy
    constexpr int kAcross = kTileN / kVector;
    constexpr int kCopies = 256;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
        const int down = (first + thread) / kAcross, across = (first + thread) % kAcross * kVector;
        const int source_column = column + across;
        const int source_term = term + down;
        const float2* source = b + source_term * kN + source_column;
        const bool wanted = true;
        cp_async_if<16>(wanted, tile + down * kBPitch + across, source);
    }
}

__device__ __forceinline__ void read_a(const float2* tile, int term, int thread,
                                       Number (&values)[2][kThreadM]) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
        const float2* own = tile + (term + t) * kAPitch + 2 * thread;
#pragma unroll
        for (int i = 0; i < kThreadM; i += 2) {
            const float4 both = *reinterpret_cast<const float4*>(own + i * kThreadsM);
            values[t][i] = number_a(both.x, both.y);
            values[t][i + 1] = number_a(both.z, both.w);
        }
    }
}

__device__ __forceinline__ void read_b(const float2* tile, int term, int thread,
                                       Number (&values)[2][kThreadN]) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
        const float2* own = tile + (term + t) * kBPitch + 2 * thread;
#pragma unroll
        for (int i = 0; i < kThreadN; i += 2) {
            const float4 both = *reinterpret_cast<const float4*>(own + i * kThreadsN);
            values[t][i] = number_b(both.x, both.y);
            values[t][i + 1] = number_b(both.z, both.w);
        }
    }
}

// Epilogue: stores a thread's accumulators to c.
// `row` and `column` are the tile's first ones.
__device__ __forceinline__ void store(const Accumulator (&sums)[kThreadM][kThreadN], int row, int column,
                                      int thread_row, int thread_column, float2* c) {
#pragma unroll
    for (int i = 0; i < kThreadM; ++i) {
        const int r = row + 2 * thread_row + i / 2 * (2 * kThreadsM) + i % 2;
#pragma unroll
        for (int j = 0; j < kThreadN; j += 2) {
            const int s = column + 2 * thread_column + j / 2 * (2 * kThreadsN) + j % 2;
            float4* target = reinterpret_cast<float4*>(c + r * kN + s);
            const float2 sum = finished(sums[i][j]), next = finished(sums[i][j + 1]);
            float4 both = make_float4(sum.x, sum.y, next.x, next.y);
            *target = both;
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
cgemm_tiled(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    extern __shared__ __align__(16) float2 shared[];
    const int thread = threadIdx.x;
    float2* tiles = shared;
    // A warp covers kLanes threads along N and 32 / kLanes along M.
    const int thread_column = thread / 32 % (kThreadsN / kLanes) * kLanes + thread % kLanes;
    const int thread_row = thread / 32 / (kThreadsN / kLanes) * (32 / kLanes) + thread % 32 / kLanes;
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
    Accumulator sums[kThreadM][kThreadN] = {};
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        begin(step, step);
        cp_async_commit_group();
    }
    int reading = 0, writing = kStages - 1;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // k tile `step` has arrived, and no thread reads the stage that is filled next
        if (step + kStages - 1 < kSteps) {
            begin(step + kStages - 1, writing);
        }
        cp_async_commit_group();
        const float2* tile = tiles + reading * kStage;
#pragma unroll 4
        for (int term = 0; term < kTileK; term += 2) {
            Number fragment_a[2][kThreadM], fragment_b[2][kThreadN];
            read_a(tile, term, thread_row, fragment_a);
            read_b(tile + kATile, term, thread_column, fragment_b);
#pragma unroll
            for (int t = 0; t < 2; ++t) {
#pragma unroll
                for (int i = 0; i < kThreadM; ++i) {
#pragma unroll
                    for (int j = 0; j < kThreadN; ++j) {
                        multiply_add(fragment_a[t][i], fragment_b[t][j], sums[i][j]);
                    }
                }
            }
        }
        reading = reading + 1 == kStages ? 0 : reading + 1;
        writing = writing + 1 == kStages ? 0 : writing + 1;
    }
    store(sums, row, column, thread_row, thread_column, result);
}
