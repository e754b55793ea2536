// warpsmith conv2d_warpgroup_tf32
// problem: conv2d pass=fprop input=64x512x28x28 weight=512x512x3x3 precision=tf32 padding=1x1 layout=nhwc bias=yes
// config:  blocks=3 channels=32 columns=64 filter_stages=4 pixel_stages=6 sharing=none warpgroups=2
//
// Convolution as an implicit GEMM by wgmma in TF32: M counts pixels of the result, N its channels, K taps and channels.
// A cluster of blocks computes a kTileM x kTileN tile; each block sums over a part of the channels. One producer warp
// loads pixels (A) by TMA, in im2col mode with zeros beyond the images, into 128-byte swizzled stages of shared memory,
// and tiles of rounded weights (B) by bulk copies. Consumer warps load the pixels of a tap to registers and round them
// while products of the tap before are under way. One stage of pixels serves all taps that read it, each from row
// `shift` on. Full and empty mbarriers pass the stages between producer and consumers.

constexpr int kSplits = 3;  // blocks of a cluster
constexpr int kBlocks = 3136;  // clusters, one for each tile
constexpr int kTiles = 3136;
constexpr int kWarpgroups = 2;  // consumers, 64 rows of the tile each
constexpr int kThreads = 128 * kWarpgroups + 128;  // consumer warpgroups, and one with the producer warp
constexpr int kTileM = 64 * kWarpgroups;
constexpr int kTileN = 64;
constexpr int kTilesN = 8;
constexpr int kTilesM = 392;  // tiles along M, per phase
constexpr int kAccumulators = kTileN / 2;  // per thread
constexpr int kGroups = 1;
constexpr int kN = 512;  // channels of the result
constexpr int kRowPitch = 28;  // rows per image, rows between images included
constexpr int kColumnPitch = 28;  // pixels per row, pixels between rows included
constexpr int kM = 50176;  // pixels of all images, those between images included
constexpr int kChannels = 32;  // per stage: 128 bytes of a pixel
constexpr int kChannelBlocks = 16;
constexpr int kTaps = 9;
constexpr int kSpan = 128;  // pixels per stage, a multiple of 8 (swizzle atom)

// Shared memory, in bytes.
constexpr int kRowBytes = 4 * kChannels;
constexpr int kPixelStage = kSpan * kRowBytes;
constexpr int kPixelStages = 6;
constexpr int kFilterStage = kTileN * kRowBytes;
constexpr int kFilterStages = 4;
constexpr int kSteps = kChannels / 8;  // products of a stage
constexpr int kSumPitch = 72;  // floats from pixel to pixel of sums: four pixels lie in different banks
constexpr int kSumBytes = 4 * kSumPitch * kTileM;  // they take the place of the stages
constexpr int kStagesEnd = kPixelStages * kPixelStage + kFilterStages * kFilterStage;
constexpr int kBarriersAt = kStagesEnd > kSumBytes ? kStagesEnd : kSumBytes;

// A tap in the order of the mainloop. Consecutive taps may read the same stage of pixels.
struct Tap {
    int row, column;  // im2col offsets of the stage's pixels
    int shift;  // pixels from the stage's first pixel to the tap's first one
    int weight;  // place in the filter
    bool begins, ends;  // whether it is the first, or last, tap that reads the stage
};
__constant__ constexpr Tap kTap[] = {
    {0, 0, 0, 0, true, true},
    {0, 1, 0, 1, true, true},
    {0, 2, 0, 2, true, true},
    {1, 0, 0, 3, true, true},
    {1, 1, 0, 4, true, true},
    {1, 2, 0, 5, true, true},
    {2, 0, 0, 6, true, true},
    {2, 1, 0, 7, true, true},
    {2, 2, 0, 8, true, true},
};

using Accumulators = float[kAccumulators];

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// Matrix descriptor of B, in units of 16 bytes: address, leading and stride offsets between core matrices.
using SmemDescriptorB = unsigned long long;

__device__ __forceinline__ SmemDescriptorB smem_descriptor_b(const float* first) {
    const SmemDescriptorB address = __cvta_generic_to_shared(first);
    constexpr SmemDescriptorB kAcross = 8, kAlong = kAcross * 8;
    return (address & 0x3ffff) >> 4 | kAlong << 16 | kAcross << 32;
}

// Descriptor of the matrix `elements` after `matrix`.
__device__ __forceinline__ SmemDescriptorB behind(SmemDescriptorB matrix, int elements) {
    return matrix + elements / 4;
}

// sums = a * b, or sums += a * b if kAdd: 64x8 by 8x64 TF32 with float32 accumulators, in the register layout of
// wgmma.m64n64k8. The hardware reads the upper 19 bits of a float. Asynchronous: no access to sums between
// wgmma_fence() and wgmma_wait_all().
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&sums)[32], const float (&a)[4], SmemDescriptorB b) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
        "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, { %32, %33, %34, %35 }, %36, add, 1, 1; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "l"(b), "n"(kAdd ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all wgmma groups but the last one. Matrices A are operands, so that the compiler overwrites them only after
// the wait.
__device__ __forceinline__ void wgmma_wait_but_last(float (&a)[4][4]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 1;"
        : "+f"(a[0][0]), "+f"(a[0][1]), "+f"(a[0][2]), "+f"(a[0][3]),
          "+f"(a[1][0]), "+f"(a[1][1]), "+f"(a[1][2]), "+f"(a[1][3]),
          "+f"(a[2][0]), "+f"(a[2][1]), "+f"(a[2][2]), "+f"(a[2][3]),
          "+f"(a[3][0]), "+f"(a[3][1]), "+f"(a[3][2]), "+f"(a[3][3])
        :
        : "memory");
}

// Waits for all wgmma groups. Accumulators and matrices A are operands, so that the compiler reads and overwrites them
// only after the wait.
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[32], float (&a)[4][4]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]),
          "+f"(a[0][0]), "+f"(a[0][1]), "+f"(a[0][2]), "+f"(a[0][3]),
          "+f"(a[1][0]), "+f"(a[1][1]), "+f"(a[1][2]), "+f"(a[1][3]),
          "+f"(a[2][0]), "+f"(a[2][1]), "+f"(a[2][2]), "+f"(a[2][3]),
          "+f"(a[3][0]), "+f"(a[3][1]), "+f"(a[3][2]), "+f"(a[3][3])
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

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
using SharedAddress = unsigned;  // 32-bit byte address: takes fewer instructions than a generic pointer

// Loads four 8x8 matrices of 16-bit elements in the fragment layout of mma. Lane l passes the address
// of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(SharedAddress row, unsigned& first, unsigned& second, unsigned& third,
                                           unsigned& fourth) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(first), "=r"(second), "=r"(third), "=r"(fourth) : "r"(row));
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

// The nearest TF32 number: the upper 19 bits of a float. Tensor cores ignore the lower 13 bits.
__device__ __forceinline__ float rounded(float number) {
    const unsigned bits = __float_as_uint(number);
    return fabsf(number) < __uint_as_float(0x7f800000u) ? __uint_as_float(bits + 0x1000u) : number;
}

struct Tile {
    int column, m, group;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.column = i % kTilesN;  // fastest: tiles of the same m read the same pixels
    i /= kTilesN;
    tile.m = i % kTilesM * kTileM;
    tile.group = i / kTilesM;
    return tile;
}

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

// The first block of channels that block `part` of a cluster sums over; the last one is before the first of the next.
__device__ __forceinline__ int first_block(int part) { return kChannelBlocks * part / kSplits; }

struct Barriers {
    Mbarrier pixels_full[kPixelStages], pixels_empty[kPixelStages];
    Mbarrier filters_full[kFilterStages], filters_empty[kFilterStages];
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

// One thread issues all TMA loads. A stage of weights is one bulk copy.
__device__ __forceinline__ void copy_tiles(const TensorMap& x, const float4* __restrict__ filters, char* memory,
                                           Barriers& barriers) {
    PipelineState<kPixelStages> own;
    PipelineState<kFilterStages> next;
    for (int i = blockIdx.x / kSplits; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        const int image = tile.m / (kRowPitch * kColumnPitch), offset = tile.m % (kRowPitch * kColumnPitch);
        const int row = offset / kColumnPitch - 1;  // corner of the window in the source
        const int column = offset % kColumnPitch - 1;
        const size_t first_stage = static_cast<size_t>(tile.column) * (kChannelBlocks * kTaps);  // of weights
        const int part = blockIdx.x % kSplits;
#pragma unroll 1
        for (int block = first_block(part); block < first_block(part + 1); ++block) {
#pragma unroll 1
            for (int t = 0; t < kTaps; ++t) {
                if (kTap[t].begins) {
                    mbarrier_wait_parity(&barriers.pixels_empty[own.number], own.parity ^ 1);
                    Mbarrier* const full = &barriers.pixels_full[own.number];
                    mbarrier_arrive_expect_tx(full, kPixelStage);
                    tma_load_im2col(memory + own.number * kPixelStage, x,
                                    block * 32, column, row, image,
                                    kTap[t].column, kTap[t].row, full);
                    own.advance();
                }
                mbarrier_wait_parity(&barriers.filters_empty[next.number], next.parity ^ 1);
                char* const stage = memory + kPixelStages * kPixelStage + next.number * kFilterStage;
                Mbarrier* const full = &barriers.filters_full[next.number];
                mbarrier_arrive_expect_tx(full, kFilterStage);
                const size_t source = first_stage + block * kTaps + kTap[t].weight;
                bulk_load(stage, filters + source * (kFilterStage / 16), kFilterStage, full);
                next.advance();
            }
        }
    }
}

// Address of the result of row m, first channel of the tile's group; nullptr if m is no pixel of the result.
__device__ __forceinline__ float* target_of(int m, const Tile& tile,
                                              float* y) {
    return m < kM ? y + (static_cast<size_t>(m) * kGroups + tile.group) * kN : nullptr;
}

// Epilogue: a warp leaves its sums in shared memory, [pixel of the tile][channel].
__device__ __forceinline__ void keep(const Accumulators& sums, int group, char* memory) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int pixel = 64 * group + warp * 16 + lane / 4;
    float* const own = reinterpret_cast<float*>(memory) + pixel * kSumPitch + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < kAccumulators; i += 4) {
            *reinterpret_cast<float2*>(own + 8 * half * kSumPitch + 2 * i) =
                make_float2(sums[i + 2 * half], sums[i + 2 * half + 1]);
        }
    }
}

// Each block of the cluster adds a share of the tile's sums, in the order of the parts, and stores four adjacent
// channels of a pixel a thread. kBatch of them are loaded before the first is added.
__device__ __forceinline__ void add(const char* memory, const Tile& tile, int part,
                                    const float* __restrict__ b, float* __restrict__ y) {
    constexpr int kQuads = kTileN / 4, kAll = kTileM * kQuads;  // quads of channels
    constexpr int kStride = 128 * kWarpgroups, kBatch = 2;
    const float* const sums = reinterpret_cast<const float*>(memory);
    const int end = first_of_share<kSplits>(kAll, part + 1);
    for (int first = first_of_share<kSplits>(kAll, part) + threadIdx.x; first < end; first += kBatch * kStride) {
        float4 parts[kBatch][kSplits];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
            const int i = min(first + j * kStride, end - 1);
#pragma unroll
            for (int split = 0; split < kSplits; ++split) {
                parts[j][split] = load_from_block(sums + i / kQuads * kSumPitch + i % kQuads * 4, split);
            }
        }
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
            const int i = first + j * kStride;
            const int channel = tile.column * kTileN + i % kQuads * 4;
            float* const target = target_of(tile.m + i / kQuads, tile, y);
            if (i >= end || target == nullptr) {
                continue;
            }
            float4 sum = parts[j][0];
#pragma unroll
            for (int split = 1; split < kSplits; ++split) {
                sum.x += parts[j][split].x, sum.y += parts[j][split].y;
                sum.z += parts[j][split].z, sum.w += parts[j][split].w;
            }
            float biases[4];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                biases[n] = __ldg(b + tile.group * kN + channel + n);
            }
            *reinterpret_cast<float4*>(target + channel) =
                make_float4(sum.x + biases[0], sum.y + biases[1],
                            sum.z + biases[2], sum.w + biases[3]);
        }
    }
}

// The pixels of a warp by the channels of a stage, as operand A of kSteps products.
struct Operands {
    float pixels[kSteps][4];
    int pixel_stage;  // the stage that they are of; -1 if a later tap reads it too
    int filter_stage;  // of the weights that they are multiplied by
};

// Loads and rounds 16 pixels. `own` is the place of the lane's row of ldmatrix in `memory`, in bytes and unswizzled.
__device__ __forceinline__ void load(Operands& operands, SharedAddress memory, int own) {
    const int swizzled = own ^ (own / kRowBytes % 8 * 16);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        unsigned bits[4];
        ldmatrix_x4(memory + (swizzled ^ (step * 32)), bits[0], bits[1], bits[2], bits[3]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            operands.pixels[step][i] = rounded(__uint_as_float(bits[i]));
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(3, 1, 1)
conv2d_warpgroup_tf32(const __grid_constant__ TensorMap x, const float4* __restrict__ filters,
                 const float* __restrict__ b, float* __restrict__ y) {
    extern __shared__ __align__(1024) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    char* const behind_stages = memory + kBarriersAt;
    Barriers& barriers = *reinterpret_cast<Barriers*>(behind_stages);
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // warpgroup; warp-uniform
    if (group == kWarpgroups) {
        setmaxnreg_dec<24>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            if (is_elected()) {
                prefetch(x);
                init_barriers(barriers.pixels_full, barriers.pixels_empty, 4 * kWarpgroups);
                init_barriers(barriers.filters_full, barriers.filters_empty, 4 * kWarpgroups);
                fence_proxy_async();
            }
            __syncwarp();
            announce_barriers<128 * kWarpgroups + 32>();
            wait_for_launch_before();
            if (is_elected()) {
                copy_tiles(x, filters, memory, barriers);
            }
        }
        return;
    }
    setmaxnreg_inc<232>();
    wait_for_launch_before();  // it may read what this one writes
    await_barriers<128 * kWarpgroups + 32>();
    const int lane = threadIdx.x % 32;
    // Rows of ldmatrix: the first eight lanes pass those of pixels 0 to 7, the next ones pixels 8 to 15; the others the
    // same with the next four channels.
    const int own_pixel = static_cast<int>(threadIdx.x) / 32 * 16 + lane % 16;
    const int own_pixels = own_pixel * kRowBytes + lane / 16 * 16;
    const SharedAddress stages = shared_address(memory);
    const SmemDescriptorB all_filters =
        smem_descriptor_b(reinterpret_cast<float*>(memory + kPixelStages * kPixelStage));
    PipelineState<kPixelStages> own;  // stages of pixels
    PipelineState<kFilterStages> next;  // stages of weights
    const auto load_next = [&](Operands& operands, const Tap& tap) {
        if (tap.begins) {
            mbarrier_wait_parity(&barriers.pixels_full[own.number], own.parity);
        }
        load(operands, stages, own_pixels + own.number * kPixelStage + tap.shift * kRowBytes);
        operands.pixel_stage = tap.ends ? own.number : -1;
        if (tap.ends) {
            own.advance();
        }
    };
    // An arrival does not wait for loads before it, so that it follows the products of what they have loaded.
    const auto release = [&](const Operands& operands) {
        if (lane == 0) {
            mbarrier_arrive(&barriers.filters_empty[operands.filter_stage]);
            if (operands.pixel_stage >= 0) {
                mbarrier_arrive(&barriers.pixels_empty[operands.pixel_stage]);
            }
        }
    };
    for (int i = blockIdx.x / kSplits; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        Accumulators sums;
#pragma unroll
        for (int n = 0; n < kAccumulators; ++n) {
            sums[n] = 0.0f;
        }
        constexpr int first_tap = 0, last_tap = kTaps;
        const int part = blockIdx.x % kSplits, blocks = first_block(part + 1) - first_block(part);
        const int steps = blocks * (last_tap - first_tap);
        const auto begin_products = [&](Operands& operands) {
            mbarrier_wait_parity(&barriers.filters_full[next.number], next.parity);
            const SmemDescriptorB weights = behind(all_filters, next.number * (kFilterStage / 4));
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < kSteps; ++k) {
                multiply<true>(sums, operands.pixels[k], behind(weights, k * (8 * kTileN)));
            }
            wgmma_commit_group();
            operands.filter_stage = next.number;
            next.advance();
        };
        // Products of one step are under way while the pixels of the next one are loaded and rounded.
        if (steps > 0) {
            int t = first_tap;
            const auto next_tap = [&]() -> const Tap& { return kTap[t = t + 1 == last_tap ? first_tap : t + 1]; };
            Operands even, odd;
            load_next(even, kTap[t]);
            begin_products(even);
#pragma unroll 1
            for (int step = 1; step < steps; step += 2) {
                load_next(odd, next_tap());
                begin_products(odd);
                wgmma_wait_but_last(even.pixels);
                release(even);
                if (step + 1 == steps) {
                    break;
                }
                load_next(even, next_tap());
                begin_products(even);
                wgmma_wait_but_last(odd.pixels);
                release(odd);
            }
            Operands& last = steps % 2 ? even : odd;
            wgmma_wait_all(sums, last.pixels);
            release(last);
        }
        const int group = static_cast<int>(threadIdx.x) / 128;
        sync_first_threads<128 * kWarpgroups>();  // all warps have read the last stage
        keep(sums, group, memory);
        publish_to_cluster<kSplits, 128 * kWarpgroups>(memory, kSumBytes, part);
        add(memory, tile, part, b, y);
        sync_cluster();  // no block exits while another reads its sums
    }
}
