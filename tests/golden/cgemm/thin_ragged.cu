// warpsmith cgemm_thin
// problem: cgemm batch=7 m=3 n=95 k=37 b=c
// config:  own=2 sharers=8 threads=256 unroll=2
//
// Results of kThin rows: b is read once, a number at a time along its terms, and a is small.

constexpr int kRows = 95;  // of b
constexpr int kThin = 3;
constexpr int kK = 37;  // terms of a sum
constexpr int kThreads = 256;
constexpr int kSharers = 8;  // threads that share sums
constexpr int kSlots = 32;  // groups of rows of a block
constexpr unsigned kGroups = 48;  // of a product
constexpr unsigned kAllGroups = 336;
constexpr int kOwn = 2;  // rows of b of a thread
constexpr int kResults = 2;  // rows of results of a thread
constexpr int kTerms = 1;  // of a step
constexpr int kSteps = 4;  // of a sum, each of one that shares it

// Adds op(a) * op(b).
__device__ __forceinline__ void multiply_add(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(a.y, b.y, sum.x);
    sum.y = fmaf(a.x, -b.y, sum.y);
    sum.y = fmaf(a.y, b.x, sum.y);
}

// Numbers of b that are read at once.
struct Long {
    float2 of[1];
};

// What a step needs of a.
struct Thin {
    float2 of[kTerms][kThin];
};

__device__ __forceinline__ Long load_long(const float2* address) {
    return {{__ldcs(address)}};
}

__device__ __forceinline__ Thin load_thin(const float2* a, int step) {
    Thin found;
#pragma unroll
    for (int t = 0; t < kThin; ++t) {
        found.of[0][t] = __ldg(a + t * kK + step);
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(kThreads)
cgemm_thin(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    const int slot = threadIdx.x / kSharers, sharer = threadIdx.x % kSharers;
    const unsigned own_group = static_cast<unsigned>(blockIdx.x) * kSlots + slot;
    const unsigned group = min(own_group, kAllGroups - 1);  // what is left over does the last one's work again
    const size_t product = group / kGroups;
    const int part = static_cast<int>(group % kGroups);
    const float2* const thin = a + product * (static_cast<size_t>(kThin) * kK);
    const float2* rows[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int row = min(part * kOwn + i, kRows - 1);
        rows[i] = b + product * (static_cast<size_t>(kRows) * kK) + static_cast<size_t>(row) * kK;
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
                    multiply_add(column.of[j][t], row.of[j], sums[i][t]);
                }
            }
        }
    };
    float2 sums[kResults][kThin] = {};
#pragma unroll 2
    for (int step = 0; step < kSteps; ++step) {
        add(step * kSharers + sharer, sums);
    }
    if (sharer < 5) {
        add(kSteps * kSharers + sharer, sums);
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
    if (sharer > 0 || own_group >= kAllGroups) {
        return;
    }
    float2* const result = c + product * (static_cast<size_t>(kRows) * kThin);
#pragma unroll
    for (int i = 0; i < kResults; ++i) {
        const int row = part * kOwn + i;
#pragma unroll
        for (int t = 0; t < kThin; ++t) {
            if (row < kRows) {
                result[t * kRows + row] = sums[i][t];
            }
        }
    }
}
