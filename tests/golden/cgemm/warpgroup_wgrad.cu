// warpsmith cgemm_warpgroup
// problem: cgemm batch=2112 m=64 n=64 k=128 a=c accuracy=normwise
// config:  columns=64 dealt_to=0 groups=1 min_blocks=3 splits=1 stages=0 terms=16
//
// c = op(a) * op(b) by wgmma on split fp16 (fp16x3). A block computes a kTileM x kTileN tile of c, a warpgroup 64 x
// kTileN of it. Each k tile of an operand is scaled by a power of two; each float32 is
// high + low, two fp16 numbers; a product is low * high + high * low + high * high. Tensor cores truncate sums where
// float32 rounds them, so each k tile is summed in fresh accumulators, small products first, and added to the float32
// totals in registers.
// Shared memory holds two buffers of split tiles, each 4 fp16 matrices per operand. While wgmma multiplies one buffer,
// the threads split the next k tile into the other one, from registers.

constexpr int kM = 64;
constexpr int kN = 64;
constexpr int kK = 128;
constexpr int kWarpgroups = 1;  // along M
constexpr int kThreads = 128 * kWarpgroups;
constexpr int kWarps = kThreads / 32;
constexpr int kTileM = 64 * kWarpgroups;
constexpr int kTileN = 64;
constexpr int kTileK = 16;
constexpr int kTilesM = 1;  // tiles along M
constexpr int kTilesN = 1;
constexpr int kAccumulators = kTileN / 2;  // real accumulators per thread

// Parts of a split tile: fp16 matrices in core matrices of 8 x 8. kReal + kLow is the low part of the real numbers.
constexpr int kReal = 0;
constexpr int kImaginary = 2;
constexpr int kLow = 1;
constexpr bool kATransposed = true;  // M-major (rows side by side) or K-major
constexpr bool kBTransposed = true;
constexpr int kAStrideK = 128;  // bytes from core matrix to core matrix along K
constexpr int kAStrideM = 320;  // bytes from core matrix to core matrix along M
constexpr int kAPart = 2560;  // bytes of a part
constexpr int kBStrideK = 128;
constexpr int kBStrideN = 320;
constexpr int kBPart = 2560;
constexpr int kSplitTile = 4 * (kAPart + kBPart);  // bytes of a buffer
constexpr int kACopies = 4;  // vectors of a per thread and k tile
constexpr int kBCopies = 4;
constexpr int kStride = 1;  // vectors from one of a thread's loads to its next one, in registers
constexpr int kSteps = 8;  // k tiles per dot product

using Accumulators = float[kAccumulators];
using NumbersA = float4;  // one vector access
using NumbersB = float4;

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_half2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif
#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// Makes writes to shared memory visible to wgmma; a barrier of the threads follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Matrix descriptor without swizzle, in units of 16 bytes: address, leading offset (core matrix to core matrix along K)
// and stride offset (along M or N).
using SmemDescriptor = unsigned long long;

template <int kLeadingBytes, int kStrideBytes>
__device__ __forceinline__ SmemDescriptor smem_descriptor(const void* first) {
    static_assert(kLeadingBytes % 16 == 0 && kStrideBytes % 16 == 0, "descriptors count 16 bytes");
    const SmemDescriptor address = __cvta_generic_to_shared(first);
    const SmemDescriptor offsets = static_cast<SmemDescriptor>(kStrideBytes / 16) << 32 |
                                   static_cast<SmemDescriptor>(kLeadingBytes / 16) << 16;
    return (address & 0x3ffff) >> 4 | offsets;
}

// Descriptor of the matrix `bytes` after `matrix`.
__device__ __forceinline__ SmemDescriptor behind(SmemDescriptor matrix, int bytes) { return matrix + bytes / 16; }

// sums = a * b, or sums += a * b if `add`; -a * b if kNegated. 64x16 by 16x64 f16 with float32 accumulators, in the
// register layout of wgmma.m64n64k16. kTransposeA and kTransposeB: MN-major operands instead of K-major ones.
// Asynchronous: no access to sums between wgmma_fence() and wgmma_wait_all().
template <bool kNegated, bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void wgmma_f16(float (&sums)[32], SmemDescriptor a, SmemDescriptor b, bool add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, add, %35, 1, %36, %37; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kNegated ? -1 : 1),
          "n"(kTransposeA ? 1 : 0), "n"(kTransposeB ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all wgmma groups. The accumulators are operands, so that the compiler reads them only after the wait.
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[32]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31])
        :
        : "memory");
}
#endif

// Place of a thread's first vector in a tile of a: x along a row of memory, y the row of memory.
__device__ __forceinline__ int2 place_a(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    const int along = warp % 4 * 16 + lane % 8 * 2;
    return make_int2(along, warp / 4 * 4 + lane / 8);
}

// Place of a thread's first vector in a tile of b: x along a row of memory, y the row of memory.
__device__ __forceinline__ int2 place_b(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    const int along = warp % 4 * 16 + lane % 8 * 2;
    return make_int2(along, warp / 4 * 4 + lane / 8);
}

// Loads a thread's part of a tile of a; `term` (K) and `row` are the tile's first ones.
__device__ __forceinline__ void load_a(const float2* a, int term, int row, int thread,
                                       float4 (&numbers)[kACopies]) {
    const int2 place = place_a(thread);
    const float2* own = a + (term + place.y) * kM + row + place.x;
#pragma unroll
    for (int i = 0; i < kACopies; ++i) {
        const int across = i * 4;
        const float2* source = own + across * kM;
        numbers[i] = *reinterpret_cast<const float4*>(source);
    }
}

// Loads a thread's part of a tile of b; `term` (K) and `column` are the tile's first ones.
__device__ __forceinline__ void load_b(const float2* b, int term, int column, int thread,
                                       float4 (&numbers)[kBCopies]) {
    const int2 place = place_b(thread);
    const float2* own = b + (term + place.y) * kN + column + place.x;
#pragma unroll
    for (int i = 0; i < kBCopies; ++i) {
        const int across = i * 4;
        const float2* source = own + across * kN;
        numbers[i] = *reinterpret_cast<const float4*>(source);
    }
}

constexpr unsigned kInfinityBits = 0x7f800000u;

__device__ __forceinline__ float largest_of(float2 one) { return fmaxf(fabsf(one.x), fabsf(one.y)); }
__device__ __forceinline__ float largest_of(float4 two) {
    return fmaxf(fmaxf(fabsf(two.x), fabsf(two.y)), fmaxf(fabsf(two.z), fabsf(two.w)));
}
__device__ __forceinline__ float finite(float value) {
    return __float_as_uint(fabsf(value)) < kInfinityBits ? value : 0.0f;
}
__device__ __forceinline__ float2 finite(float2 one) { return make_float2(finite(one.x), finite(one.y)); }
__device__ __forceinline__ float4 finite(float4 two) {
    return make_float4(finite(two.x), finite(two.y), finite(two.z), finite(two.w));
}

// Largest finite magnitude of a warp's part of a tile, as bits: these have the order of the magnitudes.
template <int kCopies, typename Vector> __device__ __forceinline__ unsigned largest(const Vector* own) {
    float maximum = 0.0f;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
        maximum = fmaxf(maximum, largest_of(own[i * kStride]));  // ignores NaN
    }
    if (__float_as_uint(maximum) == kInfinityBits) {
        maximum = 0.0f;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            maximum = fmaxf(maximum, largest_of(finite(own[i * kStride])));
        }
    }
    return __reduce_max_sync(0xffffffffu, __float_as_uint(maximum));
}

// Exponent of the power of two that scales the largest of all warps' maxima into [2^14, 2^15), at most 126.
__device__ __forceinline__ int power_for(const unsigned* largest) {
    unsigned maximum = largest[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) {
        maximum = max(maximum, largest[warp]);
    }
    return min(14 + 127 - static_cast<int>(maximum >> 23), 126);
}

__device__ __forceinline__ float power_of_two(int power) {
    return __uint_as_float(static_cast<unsigned>(127 + power) << 23);
}

// Scales two numbers and splits each into high + low: high is the nearest fp16 number, low the fp16 rest.
__device__ __forceinline__ void store_parts(float x, float y, float scale, char* high, char* low) {
    const unsigned above = floats_to_half2(x * scale, y * scale);
    *reinterpret_cast<unsigned*>(high) = above;
    const float x_left = fmaf(x, scale, -half_to_float(above & 0xffff));
    const float y_left = fmaf(y, scale, -half_to_float(above >> 16));
    *reinterpret_cast<unsigned*>(low) = floats_to_half2(x_left, y_left);
}

__device__ __forceinline__ void store_parts(float x, float scale, char* high, char* low) {
    const unsigned short above = float_to_half(x * scale);
    *reinterpret_cast<unsigned short*>(high) = above;
    *reinterpret_cast<unsigned short*>(low) = float_to_half(fmaf(x, scale, -half_to_float(above)));
}

// Splits a thread's part of a tile of a into the four fp16 matrices from `parts` on.
__device__ __forceinline__ void split_a(const float4* numbers, int thread,
                                        float scale, char* parts) {
    const int2 place = place_a(thread);
    char* own = parts + place.x / 8 * 320 + place.x % 8 * 2 + place.y / 8 * 128 + place.y % 8 * 16;
#pragma unroll
    for (int i = 0; i < kACopies; ++i) {
        const int across = i * 4;
        char* target = own + across / 8 * 128 + across % 8 * 16;
        const float4 two = numbers[i * kStride];
        store_parts(two.x, two.z, scale, target, target + kAPart);
        store_parts(two.y, two.w, scale, target + 2 * kAPart, target + 3 * kAPart);
    }
}

// Splits a thread's part of a tile of b into the four fp16 matrices from `parts` on.
__device__ __forceinline__ void split_b(const float4* numbers, int thread,
                                        float scale, char* parts) {
    const int2 place = place_b(thread);
    char* own = parts + place.x / 8 * 320 + place.x % 8 * 2 + place.y / 8 * 128 + place.y % 8 * 16;
#pragma unroll
    for (int i = 0; i < kBCopies; ++i) {
        const int across = i * 4;
        char* target = own + across / 8 * 128 + across % 8 * 16;
        const float4 two = numbers[i * kStride];
        store_parts(two.x, two.z, scale, target, target + kBPart);
        store_parts(two.y, two.w, scale, target + 2 * kBPart, target + 3 * kBPart);
    }
}

template <bool kNegated>
__device__ __forceinline__ void multiply(Accumulators& sums, SmemDescriptor a, SmemDescriptor b, bool add) {
    wgmma_f16<kNegated, kATransposed, kBTransposed>(sums, a, b, add);
}

// Descriptor of 16 terms, the j-th of a tile, in one of its parts.
__device__ __forceinline__ SmemDescriptor part_a(SmemDescriptor a, int part, int j) {
    return behind(a, part * kAPart + 2 * j * kAStrideK);
}
__device__ __forceinline__ SmemDescriptor part_b(SmemDescriptor b, int part, int j) {
    return behind(b, part * kBPart + 2 * j * kBStrideK);
}

// sums = the real part of 64 rows of a times the tile of b, small products first: tensor cores truncate sums.
__device__ __forceinline__ void multiply_real(Accumulators& sums, SmemDescriptor a, SmemDescriptor b) {
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal + kLow, j), part_b(b, kReal, j), j > 0);
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kReal + kLow, j), true);
        multiply<false>(sums, part_a(a, kImaginary + kLow, j), part_b(b, kImaginary, j), true);
        multiply<false>(sums, part_a(a, kImaginary, j), part_b(b, kImaginary + kLow, j), true);
    }
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kReal, j), true);
        multiply<false>(sums, part_a(a, kImaginary, j), part_b(b, kImaginary, j), true);
    }
}

// sums = the imaginary part of 64 rows of a times the tile of b.
__device__ __forceinline__ void multiply_imaginary(Accumulators& sums, SmemDescriptor a, SmemDescriptor b) {
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal + kLow, j), part_b(b, kImaginary, j), j > 0);
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kImaginary + kLow, j), true);
        multiply<true>(sums, part_a(a, kImaginary + kLow, j), part_b(b, kReal, j), true);
        multiply<true>(sums, part_a(a, kImaginary, j), part_b(b, kReal + kLow, j), true);
    }
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kImaginary, j), true);
        multiply<true>(sums, part_a(a, kImaginary, j), part_b(b, kReal, j), true);
    }
}

// totals += sums * 2^power, rounded as float32. The power may lie beyond the range of a float: then in two factors.
__device__ __forceinline__ void add(const Accumulators& sums, int power, Accumulators& totals) {
    const int clamped = max(min(power, 127), -126);
    const float factor = power_of_two(clamped);
    if (clamped == power) {
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) {
            totals[i] = fmaf(sums[i], factor, totals[i]);
        }
    } else {
        const float first = power_of_two(power - clamped);
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) {
            totals[i] = fmaf(sums[i] * first, factor, totals[i]);
        }
    }
}

// Epilogue: stores a warp's 16 rows from (row, column) on, in wgmma's accumulator layout.
__device__ __forceinline__ void store(const Accumulators& real, const Accumulators& imaginary, int row, int column,
                                      int lane, float2* c) {
    const int own_row = row + lane / 4, own_column = column + lane % 4 * 2;
    float2* own = c + own_row * kN + own_column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 2 * half; i < kAccumulators; i += 4) {
            float2* target = own + 8 * half * kN + i / 4 * 8;
            *reinterpret_cast<float4*>(target) = make_float4(real[i], imaginary[i], real[i + 1], imaginary[i + 1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
cgemm_warpgroup(const float2* __restrict__ a, const float2* __restrict__ b,
                float2* __restrict__ c) {
    extern __shared__ __align__(128) float2 shared[];
    // Shared memory: two buffers of split tiles, the maximum of each warp and operand.
    char* const memory = reinterpret_cast<char*>(shared);
    unsigned* const maximum = reinterpret_cast<unsigned*>(memory + 2 * kSplitTile);
    const int thread = threadIdx.x;
    const int group = __shfl_sync(0xffffffffu, thread / 128, 0);  // warpgroup; shuffled to show that it is warp-uniform
    int block = blockIdx.x;
    const int column = block % kTilesN * kTileN;  // N varies fastest: neighbouring blocks read the same rows of a
    block /= kTilesN;
    const int row = block % kTilesM * kTileM;
    block /= kTilesM;
    const size_t product = block;
    const float2* left = a + product * (static_cast<size_t>(kM) * kK);
    const float2* right = b + product * (static_cast<size_t>(kK) * kN);
    float2* result = c + product * (static_cast<size_t>(kM) * kN);

    NumbersA numbers_a[kACopies];  // the k tile that is split next
    NumbersB numbers_b[kBCopies];
    // Loads k tile `step` of both operands into registers.
    const auto begin = [&](int step) {
        if (step < kSteps) {
            const int term = step * kTileK;
            load_a(left, term, row, thread, numbers_a);
            load_b(right, term, column, thread, numbers_b);
        }
    };
    // Writes the maxima of the next k tile to shared memory.
    const auto measure = [&]() {
        const unsigned maximum_a = largest<kACopies>(numbers_a);
        const unsigned maximum_b = largest<kBCopies>(numbers_b);
        if (thread % 32 == 0) {
            maximum[thread / 32] = maximum_a;
            maximum[kWarps + thread / 32] = maximum_b;
        }
    };
    // Scales and splits the next k tile into `buffer`; returns the exponent that scales its product back.
    const auto split = [&](int buffer) {
        const int power_a = power_for(maximum), power_b = power_for(maximum + kWarps);
        char* parts = memory + buffer * kSplitTile;
        split_a(numbers_a, thread, power_of_two(power_a), parts);
        split_b(numbers_b, thread, power_of_two(power_b), parts + 4 * kAPart);
        fence_proxy_async();
        return -power_a - power_b;
    };
    begin(0);
    measure();
    __syncthreads();
    int power = split(0);
    begin(1);

    Accumulators sums, real = {}, imaginary = {};
#pragma unroll
    for (int i = 0; i < kAccumulators; ++i) {
        sums[i] = 0.0f;
    }
    const SmemDescriptor rows = smem_descriptor<kAStrideK, kAStrideM>(memory + group * (8 * kAStrideM));
    const SmemDescriptor columns = smem_descriptor<kBStrideK, kBStrideN>(memory + 4 * kAPart);
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
        __syncthreads();  // this buffer is complete, and all wgmma on the other one are done
        const int buffer = step % 2;
        const SmemDescriptor tile_rows = behind(rows, buffer * kSplitTile),
                             tile_columns = behind(columns, buffer * kSplitTile);
        const bool is_last = step + 1 == kSteps;
        wgmma_fence();
        multiply_real(sums, tile_rows, tile_columns);
        wgmma_commit_group();
        wgmma_wait_all(sums);
        add(sums, power, real);
        wgmma_fence();
        multiply_imaginary(sums, tile_rows, tile_columns);
        wgmma_commit_group();
        int next = power;
        if (!is_last) {
            measure();  // as late as possible: the loads may still be in flight
            __syncthreads();  // all warps have written their maxima
            next = split(1 - buffer);
            begin(step + 2);
        }
        wgmma_wait_all(sums);
        add(sums, power, imaginary);
        power = next;
    }
    store(real, imaginary, row + 64 * group + thread % 128 / 32 * 16, column, thread % 32, result);
}
