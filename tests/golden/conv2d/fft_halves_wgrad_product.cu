// warpsmith cgemm_halves
// problem: cgemm batch=91 m=384 n=384 k=128 a=c accuracy=normwise
// config:  blocks=132 columns=96 groups=2 stages=3
//
// c = op(a) * op(b) by wgmma on split fp16 operands (fp16x3), which lie in memory as high and low fp16 parts, scaled by
// powers of two. A product is low * high + high * low + high * high. Blocks are persistent; a block computes a kTileM x
// kTileN tile of one product, a consumer warpgroup 64 x kTileN of it. One producer warp loads both operands by TMA into
// 128-byte swizzled stages; full and empty mbarriers pass the stages between producer and consumers. Accumulators are
// added to float32 totals after each stage.

constexpr int kProducts = 91;
constexpr int kM = 384;
constexpr int kN = 384;
constexpr int kBlocks = 132;  // persistent blocks
constexpr int kTiles = 1092;
constexpr int kTilesM = 3;  // tiles along M
constexpr int kTilesN = 4;
constexpr int kWarpgroups = 2;  // consumer warpgroups, along M
constexpr int kThreads = 128 * kWarpgroups + 128;  // consumers, and a warpgroup with the producer warp
constexpr int kTileM = 64 * kWarpgroups;
constexpr int kTileN = 96;
constexpr int kTileK = 32;
constexpr int kSteps = 4;  // k tiles per dot product
constexpr int kAccumulators = kTileN / 2;  // real accumulators per thread

// A stage in shared memory: the tile of a, then the tile of b.
constexpr int kALow = 8192;  // bytes from high parts to low parts
constexpr int kAImaginary = 16384;  // bytes from real parts to imaginary parts
constexpr int kAStep = 2048;  // bytes from one k16 step to the next
constexpr int kABoxes = 2;  // boxes of 64 rows, 128 bytes wide
constexpr int kABox = 4096;
constexpr bool kATransposed = true;  // M-major (rows side by side) or K-major
constexpr int kAWarpgroup = 4096;  // bytes from one warpgroup's rows to the next one's
constexpr int kBLow = 8192;  // bytes from high parts to low parts
constexpr int kBImaginary = 16384;  // bytes from real parts to imaginary parts
constexpr int kBStep = 2048;  // bytes from one k16 step to the next
constexpr int kBBoxes = 2;  // boxes of 64 columns, 128 bytes wide
constexpr int kBBox = 4096;
constexpr bool kBTransposed = true;  // N-major (columns side by side) or K-major
constexpr int kAStage = 32768;
constexpr int kStage = kAStage + 32768;
constexpr int kStages = 3;

using Accumulators = float[kAccumulators];

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
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

// Matrix descriptor with 128-byte swizzle, the layout that TMA writes to addresses that are multiples of 1024 bytes. A
// 128-byte row holds 64 terms (K-major), or 64 rows of A or columns of B (MN-major), of which the next 64 lie
// kLeadingOffset bytes further on.
template <int kLeadingOffset = 16>
__device__ __forceinline__ SmemDescriptor swizzled_smem_descriptor(const void* first) {
    const SmemDescriptor address = __cvta_generic_to_shared(first);
    return (address & 0x3ffff) >> 4 | 1ull << 62 | static_cast<SmemDescriptor>(1024 / 16) << 32 |
           static_cast<SmemDescriptor>(kLeadingOffset / 16) << 16;
}

// Descriptor of the matrix `bytes` after `matrix`.
__device__ __forceinline__ SmemDescriptor behind(SmemDescriptor matrix, int bytes) { return matrix + bytes / 16; }

// sums = a * b, or sums += a * b if `add`; -a * b if kNegated. 64x16 by 16x96 f16 with float32 accumulators, in the
// register layout of wgmma.m64n96k16. kTransposeA and kTransposeB: MN-major operands instead of K-major ones.
// Asynchronous: no access to sums between wgmma_fence() and wgmma_wait_all().
template <bool kNegated, bool kTransposeA, bool kTransposeB>
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
          "n"(kTransposeA ? 1 : 0), "n"(kTransposeB ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all wgmma groups. The accumulators are operands, so that the compiler reads them only after the wait.
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

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
using Mbarrier = unsigned long long;

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes initialised mbarriers visible to the async proxy; __syncthreads() follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and raises the phase's expected transaction count by `bytes`.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Copies `bytes`, a multiple of 16, between 16-byte aligned addresses; completion is counted on the mbarrier.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of this parity is complete. A wait for parity 1 on a new mbarrier returns at once: the phase
// before the first counts as complete.
__device__ __forceinline__ void mbarrier_wait_parity(const Mbarrier* barrier, unsigned parity) {
    asm volatile(
        "{ .reg .pred done; "
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
        "@!done bra again; }"
        ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST
// Sets the registers per thread of the executing warps: dec releases registers, inc waits for released ones.
template <int kRegisters> __device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters> __device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
#endif

// The next stage of a circular pipeline, and the parity of its mbarrier phase.
template <int kStages> struct PipelineState {
    int number = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance() {
        if (++number == kStages) {
            number = 0;
            parity ^= 1;
        }
    }
};

// A full barrier completes with the producer's one arrival and its expected bytes, an empty barrier with one arrival of
// each consumer warp.
template <int kStages>
__device__ __forceinline__ void init_barriers(Mbarrier (&full)[kStages], Mbarrier (&empty)[kStages], int warps) {
    for (int stage = 0; stage < kStages; ++stage) {
        mbarrier_init(&full[stage], 1);
        mbarrier_init(&empty[stage], warps);
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
struct __align__(64) TensorMap {  // CUtensorMap of cuda.h
    char bytes[128];
};

// Loads the map's number of pixels, in order from pixel (row, column) of `image` on, each shifted by rows_on rows and
// columns_on columns: the map's number of channels from `channel` on. Completion is counted on the mbarrier.
__device__ __forceinline__ void tma_load_im2col(void* shared, const TensorMap& map, int channel, int column, int row,
                                                int image, int columns_on, int rows_on, Mbarrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, { %2, %3, %4, %5 }], [%6], { %7, %8 };"
        ::"r"(shared_address(shared)), "l"(&map), "r"(channel), "r"(column), "r"(row), "r"(image),
          "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(columns_on)),
          "h"(static_cast<unsigned short>(rows_on))
        : "memory");
}
#endif

// sum * 2^power; the power may lie beyond the range of a float, so it is applied in two factors.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

struct Barriers {
    Mbarrier full[kStages], empty[kStages];
};

struct Tile {
    int product, row, column;  // row and column: the tile's first ones
};

__device__ __forceinline__ Tile tile_of(int i) {
    const int down = i / kTilesN;  // N varies fastest: consecutive tiles read the same rows of a
    return {down / kTilesM, down % kTilesM * kTileM, i % kTilesN * kTileN};
}

// The producer warp: lane 0 issues all TMA loads.
__device__ __forceinline__ void copy_tiles(const TensorMap& a, const TensorMap& b, char* memory, Barriers& barriers) {
    PipelineState<kStages> next;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step) {
            char* const stage = memory + next.number * kStage;
            Mbarrier* const full = &barriers.full[next.number];
            mbarrier_wait_parity(&barriers.empty[next.number], next.parity ^ 1);
            if (threadIdx.x % 32 == 0) {
                mbarrier_arrive_expect_tx(full, kStage);
#pragma unroll
                for (int box = 0; box < 4 * kABoxes; ++box) {
                    tma_load_im2col(stage + box * kABox, a, tile.row + box % kABoxes * 64, step * kTileK,
                                    0, box / kABoxes * kProducts + tile.product, 0, 0, full);
                }
#pragma unroll
                for (int box = 0; box < 4 * kBBoxes; ++box) {
                    tma_load_im2col(stage + kAStage + box * kBBox, b, tile.column + box % kBBoxes * 64, step * kTileK,
                                    0, box / kBBoxes * kProducts + tile.product, 0, 0, full);
                }
            }
            __syncwarp();
            next.advance();
        }
    }
}

template <bool kNegated>
__device__ __forceinline__ void multiply(Accumulators& sums, SmemDescriptor a, SmemDescriptor b, bool add) {
    wgmma_f16<kNegated, kATransposed, kBTransposed>(sums, a, b, add);
}

// sums = the real part of 64 rows of a times the tile of b, small products first: tensor cores truncate sums.
__device__ __forceinline__ void multiply_real(Accumulators& sums, SmemDescriptor a, SmemDescriptor b) {
    const SmemDescriptor imaginary_a = behind(a, kAImaginary), first_b = b, second_b = behind(b, kBImaginary);
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep + kALow), behind(first_b, j * kBStep), j > 0);
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep + kBLow), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep + kALow), behind(second_b, j * kBStep), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep + kBLow), true);
    }
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep), true);
        multiply<false>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep), true);
    }
}

// sums = the imaginary part of 64 rows of a times the tile of b.
__device__ __forceinline__ void multiply_imaginary(Accumulators& sums, SmemDescriptor a, SmemDescriptor b) {
    const SmemDescriptor imaginary_a = behind(a, kAImaginary), first_b = behind(b, kBImaginary), second_b = b;
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep + kALow), behind(first_b, j * kBStep), j > 0);
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep + kBLow), true);
        multiply<true>(sums, behind(imaginary_a, j * kAStep + kALow), behind(second_b, j * kBStep), true);
        multiply<true>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep + kBLow), true);
    }
#pragma unroll
    for (int j = 0; j < kTileK / 16; ++j) {
        multiply<false>(sums, behind(a, j * kAStep), behind(first_b, j * kBStep), true);
        multiply<true>(sums, behind(imaginary_a, j * kAStep), behind(second_b, j * kBStep), true);
    }
}

// totals += sums of a stage, rounded as float32: tensor cores truncate.
__device__ __forceinline__ void add(const Accumulators& sums, Accumulators& totals) {
#pragma unroll
    for (int n = 0; n < kAccumulators; ++n) {
        totals[n] += sums[n];
    }
}

// Epilogue: scales a warp's accumulators back and stores them to c.
__device__ __forceinline__ void store(const Accumulators& real, const Accumulators& imaginary, const Tile& tile,
                                      int group, int power,
                                      float2* __restrict__ c) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = tile.row + 64 * group + warp * 16 + lane / 4, column = tile.column + lane % 4 * 2;
    float2* const own = c + (static_cast<size_t>(tile.product) * kM + row) * kN + column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 2 * half; i < kAccumulators; i += 4) {
            float2* const target = own + 8 * half * kN + i / 4 * 8;
            *reinterpret_cast<float4*>(target) =
                make_float4(scaled(real[i], power), scaled(imaginary[i], power), scaled(real[i + 1], power),
                            scaled(imaginary[i + 1], power));
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
        init_barriers(barriers.full, barriers.empty, 4 * kWarpgroups);
        fence_proxy_async();
    }
    __syncthreads();
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // warpgroup; warp-uniform
    if (group == kWarpgroups) {
        setmaxnreg_dec<24>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            copy_tiles(a, b, memory, barriers);
        }
        return;
    }
    setmaxnreg_inc<232>();
    const int power = -*power_a - *power_b;
    const SmemDescriptor descriptor_a = swizzled_smem_descriptor(memory + group * kAWarpgroup);
    const SmemDescriptor descriptor_b = swizzled_smem_descriptor<kBBox>(memory + kAStage);
    PipelineState<kStages> next;
    Accumulators sums, real, imaginary;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
#pragma unroll
        for (int n = 0; n < kAccumulators; ++n) {
            real[n] = imaginary[n] = 0.0f;
        }
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step) {
            mbarrier_wait_parity(&barriers.full[next.number], next.parity);
            const SmemDescriptor own_a = behind(descriptor_a, next.number * kStage),
                                 own_b = behind(descriptor_b, next.number * kStage);
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
                mbarrier_arrive(&barriers.empty[next.number]);
            }
            add(sums, imaginary);
            next.advance();
        }
        store(real, imaginary, tile_of(i), group, power, c);
    }
}
