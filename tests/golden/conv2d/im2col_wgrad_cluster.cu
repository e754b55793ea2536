// warpsmith conv2d_warpgroup_im2col
// problem: conv2d pass=wgrad input=64x512x28x28 weight=512x512x3x3 precision=bf16 dtype=bfloat16 padding=1x1
//          layout=nhwc
// config:  channel_groups=1 columns=64 splits=4 stages=6 taps=3 terms=128
//
// Gradient of the weights as GEMMs by wgmma, one per tap: M counts channels of x, N channels of dy, K pixels of dy. A
// block computes kTaps taps from the same stages; a consumer warpgroup has one tap, 64 channels of x and kTileN of dy.
// One producer warp loads x (A) and dy (B) by TMA, in im2col mode with zeros beyond the images, into 128-byte swizzled
// stages. A tap reads x from pixel `shift` of the stage on. Full and empty mbarriers pass the stages between producer
// and consumers. The blocks of a cluster sum over a part of the pixels each, and add their sums.

constexpr int kTaps = 3;  // taps per block
constexpr int kChannelGroups = 1;  // groups of 64 channels of x per block
constexpr int kWarpgroups = kTaps * kChannelGroups;
constexpr int kThreads = 128 * kWarpgroups + 128;  // consumer warpgroups, and one with the producer warp
constexpr int kTileN = 64;
constexpr int kTilesN = 8;
constexpr int kTilesM = 8;  // tiles along M, per tap
constexpr int kTapSets = 3;
constexpr int kAccumulators = kTileN / 2;  // per thread
constexpr int kChannels = 512;  // channels of x per group
constexpr int kFilters = 512;  // channels of dy per group
constexpr int kRowPitch = 28;  // rows per image, rows between images included
constexpr int kColumnPitch = 29;  // pixels per row, pixels between rows included
constexpr int kTileK = 128;  // pixels of dy per stage
constexpr int kAllSteps = 406;  // k tiles of all splits
constexpr int kSplitSteps = 102;  // k tiles per split
constexpr int kSplits = 4;  // blocks of a cluster

// Shared memory, in bytes.
constexpr int kRowBytes = 128;  // 64 channels of a pixel
constexpr int kXSpan = 136;  // pixels of x per stage, a multiple of 8 (swizzle atom)
constexpr int kXTile = kRowBytes * kXSpan;  // 64 channels
constexpr int kDyTile = kRowBytes * kTileK;
constexpr int kDyTiles = 1;
constexpr int kXStage = kChannelGroups * kXTile;
constexpr int kStage = kXStage + kDyTiles * kDyTile;
constexpr int kStages = 6;
constexpr int kSumPitch = 68;  // floats from column to column of sums: a quad's columns lie in different banks
constexpr int kSumTile = kSumPitch * kTileN;  // floats of a warpgroup's sums
constexpr int kSumBytes = 4 * kSumTile * kWarpgroups;  // they take the place of the stages
constexpr int kBarriersAt = kStages * kStage > kSumBytes ? kStages * kStage : kSumBytes;
constexpr int kAStep = 16 * kRowBytes, kBStep = 16 * kRowBytes;  // from one k16 step to the next
constexpr int kSteps = kTileK / 16;

// The taps whose gradients a block computes, from one stage of x.
struct TapSet {
    int row, column;  // im2col offsets of the first tap's pixels of x
    int shifts[kTaps];  // pixels from the first tap's pixels to those of each tap
    int weights[kTaps];  // place of each tap in the filter; -1: no tap
};
__constant__ constexpr TapSet kTapSet[kTapSets] = {
    {0, 0, {0, 1, 2}, {0, 1, 2}},
    {1, 0, {0, 1, 2}, {3, 4, 5}},
    {2, 0, {0, 1, 2}, {6, 7, 8}},
};

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

// sums = a * b, or sums += a * b if `add`; -a * b if kNegated. 64x16 by 16x64 bf16 with float32 accumulators, in the
// register layout of wgmma.m64n64k16. kTransposeA and kTransposeB: MN-major operands instead of K-major ones.
// Asynchronous: no access to sums between wgmma_fence() and wgmma_wait_all().
template <bool kNegated, bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void wgmma_bf16(float (&sums)[32], SmemDescriptor a, SmemDescriptor b, bool add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
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

#ifndef WARPSMITH_ON_HOST
// Waits until at most the last kGroups committed wgmma groups are pending.
template <int kGroups> __device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
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

#ifndef WARPSMITH_ON_HOST  // the host device runs one launch after the other
// Lets the next launch begin once all blocks of this one have begun.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

// Waits until the launch before has ended and its results can be read.
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// The producer warp has initialised the mbarriers; it does not wait for the consumer warps. kThreads counts all of
// them.
template <int kThreads> __device__ __forceinline__ void announce_barriers() {
    asm volatile("bar.arrive 15, %0;" ::"n"(kThreads) : "memory");
}

// Waits in a consumer warp until the mbarriers are initialised.
template <int kThreads> __device__ __forceinline__ void await_barriers() {
    asm volatile("bar.sync 15, %0;" ::"n"(kThreads) : "memory");
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

// sums += the product of a stage.
__device__ __forceinline__ void multiply(Accumulators& sums, SmemDescriptor a, SmemDescriptor b) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        wgmma_bf16<false, true, true>(sums, behind(a, j * kAStep), behind(b, j * kBStep), true);
    }
}

struct Tile {
    int column, row, group, taps, split;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.split = i % kSplits;  // the blocks of a cluster are adjacent
    i /= kSplits;
    tile.taps = i % kTapSets;  // fastest: these blocks read the same pixels of x and dy
    i /= kTapSets;
    tile.column = i % kTilesN;
    i /= kTilesN;
    tile.row = i % kTilesM;
    i /= kTilesM;
    tile.group = i;
    return tile;
}

using Element = unsigned short;  // bits of a bfloat16

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ float load(const Element* from) { return bfloat_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_bfloat(value); }

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// Barrier of the first kThreads threads of a block; barrier 0 is that of __syncthreads().
template <int kThreads> __device__ __forceinline__ void sync_first_threads() {
    asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// Barrier of all threads of a cluster that have not exited.
__device__ __forceinline__ void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Lets other blocks of the cluster read shared memory, and waits until theirs may be read. kThreads threads call it.
template <int kBlocks, int kThreads>
__device__ __forceinline__ void publish_to_cluster(const void* memory, int bytes, int rank) {
    sync_cluster();
}

// Four floats from shared memory of block `rank` of the cluster, at the address that `own` has in this block's.
__device__ __forceinline__ float4 load_from_block(const float* own, int rank) {
    unsigned address;
    float4 values;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 { %0, %1, %2, %3 }, [%4];"
                 : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w) : "r"(address) : "memory");
    return values;
}

// The first of `count` numbers that block `rank` takes; the last one is before the first of the next block.
template <int kBlocks> __device__ __forceinline__ int first_of_share(int count, int rank) {
    return count * rank / kBlocks;
}
#endif
struct Barriers {
    Mbarrier full[kStages], empty[kStages];
};

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

// Fetches the map itself, which the first load would wait for.
__device__ __forceinline__ void prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// True in one thread of a warp. Unlike a lane's number it tells the compiler that one thread executes what follows.
__device__ __forceinline__ bool is_elected() {
    unsigned elected;
    asm volatile("{ .reg .pred elected; elect.sync _|elected, 0xffffffff; selp.u32 %0, 1, 0, elected; }"
                 : "=r"(elected));
    return elected != 0;
}
#endif

// One thread issues all TMA loads.
__device__ __forceinline__ void copy_stages(const TensorMap& x, const TensorMap& dy, const Tile& tile, int first_step,
                                            int steps, char* memory, Barriers& barriers) {
    const int x_channel = tile.row * (64 * kChannelGroups),
              dy_channel = tile.column * kTileN;
    PipelineState<kStages> next;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const int k = (first_step + step) * kTileK;
        const int image = k / (kRowPitch * kColumnPitch), offset = k % (kRowPitch * kColumnPitch);
        const int row = offset / kColumnPitch, column = offset % kColumnPitch;
        char* const stage = memory + next.number * kStage;
        Mbarrier* const full = &barriers.full[next.number];
        mbarrier_wait_parity(&barriers.empty[next.number], next.parity ^ 1);
        mbarrier_arrive_expect_tx(full, kStage);
#pragma unroll
        for (int i = 0; i < kChannelGroups; ++i) {
            tma_load_im2col(stage + i * kXTile, x, x_channel + 64 * i,
                            column - 1, row - 1, image,
                            kTapSet[tile.taps].column, kTapSet[tile.taps].row, full);
        }
#pragma unroll
        for (int i = 0; i < kDyTiles; ++i) {
            tma_load_im2col(stage + kXStage + i * kDyTile, dy, dy_channel + 64 * i, column, row, image, 0, 0, full);
        }
        next.advance();
    }
}

// Epilogue: a warp leaves its sums in shared memory, [warpgroup][column][row].
__device__ __forceinline__ void keep(const Accumulators& sums, int group, char* memory) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float* const tile = reinterpret_cast<float*>(memory) + group * kSumTile;
    float* const own = tile + lane % 4 * 2 * kSumPitch + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kAccumulators; ++i) {
        own[(i / 4 * 8 + i % 2) * kSumPitch + i % 4 / 2 * 8] = sums[i];
    }
}

// Each block of the cluster adds a share of the tile's sums, in the order of the splits, and stores four adjacent
// channels of x a thread.
__device__ __forceinline__ void add(const char* memory, const Tile& tile, Element* __restrict__ dw) {
    constexpr int kFilterStride = 9 * kChannels;
    constexpr int kQuads = 64 / 4, kAll = kWarpgroups * kTileN * kQuads;  // quads of channels
    const float* const sums = reinterpret_cast<const float*>(memory);
    const int end = first_of_share<kSplits>(kAll, tile.split + 1);
    for (int i = first_of_share<kSplits>(kAll, tile.split) + threadIdx.x; i < end; i += 128 * kWarpgroups) {
        const int quad = i % kQuads, column = i / kQuads % kTileN, group = i / (kQuads * kTileN);
        const int weight = kTapSet[tile.taps].weights[group / kChannelGroups];
        const int channel = (tile.row * kChannelGroups + group % kChannelGroups) * 64 + 4 * quad;
        const int filter = tile.column * kTileN + column;
        if (weight < 0 || channel >= kChannels || filter >= kFilters) {
            continue;
        }
        const float* const own = sums + group * kSumTile + column * kSumPitch + 4 * quad;
        float4 parts[kSplits];
#pragma unroll
        for (int split = 0; split < kSplits; ++split) {
            parts[split] = load_from_block(own, split);
        }
        float4 sum = parts[0];
#pragma unroll
        for (int split = 1; split < kSplits; ++split) {
            sum.x += parts[split].x, sum.y += parts[split].y, sum.z += parts[split].z, sum.w += parts[split].w;
        }
        const Element weights[4] = {rounded(sum.x), rounded(sum.y), rounded(sum.z), rounded(sum.w)};
        Element* const own_weights = dw + (tile.group * kFilters + filter) * kFilterStride + weight * kChannels;
        *reinterpret_cast<uint2*>(own_weights + channel) =
            make_uint2(weights[0] | weights[1] << 16, weights[2] | weights[3] << 16);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(4, 1, 1)
conv2d_warpgroup_im2col(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy,
                        Element* __restrict__ dw) {
    extern __shared__ __align__(1024) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory + kBarriersAt);
    const Tile tile = tile_of(blockIdx.x);
    const int first_step = tile.split * kSplitSteps;
    const int steps = min(kSplitSteps, kAllSteps - first_step);
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // warpgroup; warp-uniform
    if (group == kWarpgroups) {
        setmaxnreg_dec<24>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            if (is_elected()) {
                prefetch(x);
                prefetch(dy);
                init_barriers(barriers.full, barriers.empty, 4 * kWarpgroups);
                fence_proxy_async();
            }
            __syncwarp();
            announce_barriers<128 * kWarpgroups + 32>();
            wait_for_launch_before();
            if (is_elected()) {
                copy_stages(x, dy, tile, first_step, steps, memory, barriers);
            }
        }
        return;
    }
    setmaxnreg_inc<160>();
    wait_for_launch_before();  // it may read what this one writes
    await_barriers<128 * kWarpgroups + 32>();
    const bool is_first_lane = threadIdx.x % 32 == 0;
    const int own_tap = group / kChannelGroups, channel_group = group % kChannelGroups;
    const SmemDescriptor own_x = swizzled_smem_descriptor(memory + channel_group * kXTile +
                                                          kRowBytes * kTapSet[tile.taps].shifts[own_tap]);
    const SmemDescriptor all_dy = swizzled_smem_descriptor<kDyTile>(memory + kXStage);
    PipelineState<kStages> next;
    Accumulators sums;
#pragma unroll
    for (int n = 0; n < kAccumulators; ++n) {
        sums[n] = 0.0f;
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        mbarrier_wait_parity(&barriers.full[next.number], next.parity);
        wgmma_fence();
        multiply(sums, behind(own_x, next.number * kStage), behind(all_dy, next.number * kStage));
        wgmma_commit_group();
        wgmma_wait_group<1>();
        if (is_first_lane && step > 0) {
            mbarrier_arrive(&barriers.empty[next.number == 0 ? kStages - 1 : next.number - 1]);
        }
        next.advance();
    }
    wgmma_wait_all(sums);
    sync_first_threads<128 * kWarpgroups>();  // all warps have read the last stage
    keep(sums, group, memory);
    publish_to_cluster<kSplits, 128 * kWarpgroups>(memory, kSumBytes, tile.split);
    add(memory, tile, dw);
    sync_cluster();  // no block exits while another reads its sums
}
