// warpsmith cgemm_halves
// problem: cgemm batch=91 m=128 n=384 k=384 b=c accuracy=rowwise
// config:  blocks=132 columns=96 groups=2 stages=4
//
// 64 x kTileColumns results a warpgroup, by products of the tensor cores. The operands are halves in memory: each float32 is
// the sum of two, high and low, times a power of two. A product of two is low * high, high * low and high * high. One warp has
// the copy engine bring them; barriers hand stages of shared memory to the others and back.

constexpr int kProducts = 91;
constexpr int kM = 128;  // rows of a result
constexpr int kN = 384;  // and columns
constexpr int kBlocks = 132;  // of threads, which take tiles in turns
constexpr int kTiles = 364;
constexpr int kTilesDown = 1;  // a result
constexpr int kTilesAcross = 4;
constexpr int kGroups = 2;  // warpgroups that multiply, one below the other
constexpr int kThreads = 128 * kGroups + 128;  // another one copies
constexpr int kTileRows = 64 * kGroups;
constexpr int kTileColumns = 96;
constexpr int kTerms = 32;  // of a stage
constexpr int kSteps = 12;  // stages that a sum goes through
constexpr int kSums = kTileColumns / 2;  // of real numbers, a thread

// A stage in shared memory: what a has of it, and behind that what b has.
constexpr int kALow = 64;  // bytes from high parts to low ones
constexpr int kAImaginary = 16384;  // and from real parts to imaginary ones
constexpr int kAStep = 32;  // from 16 terms to the next ones
constexpr bool kATurned = false;  // whether rows lie side by side, not the terms
constexpr int kAGroup = 8192;  // from the rows of a warpgroup to those of the next one
constexpr int kBLow = 64;  // bytes from high parts to low ones
constexpr int kBImaginary = 12288;  // and from real parts to imaginary ones
constexpr int kBStep = 32;  // from 16 terms to the next ones
constexpr bool kBTurned = false;  // whether columns lie side by side, not the terms
constexpr int kAllA = 32768;
constexpr int kStage = kAllA + 24576;
constexpr int kStages = 4;

using Sums = float[kSums];

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Writes to shared memory become visible to the tensor cores; a barrier follows.
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// What a product needs to know of a matrix, in units of 16 bytes: where it lies, and how far apart core matrices are
// along the terms and across them.
using Halves = unsigned long long;

template <int kAlong, int kAcross> __device__ __forceinline__ Halves halves(const void* first) {
    static_assert(kAlong % 16 == 0 && kAcross % 16 == 0, "descriptors count 16 bytes");
    const Halves address = __cvta_generic_to_shared(first);
    const Halves offsets = static_cast<Halves>(kAcross / 16) << 32 | static_cast<Halves>(kAlong / 16) << 16;
    return (address & 0x3ffff) >> 4 | offsets;
}

// Lines of 128 bytes whose chunks of 16 are exchanged by the bits of their address, as the copy engine writes them from a
// multiple of 1024 bytes on. A line has 64 terms; of turned matrices it has 64 rows or columns, and the next 64 lie
// kFurther bytes behind.
template <int kFurther = 16> __device__ __forceinline__ Halves swizzled_halves(const void* first) {
    const Halves address = __cvta_generic_to_shared(first);
    return (address & 0x3ffff) >> 4 | 1ull << 62 | static_cast<Halves>(1024 / 16) << 32 | static_cast<Halves>(kFurther / 16) << 16;
}

// The matrix that lies so many bytes behind it.
__device__ __forceinline__ Halves behind(Halves matrix, int bytes) { return matrix + bytes / 16; }

// sums = a * b, or sums += a * b where `add` holds, or -a * b instead: 64x16 by 16x96 halves into floats, spread over
// a warpgroup as PTX lays out wgmma.m64n96k16. What lies side by side are terms, or rows of a and columns of b where
// they are turned. It goes on in the background: between begin_products() and finish_products() nothing may touch sums.
template <bool kNegated, bool kTurnedA, bool kTurnedB>
__device__ __forceinline__ void multiply_halves(float (&sums)[48], Halves a, Halves b, bool add) {
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

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
__device__ __forceinline__ void finish_products(float (&sums)[48]) {
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
using PhaseBarrier = unsigned long long;

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void begin_barrier(PhaseBarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Lets copies see barriers that have begun; a barrier of the threads follows.
__device__ __forceinline__ void show_barriers() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void arrive_at(PhaseBarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives and announces so many bytes, which copies bring.
__device__ __forceinline__ void arrive_with_bytes(PhaseBarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Copies a multiple of 16 bytes between such, and tells the barrier when they are there.
__device__ __forceinline__ void copy_bulk_to(void* shared, const void* global, unsigned bytes, PhaseBarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of this parity has ended. Of a barrier that has just begun the one before its first has: parity 1.
__device__ __forceinline__ void wait_for_phase(const PhaseBarrier* barrier, unsigned parity) {
    asm volatile(
        "{ .reg .pred done; "
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
        "@!done bra again; }"
        ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST
// From now on a thread has so many registers: fewer, or more that others have given.
template <int kRegisters> __device__ __forceinline__ void keep_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters> __device__ __forceinline__ void take_registers() {
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
__device__ __forceinline__ void begin_barriers(PhaseBarrier (&full)[kStages], PhaseBarrier (&free)[kStages], int warps) {
    for (int stage = 0; stage < kStages; ++stage) {
        begin_barrier(&full[stage], 1);
        begin_barrier(&free[stage], warps);
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
struct __align__(64) TensorMap {  // CUtensorMap of cuda.h
    char bytes[128];
};

// Copies channels of as many pixels as the map says, from the position of pixel (row, column) of an image on, of each
// those of the pixel that lies so many rows and columns further on; tells the barrier when they are there.
__device__ __forceinline__ void copy_pixels_to(void* shared, const TensorMap& map, int channel, int column, int row, int image,
                                               int columns_on, int rows_on, PhaseBarrier* barrier) {
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
    PhaseBarrier full[kStages], free[kStages];
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
            PhaseBarrier* const full = &barriers.full[next.number];
            wait_for_phase(&barriers.free[next.number], next.parity ^ 1);
            if (threadIdx.x % 32 == 0) {
                arrive_with_bytes(full, kStage);
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    copy_pixels_to(stage + part * kAImaginary, a, step * (2 * kTerms), tile.row, 0,
                                   part * kProducts + tile.product, 0, 0, full);
                }
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    copy_pixels_to(stage + kAllA + part * kBImaginary, b, step * (2 * kTerms), tile.column, 0,
                                   part * kProducts + tile.product, 0, 0, full);
                }
            }
            __syncwarp();
            next.advance();
        }
    }
}

template <bool kNegated> __device__ __forceinline__ void multiply(Sums& sums, Halves a, Halves b, bool add) {
    multiply_halves<kNegated, kATurned, kBTurned>(sums, a, b, add);
}

// sums = the real part of what a stage gives 64 rows: small products first, since tensor cores cut sums off.
__device__ __forceinline__ void multiply_real(Sums& sums, Halves a, Halves b) {
    const Halves imaginary_a = behind(a, kAImaginary), first_b = b, second_b = behind(b, kBImaginary);
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
__device__ __forceinline__ void multiply_imaginary(Sums& sums, Halves a, Halves b) {
    const Halves imaginary_a = behind(a, kAImaginary), first_b = behind(b, kBImaginary), second_b = b;
#pragma unroll
    for (int j = 0; j < kTerms / 16; ++j) {
        multiply<true>(sums, behind(a, j * kAStep + kALow), behind(first_b, j * kBStep), j > 0);
        multiply<true>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep + kBLow), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep + kALow), behind(second_b, j * kBStep), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep + kBLow), true);
    }
#pragma unroll
    for (int j = 0; j < kTerms / 16; ++j) {
        multiply<true>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep), true);
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
__device__ __forceinline__ void store(const Sums& real, const Sums& imaginary, const Tile& tile, int group, const int* __restrict__ power_a, int power_b,
                                      float2* __restrict__ c) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = tile.row + 64 * group + warp * 16 + lane / 4, column = tile.column + lane % 4 * 2;
    float2* const own = c + (static_cast<size_t>(tile.product) * kM + row) * kN + column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int power = power_b - power_a[row + 8 * half];
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
        show_barriers();
    }
    __syncthreads();
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // so that the compiler sees that it is a warp's
    if (group == kGroups) {
        keep_registers<24>();
        if (threadIdx.x < 128 * kGroups + 32) {
            copy_tiles(a, b, memory, barriers);
        }
        return;
    }
    take_registers<232>();
    const int power = -*power_b;
    const Halves rows = swizzled_halves(memory + group * kAGroup);
    const Halves columns = swizzled_halves(memory + kAllA);
    Stage<kStages> next;
    Sums sums, real, imaginary;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
#pragma unroll
        for (int n = 0; n < kSums; ++n) {
            real[n] = imaginary[n] = 0.0f;
        }
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step) {
            wait_for_phase(&barriers.full[next.number], next.parity);
            const Halves own_a = behind(rows, next.number * kStage), own_b = behind(columns, next.number * kStage);
            begin_products();
            multiply_real(sums, own_a, own_b);
            commit_products();
            finish_products(sums);
            add(sums, real);
            begin_products();
            multiply_imaginary(sums, own_a, own_b);
            commit_products();
            finish_products(sums);
            if (threadIdx.x % 32 == 0) {
                arrive_at(&barriers.free[next.number]);
            }
            add(sums, imaginary);
            next.advance();
        }
        store(real, imaginary, tile_of(i), group, power_a, power, c);
    }
}
