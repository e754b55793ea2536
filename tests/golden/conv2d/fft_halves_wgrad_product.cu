// warpsmith cgemm_halves
// problem: cgemm batch=91 m=384 n=384 k=128 a=c accuracy=normwise
// config:  blocks=132 columns=96 groups=2 stages=3
//
// 64 x kTileColumns results a warpgroup, by products of the tensor cores. The operands are halves in memory: each float32 is
// the sum of two, high and low, times a power of two. A product of two is low * high, high * low and high * high. One warp has
// the copy engine bring them; barriers hand stages of shared memory to the others and back.

constexpr int kProducts = 91;
constexpr int kM = 384;  // rows of a result
constexpr int kN = 384;  // and columns
constexpr int kBlocks = 132;  // of threads, which take tiles in turns
constexpr int kTiles = 1092;
constexpr int kTilesDown = 3;  // a result
constexpr int kTilesAcross = 4;
constexpr int kGroups = 2;  // warpgroups that multiply, one below the other
constexpr int kThreads = 128 * kGroups + 128;  // another one copies
constexpr int kTileRows = 64 * kGroups;
constexpr int kTileColumns = 96;
constexpr int kTerms = 32;  // of a stage
constexpr int kSteps = 4;  // stages that a sum goes through
constexpr int kSums = kTileColumns / 2;  // of real numbers, a thread

// A stage in shared memory: what a has of it, and behind that what b has.
constexpr int kALow = 8192;  // bytes from high parts to low ones
constexpr int kAImaginary = 16384;  // and from real parts to imaginary ones
constexpr int kAStep = 2048;  // from 16 terms to the next ones
constexpr int kABoxes = 2;  // of 64 rows, a line each of 128 bytes
constexpr int kABox = 4096;
constexpr bool kATurned = true;  // whether rows lie side by side, not the terms
constexpr int kAGroup = 4096;  // from the rows of a warpgroup to those of the next one
constexpr int kBLow = 8192;  // bytes from high parts to low ones
constexpr int kBImaginary = 16384;  // and from real parts to imaginary ones
constexpr int kBStep = 2048;  // from 16 terms to the next ones
constexpr int kBBoxes = 2;  // of 64 columns, a line each of 128 bytes
constexpr int kBBox = 4096;
constexpr bool kBTurned = true;  // whether columns lie side by side, not the terms
constexpr int kAllA = 32768;
constexpr int kStage = kAllA + 32768;
constexpr int kStages = 3;

using Sums = float[kSums];

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// What a product needs to know of a matrix, in units of 16 bytes: where it lies, and how far apart core matrices are
// along the terms and across them.
using SmemDescriptor = unsigned long long;

template <int kAlong, int kAcross> __device__ __forceinline__ SmemDescriptor smem_descriptor(const void* first) {
    static_assert(kAlong % 16 == 0 && kAcross % 16 == 0, "descriptors count 16 bytes");
    const SmemDescriptor address = __cvta_generic_to_shared(first);
    const SmemDescriptor offsets = static_cast<SmemDescriptor>(kAcross / 16) << 32 | static_cast<SmemDescriptor>(kAlong / 16) << 16;
    return (address & 0x3ffff) >> 4 | offsets;
}

// Lines of 128 bytes whose chunks of 16 are exchanged by the bits of their address, as the copy engine writes them from a
// multiple of 1024 bytes on. A line has 64 terms; of turned matrices it has 64 rows or columns, and the next 64 lie
// kFurther bytes behind.
template <int kFurther = 16> __device__ __forceinline__ SmemDescriptor swizzled_smem_descriptor(const void* first) {
    const SmemDescriptor address = __cvta_generic_to_shared(first);
    return (address & 0x3ffff) >> 4 | 1ull << 62 | static_cast<SmemDescriptor>(1024 / 16) << 32 | static_cast<SmemDescriptor>(kFurther / 16) << 16;
}

// The matrix that lies so many bytes behind it.
__device__ __forceinline__ SmemDescriptor behind(SmemDescriptor matrix, int bytes) { return matrix + bytes / 16; }

// sums = a * b, or sums += a * b where `add` holds, or -a * b instead: 64x16 by 16x96 f16 numbers into floats, spread over
// a warpgroup as PTX lays out wgmma.m64n96k16. What lies side by side are terms, or rows of a and columns of b where
// they are turned. It goes on in the background: between wgmma_fence() and wgmma_wait_all() nothing may touch sums.
template <bool kNegated, bool kTurnedA, bool kTurnedB>
__device__ __forceinline__ void wgmma_f16(float (&sums)[48], SmemDescriptor a, SmemDescriptor b, bool add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %50, 0; "
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47"
        "}, %48, %49, add, %51, 1, %52, %53; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),
          "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
          "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kNegated ? -1 : 1),
          "n"(kTurnedA ? 1 : 0), "n"(kTurnedB ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[48]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),
          "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
          "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47])
        :
        : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
using Mbarrier = unsigned long long;

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Lets copies see barriers that have begun; a barrier of the threads follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives and announces so many bytes, which copies bring.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Copies a multiple of 16 bytes between such, and tells the barrier when they are there.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of this parity has ended. Of a barrier that has just begun the one before its first has: parity 1.
__device__ __forceinline__ void mbarrier_wait_parity(const Mbarrier* barrier, unsigned parity) {
    asm volatile(
        "{ .reg .pred done; "
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
        "@!done bra again; }"
        ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST
// From now on a thread has so many registers: fewer, or more that others have given.
template <int kRegisters> __device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters> __device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
#endif

// The stage of shared memory that comes next, and the parity of its phase.
template <int kStages> struct Stage {
    int number = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance() {
        if (++number == kStages) {
            number = 0;
            parity ^= 1;
        }
    }
};

// Full where the copying warp has announced bytes that have come; free where all other warps have told so.
template <int kStages>
__device__ __forceinline__ void begin_barriers(Mbarrier (&full)[kStages], Mbarrier (&free)[kStages], int warps) {
    for (int stage = 0; stage < kStages; ++stage) {
        mbarrier_init(&full[stage], 1);
        mbarrier_init(&free[stage], warps);
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
struct __align__(64) TensorMap {  // CUtensorMap of cuda.h
    char bytes[128];
};

// Copies channels of as many pixels as the map says, from the position of pixel (row, column) of an image on, of each
// those of the pixel that lies so many rows and columns further on; tells the barrier when they are there.
__device__ __forceinline__ void tma_load_im2col(void* shared, const TensorMap& map, int channel, int column, int row, int image,
                                               int columns_on, int rows_on, Mbarrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, { %2, %3, %4, %5 }], [%6], { %7, %8 };"
        ::"r"(shared_address(shared)), "l"(&map), "r"(channel), "r"(column), "r"(row), "r"(image),
          "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(columns_on)), "h"(static_cast<unsigned short>(rows_on))
        : "memory");
}
#endif

// A sum times two to a power that may be beyond a float's.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

struct Barriers {
    Mbarrier full[kStages], free[kStages];
};

struct Tile {
    int product, row, column;  // the first ones
};

__device__ __forceinline__ Tile tile_of(int i) {
    const int down = i / kTilesAcross;  // tiles of the same rows of a follow each other
    return {down / kTilesDown, down % kTilesDown * kTileRows, i % kTilesAcross * kTileColumns};
}

// What the copying warp does: one of its lanes, for all.
__device__ __forceinline__ void copy_tiles(const TensorMap& a, const TensorMap& b, char* memory, Barriers& barriers) {
    Stage<kStages> next;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step) {
            char* const stage = memory + next.number * kStage;
            Mbarrier* const full = &barriers.full[next.number];
            mbarrier_wait_parity(&barriers.free[next.number], next.parity ^ 1);
            if (threadIdx.x % 32 == 0) {
                mbarrier_arrive_expect_tx(full, kStage);
#pragma unroll
                for (int box = 0; box < 4 * kABoxes; ++box) {
                    tma_load_im2col(stage + box * kABox, a, tile.row + box % kABoxes * 64, step * kTerms, 0,
                                   box / kABoxes * kProducts + tile.product, 0, 0, full);
                }
#pragma unroll
                for (int box = 0; box < 4 * kBBoxes; ++box) {
                    tma_load_im2col(stage + kAllA + box * kBBox, b, tile.column + box % kBBoxes * 64, step * kTerms, 0,
                                   box / kBBoxes * kProducts + tile.product, 0, 0, full);
                }
            }
            __syncwarp();
            next.advance();
        }
    }
}

template <bool kNegated> __device__ __forceinline__ void multiply(Sums& sums, SmemDescriptor a, SmemDescriptor b, bool add) {
    wgmma_f16<kNegated, kATurned, kBTurned>(sums, a, b, add);
}

// sums = the real part of what a stage gives 64 rows: small products first, since tensor cores cut sums off.
__device__ __forceinline__ void multiply_real(Sums& sums, SmemDescriptor a, SmemDescriptor b) {
    const SmemDescriptor imaginary_a = behind(a, kAImaginary), first_b = b, second_b = behind(b, kBImaginary);
#pragma unroll
    for (int j = 0; j < kTerms / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep + kALow), behind(first_b, j * kBStep), j > 0);
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep + kBLow), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep + kALow), behind(second_b, j * kBStep), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep + kBLow), true);
    }
#pragma unroll
    for (int j = 0; j < kTerms / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep), true);
    }
}

// sums = the imaginary part of what a stage gives 64 rows.
__device__ __forceinline__ void multiply_imaginary(Sums& sums, SmemDescriptor a, SmemDescriptor b) {
    const SmemDescriptor imaginary_a = behind(a, kAImaginary), first_b = behind(b, kBImaginary), second_b = b;
#pragma unroll
    for (int j = 0; j < kTerms / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep + kALow), behind(first_b, j * kBStep), j > 0);
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep + kBLow), true);
        multiply<true>(sums, behind(imaginary_a, j * kAStep + kALow), behind(second_b, j * kBStep), true);
        multiply<true>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep + kBLow), true);
    }
#pragma unroll
    for (int j = 0; j < kTerms / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep), true);
        multiply<true>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep), true);
    }
}

// Adds what a stage gives, rounded, where tensor cores cut off.
__device__ __forceinline__ void add(const Sums& sums, Sums& totals) {
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
        totals[n] += sums[n];
    }
}

// Stores a warp's sums.
__device__ __forceinline__ void store(const Sums& real, const Sums& imaginary, const Tile& tile, int group, int power,
                                      float2* __restrict__ c) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = tile.row + 64 * group + warp * 16 + lane / 4, column = tile.column + lane % 4 * 2;
    float2* const own = c + (static_cast<size_t>(tile.product) * kM + row) * kN + column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 2 * half; i < kSums; i += 4) {
            float2* const target = own + 8 * half * kN + i / 4 * 8;
            *reinterpret_cast<float4*>(target) = make_float4(scaled(real[i], power), scaled(imaginary[i], power),
                                                             scaled(real[i + 1], power), scaled(imaginary[i + 1], power));
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
cgemm_halves(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const int* __restrict__ power_a,
             const int* __restrict__ power_b, float2* __restrict__ c) {
    extern __shared__ __align__(1024) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory + kStages * kStage);
    if (threadIdx.x == 0) {
        begin_barriers(barriers.full, barriers.free, 4 * kGroups);
        fence_proxy_async();
    }
    __syncthreads();
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // so that the compiler sees that it is a warp's
    if (group == kGroups) {
        setmaxnreg_dec<24>();
        if (threadIdx.x < 128 * kGroups + 32) {
            copy_tiles(a, b, memory, barriers);
        }
        return;
    }
    setmaxnreg_inc<232>();
    const int power = -*power_a - *power_b;
    const SmemDescriptor rows = swizzled_smem_descriptor(memory + group * kAGroup);
    const SmemDescriptor columns = swizzled_smem_descriptor<kBBox>(memory + kAllA);
    Stage<kStages> next;
    Sums sums, real, imaginary;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
#pragma unroll
        for (int n = 0; n < kSums; ++n) {
            real[n] = imaginary[n] = 0.0f;
        }
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step) {
            mbarrier_wait_parity(&barriers.full[next.number], next.parity);
            const SmemDescriptor own_a = behind(rows, next.number * kStage), own_b = behind(columns, next.number * kStage);
            wgmma_fence();
            multiply_real(sums, own_a, own_b);
            wgmma_commit_group();
            wgmma_wait_all(sums);
            add(sums, real);
            wgmma_fence();
            multiply_imaginary(sums, own_a, own_b);
            wgmma_commit_group();
            wgmma_wait_all(sums);
            if (threadIdx.x % 32 == 0) {
                mbarrier_arrive(&barriers.free[next.number]);
            }
            add(sums, imaginary);
            next.advance();
        }
        store(real, imaginary, tile_of(i), group, power, c);
    }
}
