// warpsmith cgemm_plain
// problem: cgemm batch=2112 m=128 n=64 k=64 b=c
// config:  threads=256 unroll=1
//
// c = op(a) * op(b), one element of c per thread, without shared memory: a thread reads each operand from global
// memory where it needs it. The baseline that a tuned kernel has to beat.

constexpr unsigned kResults = 17301504;
constexpr int kM = 128;  // rows of c
constexpr int kN = 64;  // columns of c
constexpr int kK = 64;  // length of a dot product
constexpr int kThreads = 256;

// sum += op(a) * op(b).
__device__ __forceinline__ void multiply_add(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.x = fmaf(a.y, b.y, sum.x);
    sum.y = fmaf(a.x, -b.y, sum.y);
    sum.y = fmaf(a.y, b.x, sum.y);
}

extern "C" __global__ void __launch_bounds__(kThreads)
cgemm_plain(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ c) {
    const unsigned index = static_cast<unsigned>(blockIdx.x) * kThreads + threadIdx.x;
    if (index >= kResults) {
        return;
    }
    const int column = index % kN;
    const int row = index / kN % kM;
    const size_t product = index / kN / kM;
    const float2* left = a + product * (static_cast<size_t>(kM) * kK) + row * kK;
    const float2* right = b + product * (static_cast<size_t>(kK) * kN) + column * kK;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 1
    for (int i = 0; i < kK; ++i) {
        multiply_add(__ldg(left + i), __ldg(right + i), sum);
    }
    c[index] = sum;
}
