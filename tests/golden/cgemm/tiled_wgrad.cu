// warpsmith cgemm_tiled
// problem: cgemm batch=2112 m=64 n=64 k=128 a=c
// config:  block_columns=16 block_rows=8 columns=4 lanes=8 min_blocks=0 multiplies=4 products=1 rows=8 splits=1 stages=3 terms=8
//
// kThreadRows x kThreadColumns sums a thread, in registers. Tiles of a and b lie in shared memory as they lie in global
// memory, so that asynchronous copies bring them; they are read by 16 bytes: two terms of one row, or two rows.

constexpr int kM = 64;  // rows of a result
constexpr int kN = 64;  // and columns
constexpr int kK = 128;  // terms of a sum
constexpr int kThreadRows = 8;
constexpr int kThreadColumns = 4;
constexpr int kBlockRows = 8;  // threads down a tile
constexpr int kBlockColumns = 16;  // and across
constexpr int kThreads = kBlockRows * kBlockColumns;
constexpr int kLanes = 8;  // threads of a warp side by side
constexpr int kTileRows = kBlockRows * kThreadRows;
constexpr int kTileColumns = kBlockColumns * kThreadColumns;
constexpr int kTileTerms = 8;
constexpr int kTilesDown = 1;  // a result
constexpr int kTilesAcross = 1;
constexpr int kAPitch = 64;  // complex numbers from row to row of a tile of a in shared memory
constexpr int kBPitch = 64;
constexpr int kATile = 512;  // complex numbers
constexpr int kStage = kATile + 512;
constexpr int kStages = 3;  // tiles in shared memory at once, of each operand
constexpr int kSteps = 16;  // tiles that a sum goes through

using Number = float2;
using Sum = float2;

__device__ __forceinline__ Number number_a(float x, float y) { return make_float2(x, y); }
__device__ __forceinline__ Number number_b(float x, float y) { return make_float2(x, y); }

// Adds op(a) * op(b).
__device__ __forceinline__ void multiply_add(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(a.y, b.y, sum.x);
    sum.y = fmaf(a.x, b.y, sum.y);
    sum.y = fmaf(-a.y, b.x, sum.y);
}

__device__ __forceinline__ float2 finished(Sum sum) { return sum; }

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
    constexpr int kAcross = kTileRows / kVector;
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

// Begins to copy a tile of b: `term` and `column` are its first ones.
__device__ __forceinline__ void copy_b(const float2* b, int term, int column, int thread, float2* tile) {
    constexpr int kVector = 2;  // complex numbers at once
    constexpr int kAcross = kTileColumns / kVector;
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

__device__ __forceinline__ void read_a(const float2* tile, int term, int thread, Number (&values)[2][kThreadRows]) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
        const float2* own = tile + (term + t) * kAPitch + 2 * thread;
#pragma unroll
        for (int i = 0; i < kThreadRows; i += 2) {
            const float4 both = *reinterpret_cast<const float4*>(own + i * kBlockRows);
            values[t][i] = number_a(both.x, both.y);
            values[t][i + 1] = number_a(both.z, both.w);
        }
    }
}

__device__ __forceinline__ void read_b(const float2* tile, int term, int thread, Number (&values)[2][kThreadColumns]) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
        const float2* own = tile + (term + t) * kBPitch + 2 * thread;
#pragma unroll
        for (int i = 0; i < kThreadColumns; i += 2) {
            const float4 both = *reinterpret_cast<const float4*>(own + i * kBlockColumns);
            values[t][i] = number_b(both.x, both.y);
            values[t][i + 1] = number_b(both.z, both.w);
        }
    }
}

// Writes a thread's sums where they lie in the result.
__device__ __forceinline__ void store(const Sum (&sums)[kThreadRows][kThreadColumns], int row, int column,
                                      int thread_row, int thread_column, float2* c) {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        const int r = row + 2 * thread_row + i / 2 * (2 * kBlockRows) + i % 2;
#pragma unroll
        for (int j = 0; j < kThreadColumns; j += 2) {
            const int s = column + 2 * thread_column + j / 2 * (2 * kBlockColumns) + j % 2;
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
    // A warp is kLanes threads across and 32 / kLanes down.
    const int thread_column = thread / 32 % (kBlockColumns / kLanes) * kLanes + thread % kLanes;
    const int thread_row = thread / 32 / (kBlockColumns / kLanes) * (32 / kLanes) + thread % 32 / kLanes;
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
    Sum sums[kThreadRows][kThreadColumns] = {};
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
        begin(step, step);
        cp_async_commit_group();
    }
    int reading = 0, writing = kStages - 1;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();  // all copies are there, and all threads are done with the tile that is written next
        if (step + kStages - 1 < kSteps) {
            begin(step + kStages - 1, writing);
        }
        cp_async_commit_group();
        const float2* tile = tiles + reading * kStage;
#pragma unroll 4
        for (int term = 0; term < kTileTerms; term += 2) {
            Number rows[2][kThreadRows], columns[2][kThreadColumns];
            read_a(tile, term, thread_row, rows);
            read_b(tile + kATile, term, thread_column, columns);
#pragma unroll
            for (int t = 0; t < 2; ++t) {
#pragma unroll
                for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
                    for (int j = 0; j < kThreadColumns; ++j) {
                        multiply_add(rows[t][i], columns[t][j], sums[i][j]);
                    }
                }
            }
        }
        reading = reading + 1 == kStages ? 0 : reading + 1;
        writing = writing + 1 == kStages ? 0 : writing + 1;
    }
    store(sums, row, column, thread_row, thread_column, result);
}
