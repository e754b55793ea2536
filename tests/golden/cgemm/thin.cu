// warpsmith cgemm_thin
// problem: cgemm batch=2664 m=64 n=1 k=96
// config:  own=4 sharers=8 threads=256 unroll=2
//
// c = op(a) * op(b) with a tall operand, a of kTallRows rows, and a skinny one, b of kSkinnyColumns columns. Each
// number of a is read once, two per load along its terms; b stays in the caches. A thread computes kThreadRows x
// kSkinnyColumns elements of c; kSplitK threads share their K loop, and shuffles add the partial sums.

constexpr int kTallRows = 64;
constexpr int kSkinnyColumns = 1;
constexpr int kK = 96;  // length of a dot product
constexpr int kThreads = 256;
constexpr int kSplitK = 8;  // threads that share the K loop of the same elements of c
constexpr int kBlockGroups = 32;  // groups of rows per block
constexpr unsigned kGroups = 16;  // groups of rows per product; a thread has one
constexpr int kThreadVectors = 4;  // rows of a per thread
constexpr int kThreadRows = 4;  // rows of a per thread
constexpr int kStepK = 2;  // terms per step
constexpr int kSteps = 6;  // steps per thread

// sum += op(a) * op(b).
__device__ __forceinline__ void multiply_add(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(-a.y, b.y, sum.x);
    sum.y = fmaf(a.x, b.y, sum.y);
    sum.y = fmaf(a.y, b.x, sum.y);
}

// One vector load of a.
struct TallVector {
    float2 values[2];
};

// The terms of one step, of all columns of b.
struct SkinnySlice {
    float2 values[kStepK][kSkinnyColumns];
};

__device__ __forceinline__ TallVector load_tall(const float2* address) {
    const float4 both = __ldcs(reinterpret_cast<const float4*>(address));  // streaming: no thread reads it again
    return {{make_float2(both.x, both.y), make_float2(both.z, both.w)}};
}

__device__ __forceinline__ SkinnySlice load_skinny(const float2* b, int step) {
    SkinnySlice slice;
#pragma unroll
    for (int t = 0; t < kSkinnyColumns; ++t) {
        const float4 both = __ldg(reinterpret_cast<const float4*>(b) + step * kSkinnyColumns + t);
        slice.values[2 * t / kSkinnyColumns][2 * t % kSkinnyColumns] = make_float2(both.x, both.y);
        slice.values[(2 * t + 1) / kSkinnyColumns][(2 * t + 1) % kSkinnyColumns] = make_float2(both.z, both.w);
    }
    return slice;
}

extern "C" __global__ void __launch_bounds__(kThreads)
cgemm_thin(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    const int block_group = threadIdx.x / kSplitK, k_split = threadIdx.x % kSplitK;
    const unsigned group = static_cast<unsigned>(blockIdx.x) * kBlockGroups + block_group;
    const size_t product = group / kGroups;
    const int part = static_cast<int>(group % kGroups);
    const float2* const skinny = b + product * (static_cast<size_t>(kSkinnyColumns) * kK);
    const float2* rows[kThreadVectors];
#pragma unroll
    for (int i = 0; i < kThreadVectors; ++i) {
        const int row = part * kThreadVectors + i;
        rows[i] = a + product * (static_cast<size_t>(kTallRows) * kK) + static_cast<size_t>(row) * kK;
    }
    const auto add = [&](int step, float2 (&sums)[kThreadRows][kSkinnyColumns]) {
        const SkinnySlice skinny_slice = load_skinny(skinny, step);
#pragma unroll
        for (int i = 0; i < kThreadVectors; ++i) {
            const TallVector row = load_tall(rows[i] + step * kStepK);
#pragma unroll
            for (int j = 0; j < kStepK; ++j) {
#pragma unroll
                for (int t = 0; t < kSkinnyColumns; ++t) {
                    multiply_add(row.values[j], skinny_slice.values[j][t], sums[i][t]);
                }
            }
        }
    };
    float2 sums[kThreadRows][kSkinnyColumns] = {};
#pragma unroll 2
    for (int step = 0; step < kSteps; ++step) {
        add(step * kSplitK + k_split, sums);
    }
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int t = 0; t < kSkinnyColumns; ++t) {
#pragma unroll
            for (int other = kSplitK / 2; other > 0; other /= 2) {
                sums[i][t].x += __shfl_xor_sync(0xffffffffu, sums[i][t].x, other);
                sums[i][t].y += __shfl_xor_sync(0xffffffffu, sums[i][t].y, other);
            }
        }
    }
    if (k_split > 0) {
        return;
    }
    float2* const result = c + product * (static_cast<size_t>(kTallRows) * kSkinnyColumns);
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        const int row = part * kThreadVectors + i;
#pragma unroll
        for (int t = 0; t < kSkinnyColumns; ++t) {
            result[row * kSkinnyColumns + t] = sums[i][t];
        }
    }
}
