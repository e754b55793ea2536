// warpsmith conv2d_warpgroup_im2col
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=f16 dtype=float16 padding=1x1 layout=nhwc
//          bias=yes relu=yes
// config:  blocks=132 channels=64 columns=64 filter_stages=6 pixel_stages=6 sharing=none warpgroups=3
//
// Convolution as an implicit GEMM by wgmma: M counts pixels of the result, N its channels, K taps and channels.
// Persistent blocks; a block computes a kTileM x kTileN tile, a consumer warpgroup 64 x kTileN of it. One producer warp
// loads pixels (A) and weights (B) by TMA, in im2col mode with zeros beyond the images, into 128-byte swizzled stages
// of shared memory. One stage of pixels serves all taps that read it, each from row `shift` on. Full and empty
// mbarriers pass the stages between producer and consumers.

constexpr int kBlocks = 132;  // persistent blocks
constexpr int kTiles = 523;
constexpr int kWarpgroups = 3;  // consumers, 64 rows of the tile each
constexpr int kThreads = 128 * kWarpgroups + 128;  // consumer warpgroups, and one with the producer warp
constexpr int kTileM = 64 * kWarpgroups;
constexpr int kTileN = 64;
constexpr int kTilesN = 1;
constexpr int kTilesM = 523;  // tiles along M, per phase
constexpr int kAccumulators = kTileN / 2;  // per thread
constexpr int kGroups = 1;
constexpr int kN = 64;  // channels of the result per group
constexpr int kRowPitch = 56;  // rows per image, rows between images included
constexpr int kColumnPitch = 56;  // pixels per row, pixels between rows included
constexpr int kM = 100352;  // pixels of all images, those between images included
constexpr int kChannelBlocks = 1;
constexpr int kVectors = 8;  // channel vectors (8 channels) per channel block
constexpr int kTaps = 9;
constexpr int kFilterColumns = 3;
constexpr int kSpan = 192;  // pixels per stage, a multiple of 8 (swizzle atom)

// Shared memory, in bytes.
constexpr int kRowBytes = 16 * kVectors;  // channels of one pixel, or of one weight
constexpr int kPixelStage = kSpan * kRowBytes;
constexpr int kPixelStages = 6;
constexpr int kFilterStage = 64 * kRowBytes;
constexpr int kFilterStages = 6;
constexpr int kAStep = 32, kBStep = 32;  // from one k16 step to the next
constexpr int kSteps = kVectors / 2;

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
        wgmma_f16<false, false, false>(sums, behind(a, j * kAStep), behind(b, j * kBStep), true);
    }
}

using Element = unsigned short;  // bits of a float16

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

__device__ __forceinline__ float load(const Element* from) { return half_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_half(value); }

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float sum) { return sum < 0.0f ? 0.0f : sum; }

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

// One thread issues all TMA loads. The map of w treats filters as images whose pixels are the taps.
__device__ __forceinline__ void copy_tiles(const TensorMap& x, const TensorMap& w, char* memory, Barriers& barriers) {
    PipelineState<kPixelStages> own;
    PipelineState<kFilterStages> next;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        const int image = tile.m / (kRowPitch * kColumnPitch), offset = tile.m % (kRowPitch * kColumnPitch);
        const int row = offset / kColumnPitch - 1;  // corner of the window in the source
        const int column = offset % kColumnPitch - 1;
        const int result = tile.column * kTileN;  // first filter of w
#pragma unroll 1
        for (int block = 0; block < kChannelBlocks; ++block) {
#pragma unroll 1
            for (int t = 0; t < kTaps; ++t) {
                if (kTap[t].begins) {
                    mbarrier_wait_parity(&barriers.pixels_empty[own.number], own.parity ^ 1);
                    Mbarrier* const full = &barriers.pixels_full[own.number];
                    mbarrier_arrive_expect_tx(full, kPixelStage);
                    tma_load_im2col(memory + own.number * kPixelStage, x,
                                    block * 64, column, row, image,
                                    kTap[t].column, kTap[t].row, full);
                    own.advance();
                }
                mbarrier_wait_parity(&barriers.filters_empty[next.number], next.parity ^ 1);
                const int down = kTap[t].weight / kFilterColumns, across = kTap[t].weight % kFilterColumns;
                char* const stage = memory + kPixelStages * kPixelStage + next.number * kFilterStage;
                Mbarrier* const full = &barriers.filters_full[next.number];
                mbarrier_arrive_expect_tx(full, kFilterStage);
                tma_load_im2col(stage, w, block * 64, 0, 0, result, across, down, full);
                next.advance();
            }
        }
    }
}

// Address of the result of row m, first channel of the tile's group; nullptr if m is no pixel of the result.
__device__ __forceinline__ Element* target_of(int m, const Tile& tile,
                                              Element* y) {
    return m < kM ? y + (static_cast<size_t>(m) * kGroups + tile.group) * kN : nullptr;
}

// Transposes the 4 x 4 registers of a quad: register i of lane t becomes register t of lane i.
__device__ __forceinline__ void transpose_quad(unsigned (&own)[4]) {
    const bool is_odd = threadIdx.x & 1, is_upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const unsigned received = __shfl_xor_sync(0xffffffffu, is_odd ? own[i] : own[i + 1], 1);
        own[i] = is_odd ? received : own[i];
        own[i + 1] = is_odd ? own[i + 1] : received;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned received = __shfl_xor_sync(0xffffffffu, is_upper ? own[i] : own[i + 2], 2);
        own[i] = is_upper ? received : own[i];
        own[i + 2] = is_upper ? own[i + 2] : received;
    }
}

// Epilogue: stores a warp's accumulators. wgmma leaves two adjacent channels of every eight to a lane; a quad exchanges
// them, so that a lane stores eight adjacent channels of a pixel and a quad whole sectors.
__device__ __forceinline__ void store(const Accumulators& sums, const Tile& tile, int group,
                                      const Element* __restrict__ b, Element* __restrict__ y) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int m = tile.m + 64 * group + warp * 16 + lane / 4;
    const int column = tile.column * kTileN;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Element* const target = target_of(m + 8 * half, tile, y);
#pragma unroll
        for (int first = 0; first < kTileN; first += 32) {
            unsigned pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int own = first / 2 + 4 * i + 2 * half;
                const int channel = min(column + first + 8 * i + lane % 4 * 2, kN - 2);  // beyond kN nothing is stored
                const Element* const biases = b + tile.group * kN + channel;
                pairs[i] = floats_to_half2(relu(sums[own] + load(biases)), relu(sums[own + 1] + load(biases + 1)));
            }
            transpose_quad(pairs);
            const int channel = column + first + lane % 4 * 8;
            if (target != nullptr) {
                *reinterpret_cast<uint4*>(target + channel) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_warpgroup_im2col(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
                 const Element* __restrict__ b, Element* __restrict__ y) {
    extern __shared__ __align__(1024) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    char* const behind_stages = memory + kPixelStages * kPixelStage + kFilterStages * kFilterStage;
    Barriers& barriers = *reinterpret_cast<Barriers*>(behind_stages);
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // warpgroup; warp-uniform
    if (group == kWarpgroups) {
        setmaxnreg_dec<24>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            if (is_elected()) {
                prefetch(x);
                prefetch(w);
                init_barriers(barriers.pixels_full, barriers.pixels_empty, 4 * kWarpgroups);
                init_barriers(barriers.filters_full, barriers.filters_empty, 4 * kWarpgroups);
                fence_proxy_async();
            }
            __syncwarp();
            announce_barriers<128 * kWarpgroups + 32>();
            wait_for_launch_before();
            if (is_elected()) {
                copy_tiles(x, w, memory, barriers);
            }
        }
        return;
    }
    setmaxnreg_inc<160>();
    wait_for_launch_before();  // it may read what this one writes
    await_barriers<128 * kWarpgroups + 32>();
    const bool is_first_lane = threadIdx.x % 32 == 0;
    const SmemDescriptor own_pixels = swizzled_smem_descriptor(memory + group * (64 * kRowBytes));
    const SmemDescriptor all_filters =
        swizzled_smem_descriptor(memory + kPixelStages * kPixelStage);
    PipelineState<kPixelStages> own;  // stages of pixels
    PipelineState<kFilterStages> next;  // stages of weights
    Accumulators sums;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
#pragma unroll
        for (int n = 0; n < kAccumulators; ++n) {
            sums[n] = 0.0f;
        }
        int pixels_read = -1, filters_read = -1;  // stages that pending wgmma may still read
        const auto release_stages = [&] {
            if (is_first_lane && filters_read >= 0) {
                mbarrier_arrive(&barriers.filters_empty[filters_read]);
            }
            if (is_first_lane && pixels_read >= 0) {
                mbarrier_arrive(&barriers.pixels_empty[pixels_read]);
            }
        };
        for (int block = 0; block < kChannelBlocks; ++block) {
#pragma unroll 1
            for (int t = 0; t < kTaps; ++t) {
                if (kTap[t].begins) {
                    mbarrier_wait_parity(&barriers.pixels_full[own.number], own.parity);
                }
                mbarrier_wait_parity(&barriers.filters_full[next.number], next.parity);
                wgmma_fence();
                multiply(sums,
                         behind(own_pixels, own.number * kPixelStage + kRowBytes * kTap[t].shift),
                         behind(all_filters, next.number * kFilterStage));
                wgmma_commit_group();
                wgmma_wait_group<1>();
                release_stages();
                filters_read = next.number;
                pixels_read = kTap[t].ends ? own.number : -1;
                next.advance();
                if (kTap[t].ends) {
                    own.advance();
                }
            }
        }
        wgmma_wait_all(sums);
        release_stages();
        store(sums, tile, group, b, y);
    }
}
