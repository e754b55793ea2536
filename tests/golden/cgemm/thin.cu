// warpsmith cgemm_thin
// problem: cgemm batch=2664 m=64 n=1 k=96
// config:  own=4 sharers=8 threads=256 unroll=2
//
// Results of kThin columns: a is read once, two numbers at a time along its terms, and b is small.

constexpr int kRows = 64;  // of a
constexpr int kThin = 1;
constexpr int kK = 96;  // terms of a sum
constexpr int kThreads = 256;
constexpr int kSharers = 8;  // threads that share sums
constexpr int kSlots = 32;  // groups of rows of a block
constexpr unsigned kGroups = 16;  // of a product
constexpr int kOwn = 4;  // rows of a of a thread
constexpr int kResults = 4;  // rows of results of a thread
constexpr int kTerms = 2;  // of a step
constexpr int kSteps = 6;  // of a sum, each of one that shares it

// Adds op(a) * op(b).
__device__ __forceinline__ void multiply_add(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(-a.y, b.y, sum.x);
    sum.y = fmaf(a.x, b.y, sum.y);
    sum.y = fmaf(a.y, b.x, sum.y);
}

// Numbers of a that are read at once.
struct Long {
    float2 of[2];
};

// What a step needs of b.
struct Thin {
    float2 of[kTerms][kThin];
};

__device__ __forceinline__ Long load_long(const float2* address) {
    const float4 both = __ldcs(reinterpret_cast<const float4*>(address));  // which nobody reads again
    return {{make_float2(both.x, both.y), make_float2(both.z, both.w)}};
}

__device__ __forceinline__ Thin load_thin(const float2* b, int step) {
    Thin found;
#pragma unroll
    for (int t = 0; t < kThin; ++t) {
        const float4 both = __ldg(reinterpret_cast<const float4*>(b) + step * kThin + t);
        found.of[2 * t / kThin][2 * t % kThin] = make_float2(both.x, both.y);
        found.of[(2 * t + 1) / kThin][(2 * t + 1) % kThin] = make_float2(both.z, both.w);
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(kThreads)
cgemm_thin(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    const int slot = threadIdx.x / kSharers, sharer = threadIdx.x % kSharers;
    const unsigned group = static_cast<unsigned>(blockIdx.x) * kSlots + slot;
    const size_t product = group / kGroups;
    const int part = static_cast<int>(group % kGroups);
    const float2* const thin = b + product * (static_cast<size_t>(kThin) * kK);
    const float2* rows[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int row = part * kOwn + i;
        rows[i] = a + product * (static_cast<size_t>(kRows) * kK) + static_cast<size_t>(row) * kK;
    }
    const auto add = [&](int step, float2 (&sums)[kResults][kThin]) {
        const Thin column = load_thin(thin, step);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const Long row = load_long(rows[i] + step * kTerms);
#pragma unroll
            for (int j = 0; j < kTerms; ++j) {
#pragma unroll
                for (int t = 0; t < kThin; ++t) {
                    multiply_add(row.of[j], column.of[j][t], sums[i][t]);
                }
            }
        }
    };
    float2 sums[kResults][kThin] = {};
#pragma unroll 2
    for (int step = 0; step < kSteps; ++step) {
        add(step * kSharers + sharer, sums);
    }
#pragma unroll
    for (int i = 0; i < kResults; ++i) {
#pragma unroll
        for (int t = 0; t < kThin; ++t) {
#pragma unroll
            for (int other = kSharers / 2; other > 0; other /= 2) {
                sums[i][t].x += __shfl_xor_sync(0xffffffffu, sums[i][t].x, other);
                sums[i][t].y += __shfl_xor_sync(0xffffffffu, sums[i][t].y, other);
            }
        }
    }
    if (sharer > 0) {
        return;
    }
    float2* const result = c + product * (static_cast<size_t>(kRows) * kThin);
#pragma unroll
    for (int i = 0; i < kResults; ++i) {
        const int row = part * kOwn + i;
#pragma unroll
        for (int t = 0; t < kThin; ++t) {
            result[row * kThin + t] = sums[i][t];
        }
    }
}
