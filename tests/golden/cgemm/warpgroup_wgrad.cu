// warpsmith cgemm_warpgroup
// problem: cgemm batch=2112 m=64 n=64 k=128 a=c accuracy=normwise
// config:  columns=64 dealt_to=0 groups=1 min_blocks=3 splits=1 stages=0 terms=16
//
// 64 x kTileColumns results a warpgroup, by products of the tensor cores. Tiles are scaled by powers of two, and each
// float32 is the sum of two halves, high and low: a product of two is low * high, high * low and high * high. Tensor
// cores cut sums off where float32 rounds them, so that those of a tile are added up outside, and small products come
// first in them.

constexpr int kM = 64;  // rows of a result
constexpr int kN = 64;  // and columns
constexpr int kK = 128;  // terms of a sum
constexpr int kGroups = 1;  // warpgroups of a block, one below the other
constexpr int kThreads = 128 * kGroups;
constexpr int kWarps = kThreads / 32;
constexpr int kTileRows = 64 * kGroups;
constexpr int kTileColumns = 64;
constexpr int kTileTerms = 16;
constexpr int kTilesDown = 1;  // a result
constexpr int kTilesAcross = 1;
constexpr int kSums = kTileColumns / 2;  // of real numbers, a thread

// Parts of a tile: matrices of halves, each of core matrices of 8 x 8.
constexpr int kReal = 0;  // high parts, and low ones behind them
constexpr int kImaginary = 2;
constexpr int kLow = 1;
constexpr bool kATurned = true;  // whether its rows lie side by side, not the terms
constexpr bool kBTurned = true;
constexpr int kATerms = 128;  // bytes from core matrix to core matrix along the terms
constexpr int kARows = 320;  // and along the rows
constexpr int kAPart = 2560;  // bytes
constexpr int kBTerms = 128;
constexpr int kBColumns = 320;
constexpr int kBPart = 2560;
constexpr int kParts = 4 * (kAPart + kBPart);
constexpr int kACopies = 4;  // of a thread, for a tile
constexpr int kBCopies = 4;
constexpr int kStride = 1;  // from numbers of a thread to its next ones, in registers
constexpr int kSteps = 8;  // tiles that a sum goes through

using Sums = float[kSums];
using NumbersA = float4;  // as many as are read at once
using NumbersB = float4;

#ifndef WARPSMITH_ON_HOST  // the host device has its own
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
#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Writes to shared memory become visible to the tensor cores; a barrier follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// What a product needs to know of a matrix, in units of 16 bytes: where it lies, and how far apart core matrices are
// along the terms and across them.
using SmemDescriptor = unsigned long long;

template <int kAlong, int kAcross> __device__ __forceinline__ SmemDescriptor smem_descriptor(const void* first) {
    static_assert(kAlong % 16 == 0 && kAcross % 16 == 0, "descriptors count 16 bytes");
    const SmemDescriptor address = __cvta_generic_to_shared(first);
    const SmemDescriptor offsets = static_cast<SmemDescriptor>(kAcross / 16) << 32 | static_cast<SmemDescriptor>(kAlong / 16) << 16;
    return (address & 0x3ffff) >> 4 | offsets;
}

// The matrix that lies so many bytes behind it.
__device__ __forceinline__ SmemDescriptor behind(SmemDescriptor matrix, int bytes) { return matrix + bytes / 16; }

// sums = a * b, or sums += a * b where `add` holds, or -a * b instead: 64x16 by 16x64 f16 numbers into floats, spread over
// a warpgroup as PTX lays out wgmma.m64n64k16. What lies side by side are terms, or rows of a and columns of b where
// they are turned. It goes on in the background: between wgmma_fence() and wgmma_wait_all() nothing may touch sums.
template <bool kNegated, bool kTurnedA, bool kTurnedB>
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
          "n"(kTurnedA ? 1 : 0), "n"(kTurnedB ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
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

// Where a thread's first numbers of a tile of a are: along a row of memory, and across.
__device__ __forceinline__ int2 place_a(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    const int along = warp % 4 * 16 + lane % 8 * 2;
    return make_int2(along, warp / 4 * 4 + lane / 8);
}

// Where a thread's first numbers of a tile of b are: along a row of memory, and across.
__device__ __forceinline__ int2 place_b(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    const int along = warp % 4 * 16 + lane % 8 * 2;
    return make_int2(along, warp / 4 * 4 + lane / 8);
}

// Loads a thread's share of a tile of a: `term` and `row` are the tile's first ones.
__device__ __forceinline__ void load_a(const float2* a, int term, int row, int thread, float4 (&numbers)[kACopies]) {
    const int2 place = place_a(thread);
    const float2* own = a + (term + place.y) * kM + row + place.x;
#pragma unroll
    for (int i = 0; i < kACopies; ++i) {
        const int across = i * 4;
        const float2* source = own + across * kM;
        numbers[i] = *reinterpret_cast<const float4*>(source);
    }
}

// Loads a thread's share of a tile of b: `term` and `column` are the tile's first ones.
__device__ __forceinline__ void load_b(const float2* b, int term, int column, int thread, float4 (&numbers)[kBCopies]) {
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

// The largest magnitude of what a warp has loaded of a tile, as bits, which are in the same order.
template <int kCopies, typename Vector> __device__ __forceinline__ unsigned largest(const Vector* own) {
    float most = 0.0f;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
        most = fmaxf(most, largest_of(own[i * kStride]));  // leaves out what is not a number
    }
    if (__float_as_uint(most) == kInfinityBits) {
        most = 0.0f;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            most = fmaxf(most, largest_of(finite(own[i * kStride])));
        }
    }
    return __reduce_max_sync(0xffffffffu, __float_as_uint(most));
}

// 2 to which power brings the largest number to [2^14, 2^15), as far as floats go.
__device__ __forceinline__ int power_for(const unsigned* largest) {
    unsigned most = largest[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) {
        most = max(most, largest[warp]);
    }
    return min(14 + 127 - static_cast<int>(most >> 23), 126);
}

__device__ __forceinline__ float power_of_two(int power) {
    return __uint_as_float(static_cast<unsigned>(127 + power) << 23);
}

// Two numbers times `scale`, each as the sum of a half and another one of the size of what the first one leaves.
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

// Splits a thread's share of a tile of a.
__device__ __forceinline__ void split_a(const float4* numbers, int thread, float scale, char* parts) {
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

// Splits a thread's share of a tile of b.
__device__ __forceinline__ void split_b(const float4* numbers, int thread, float scale, char* parts) {
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

template <bool kNegated> __device__ __forceinline__ void multiply(Sums& sums, SmemDescriptor a, SmemDescriptor b, bool add) {
    wgmma_f16<kNegated, kATurned, kBTurned>(sums, a, b, add);
}

// A matrix of halves: which part of a tile, and its j-th 16 terms.
__device__ __forceinline__ SmemDescriptor part_a(SmemDescriptor a, int part, int j) {
    return behind(a, part * kAPart + 2 * j * kATerms);
}
__device__ __forceinline__ SmemDescriptor part_b(SmemDescriptor b, int part, int j) {
    return behind(b, part * kBPart + 2 * j * kBTerms);
}

// sums = the real part of what a tile gives 64 rows: small products first, since tensor cores cut sums off.
__device__ __forceinline__ void multiply_real(Sums& sums, SmemDescriptor a, SmemDescriptor b) {
#pragma unroll
    for (int j = 0; j < kTileTerms / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal + kLow, j), part_b(b, kReal, j), j > 0);
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kReal + kLow, j), true);
        multiply<false>(sums, part_a(a, kImaginary + kLow, j), part_b(b, kImaginary, j), true);
        multiply<false>(sums, part_a(a, kImaginary, j), part_b(b, kImaginary + kLow, j), true);
    }
#pragma unroll
    for (int j = 0; j < kTileTerms / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kReal, j), true);
        multiply<false>(sums, part_a(a, kImaginary, j), part_b(b, kImaginary, j), true);
    }
}

// sums = the imaginary part of what a tile gives 64 rows.
__device__ __forceinline__ void multiply_imaginary(Sums& sums, SmemDescriptor a, SmemDescriptor b) {
#pragma unroll
    for (int j = 0; j < kTileTerms / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal + kLow, j), part_b(b, kImaginary, j), j > 0);
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kImaginary + kLow, j), true);
        multiply<true>(sums, part_a(a, kImaginary + kLow, j), part_b(b, kReal, j), true);
        multiply<true>(sums, part_a(a, kImaginary, j), part_b(b, kReal + kLow, j), true);
    }
#pragma unroll
    for (int j = 0; j < kTileTerms / 16; ++j) {
        multiply<false>(sums, part_a(a, kReal, j), part_b(b, kImaginary, j), true);
        multiply<true>(sums, part_a(a, kImaginary, j), part_b(b, kReal, j), true);
    }
}

// Adds what a tile gives times two to a power, as floats are rounded. That power may be beyond a float's.
__device__ __forceinline__ void add(const Sums& sums, int power, Sums& totals) {
    const int within = max(min(power, 127), -126);
    const float factor = power_of_two(within);
    if (within == power) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            totals[i] = fmaf(sums[i], factor, totals[i]);
        }
    } else {
        const float first = power_of_two(power - within);
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            totals[i] = fmaf(sums[i] * first, factor, totals[i]);
        }
    }
}

// Writes a warp's sums where they lie in the result.
__device__ __forceinline__ void store(const Sums& real, const Sums& imaginary, int row, int column, int lane,
                                      float2* c) {
    const int own_row = row + lane / 4, own_column = column + lane % 4 * 2;
    float2* own = c + own_row * kN + own_column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 2 * half; i < kSums; i += 4) {
            float2* target = own + 8 * half * kN + i / 4 * 8;
            *reinterpret_cast<float4*>(target) = make_float4(real[i], imaginary[i], real[i + 1], imaginary[i + 1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
cgemm_warpgroup(const float2* __restrict__ a, const float2* __restrict__ b,
                float2* __restrict__ c) {
    extern __shared__ __align__(128) float2 shared[];
    // Two tiles in parts, and a float for each warp and operand.
    char* const memory = reinterpret_cast<char*>(shared);
    unsigned* const most = reinterpret_cast<unsigned*>(memory + 2 * kParts);
    const int thread = threadIdx.x;
    const int group = __shfl_sync(0xffffffffu, thread / 128, 0);  // so that the compiler sees that it is a warp's
    int block = blockIdx.x;
    const int column = block % kTilesAcross * kTileColumns;  // fastest: these blocks read the same rows of a
    block /= kTilesAcross;
    const int row = block % kTilesDown * kTileRows;
    block /= kTilesDown;
    const size_t product = block;
    const float2* left = a + product * (static_cast<size_t>(kM) * kK);
    const float2* right = b + product * (static_cast<size_t>(kK) * kN);
    float2* result = c + product * (static_cast<size_t>(kM) * kN);

    NumbersA numbers_a[kACopies];  // of the tile that is split next
    NumbersB numbers_b[kBCopies];
    const auto begin = [&](int step) {
        if (step < kSteps) {
            const int term = step * kTileTerms;
            load_a(left, term, row, thread, numbers_a);
            load_b(right, term, column, thread, numbers_b);
        }
    };
    const auto measure = [&]() {
        const unsigned most_a = largest<kACopies>(numbers_a);
        const unsigned most_b = largest<kBCopies>(numbers_b);
        if (thread % 32 == 0) {
            most[thread / 32] = most_a;
            most[kWarps + thread / 32] = most_b;
        }
    };
    const auto split = [&](int buffer) {
        const int power_a = power_for(most), power_b = power_for(most + kWarps);
        char* parts = memory + buffer * kParts;
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

    Sums sums, real = {}, imaginary = {};
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
        sums[i] = 0.0f;
    }
    const SmemDescriptor rows = smem_descriptor<kATerms, kARows>(memory + group * (8 * kARows));
    const SmemDescriptor columns = smem_descriptor<kBTerms, kBColumns>(memory + 4 * kAPart);
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
        __syncthreads();  // all parts of this tile are there, and all products of the one before are done
        const int buffer = step % 2;
        const SmemDescriptor tile_rows = behind(rows, buffer * kParts), tile_columns = behind(columns, buffer * kParts);
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
            measure();  // as late as can be: its numbers may still be on their way
            __syncthreads();  // all warps have told their largest numbers
            next = split(1 - buffer);
            begin(step + 2);
        }
        wgmma_wait_all(sums);
        add(sums, power, imaginary);
        power = next;
    }
    store(real, imaginary, row + 64 * group + thread % 128 / 32 * 16, column, thread % 32, result);
}
