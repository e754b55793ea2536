// warpsmith cgemm_thin
// problem: cgemm batch=544 m=128 n=3 k=576 a=c
// config:  own=1 sharers=4 threads=256 unroll=8
//
// Results of kThin columns: a is read once, two numbers at a time along its rows, and b is small.

constexpr int kRows = 128;  // of a
constexpr int kThin = 3;
constexpr int kK = 576;  // terms of a sum
constexpr int kThreads = 256;
constexpr int kSharers = 4;  // threads that share sums
constexpr int kSlots = 64;  // groups of rows of a block
constexpr unsigned kGroups = 64;  // of a product
constexpr int kOwn = 1;  // pairs of rows of a of a thread
constexpr int kResults = 2;  // rows of results of a thread
constexpr int kTerms = 1;  // of a step
constexpr int kSteps = 144;  // of a sum, each of one that shares it

// Adds op(a) * op(b).
__device__ __forceinline__ void multiply_add(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(a.y, b.y, sum.x);
    sum.y = fmaf(a.x, b.y, sum.y);
    sum.y = fmaf(-a.y, b.x, sum.y);
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
        found.of[0][t] = __ldg(b + step * kThin + t);
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(kThreads)
cgemm_thin(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    const int slot = threadIdx.x % kSlots, sharer = threadIdx.x / kSlots;
    const unsigned group = static_cast<unsigned>(blockIdx.x) * kSlots + slot;
    const size_t product = group / kGroups;
    const int part = static_cast<int>(group % kGroups);
    const float2* const thin = b + product * (static_cast<size_t>(kThin) * kK);
    const float2* rows[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int vector = part + i * static_cast<int>(kGroups);
        rows[i] = a + product * (static_cast<size_t>(kRows) * kK) + 2 * vector;
    }
    const auto add = [&](int step, float2 (&sums)[kResults][kThin]) {
        const Thin column = load_thin(thin, step);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const Long row = load_long(rows[i] + static_cast<size_t>(step) * kRows);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
#pragma unroll
                for (int t = 0; t < kThin; ++t) {
                    multiply_add(row.of[j], column.of[0][t], sums[2 * i + j][t]);
                }
            }
        }
    };
    float2 sums[kResults][kThin] = {};
#pragma unroll 8
    for (int step = 0; step < kSteps; ++step) {
        add(step * kSharers + sharer, sums);
    }
    __shared__ float2 others[kSharers - 1][kResults][kThin][kSlots];
#pragma unroll
    for (int i = 0; i < kResults; ++i) {
#pragma unroll
        for (int t = 0; t < kThin; ++t) {
            if (sharer > 0) {
                others[sharer - 1][i][t][slot] = sums[i][t];
            }
        }
    }
    __syncthreads();
    if (sharer > 0) {
        return;
    }
    float2* const result = c + product * (static_cast<size_t>(kRows) * kThin);
#pragma unroll
    for (int i = 0; i < kResults; ++i) {
        const int row = 2 * (part + i / 2 * static_cast<int>(kGroups)) + i % 2;
#pragma unroll
        for (int t = 0; t < kThin; ++t) {
            float2 sum = sums[i][t];
#pragma unroll
            for (int other = 0; other < kSharers - 1; ++other) {
                sum.x += others[other][i][t][slot].x;
                sum.y += others[other][i][t][slot].y;
            }
            result[row * kThin + t] = sum;
        }
    }
}
