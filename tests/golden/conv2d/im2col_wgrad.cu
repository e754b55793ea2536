// warpsmith conv2d_warpgroup_im2col
// problem: conv2d pass=wgrad input=64x512x28x28 weight=512x512x3x3 precision=bf16 dtype=bfloat16 padding=1x1 layout=nhwc
// config:  channel_groups=1 columns=64 splits=2 stages=6 taps=3 terms=128
//
// The gradient of one tap's weights for 64 channels of x and kTileColumns of dy a warpgroup, by products of the tensor
// cores, which sum along the positions of dy. One warp has the copy engine bring pixels from where they lie, with zeros beyond
// the images; barriers hand stages of shared memory to the others and back.

constexpr int kTaps = 3;  // of a block
constexpr int kChannelGroups = 1;  // of 64 channels of x
constexpr int kWarpgroups = kTaps * kChannelGroups;
constexpr int kThreads = 128 * kWarpgroups + 128;  // another one copies
constexpr int kTileColumns = 64;  // channels of dy
constexpr int kTilesAcross = 8;
constexpr int kTilesDown = 8;  // of the channels of x
constexpr int kTapSets = 3;
constexpr int kGroups = 1;
constexpr int kSums = kTileColumns / 2;  // of a thread
constexpr int kChannels = 512;  // of x, in a group
constexpr int kFilters = 512;  // and so channels of dy
constexpr int kRowPitch = 28;  // positions of an image, in rows
constexpr int kColumnPitch = 29;  // and of a row
constexpr int kTerms = 128;  // positions of a stage
constexpr int kAllSteps = 406;  // stages that a sum goes through
constexpr int kSplitSteps = 203;  // and each of its parts

// Shared memory, in bytes.
constexpr int kLine = 128;  // 64 channels of a pixel
constexpr int kXRun = 136;  // pixels that the taps of a block read, and some more
constexpr int kXTile = kLine * kXRun;  // of 64 channels
constexpr int kDyTile = kLine * kTerms;
constexpr int kDyTiles = 1;
constexpr int kAllX = kChannelGroups * kXTile;
constexpr int kStage = kAllX + kDyTiles * kDyTile;
constexpr int kStages = 6;
constexpr int kAStep = 16 * kLine, kBStep = 16 * kLine;  // from 16 positions to the next ones
constexpr int kSteps = kTerms / 16;

// Taps of a block.
struct TapSet {
    int row, column;  // from a position's pixel of x in the window to the one that the first tap reads
    int shifts[kTaps];  // positions from there
    int weights[kTaps];  // places in the filter; -1 where there is no tap
};
__constant__ TapSet kTapSet[kTapSets] = {
    {0, 0, {0, 1, 2}, {0, 1, 2}},
    {1, 0, {0, 1, 2}, {3, 4, 5}},
    {2, 0, {0, 1, 2}, {6, 7, 8}},
};

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

// sums = a * b, or sums += a * b where `add` holds, or -a * b instead: 64x16 by 16x64 bfloats into floats, spread over
// a warpgroup as PTX lays out wgmma.m64n64k16. What lies side by side are terms, or rows of a and columns of b where
// they are turned. It goes on in the background: between begin_products() and finish_products() nothing may touch sums.
template <bool kNegated, bool kTurnedA, bool kTurnedB>
__device__ __forceinline__ void multiply_bfloats(float (&sums)[32], Halves a, Halves b, bool add) {
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
          "n"(kTurnedA ? 1 : 0), "n"(kTurnedB ? 1 : 0));
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
__device__ __forceinline__ void finish_products(float (&sums)[32]) {
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
// Waits until no more groups of products than these, the last ones that were committed, are under way.
template <int kGroups> __device__ __forceinline__ void keep_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
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

// sums += what a stage gives.
__device__ __forceinline__ void multiply(Sums& sums, Halves a, Halves b) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        multiply_bfloats<false, true, true>(sums, behind(a, j * kAStep), behind(b, j * kBStep), true);
    }
}

struct Tile {
    int column, row, group, taps, split;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.taps = i % kTapSets;  // fastest: these blocks read the same pixels
    i /= kTapSets;
    tile.column = i % kTilesAcross;
    i /= kTilesAcross;
    tile.row = i % kTilesDown;
    i /= kTilesDown;
    tile.group = i % kGroups;
    tile.split = i / kGroups;
    return tile;
}

struct Barriers {
    PhaseBarrier full[kStages], free[kStages];
};

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

// What the copying warp does: one of its lanes, for all.
__device__ __forceinline__ void copy_stages(const TensorMap& x, const TensorMap& dy, const Tile& tile, int first_step, int steps,
                                            char* memory, Barriers& barriers) {
    const int lane = threadIdx.x % 32;
    const int x_channel = tile.row * (64 * kChannelGroups), dy_channel = tile.column * kTileColumns;
    Stage<kStages> next;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const int position = (first_step + step) * kTerms;
        const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
        const int row = place / kColumnPitch, column = place % kColumnPitch;
        char* const stage = memory + next.number * kStage;
        PhaseBarrier* const full = &barriers.full[next.number];
        wait_for_phase(&barriers.free[next.number], next.parity ^ 1);
        if (lane == 0) {
            arrive_with_bytes(full, kStage);
#pragma unroll
            for (int i = 0; i < kChannelGroups; ++i) {
                copy_pixels_to(stage + i * kXTile, x, x_channel + 64 * i, column - 1,
                               row - 1, image, kTapSet[tile.taps].column, kTapSet[tile.taps].row, full);
            }
#pragma unroll
            for (int i = 0; i < kDyTiles; ++i) {
                copy_pixels_to(stage + kAllX + i * kDyTile, dy, dy_channel + 64 * i, column, row, image, 0, 0, full);
            }
        }
        __syncwarp();
        next.advance();
    }
}

// Stores a warp's sums: of a split and a tap, channels of x and of dy.
__device__ __forceinline__ void store(const Sums& sums, const Tile& tile, int weight, int channel_group,
                                      float* __restrict__ parts) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int column = tile.column * kTileColumns + lane % 4 * 2;
    const int row = (tile.row * kChannelGroups + channel_group) * 64 + warp * 16 + lane / 4;
    size_t first = static_cast<size_t>(tile.split) * 9 + weight;
    first = (first * kGroups + tile.group) * kChannels;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (row + 8 * half >= kChannels) {
            continue;
        }
        float* target = parts + (first + row + 8 * half) * kFilters + column;
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
            if (column + i / 4 * 8 < kFilters) {
                *reinterpret_cast<float2*>(target + i / 4 * 8) = make_float2(sums[i + 2 * half], sums[i + 2 * half + 1]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_warpgroup_im2col(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy, float* __restrict__ parts) {
    extern __shared__ __align__(1024) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory + kStages * kStage);
    if (threadIdx.x == 0) {
        begin_barriers(barriers.full, barriers.free, 4 * kWarpgroups);
        show_barriers();
    }
    __syncthreads();
    const Tile tile = tile_of(blockIdx.x);
    const int first_step = tile.split * kSplitSteps;
    const int steps = min(kSplitSteps, kAllSteps - first_step);
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // so that the compiler sees that it is a warp's
    if (group == kWarpgroups) {
        keep_registers<24>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            copy_stages(x, dy, tile, first_step, steps, memory, barriers);
        }
        return;
    }
    take_registers<160>();
    const bool tells = threadIdx.x % 32 == 0;
    const int own_tap = group / kChannelGroups, channel_group = group % kChannelGroups;
    const Halves own_x = swizzled_halves(memory + channel_group * kXTile + kLine * kTapSet[tile.taps].shifts[own_tap]);
    const Halves all_dy = swizzled_halves<kDyTile>(memory + kAllX);
    Stage<kStages> next;
    Sums sums;
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
        sums[n] = 0.0f;
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wait_for_phase(&barriers.full[next.number], next.parity);
        begin_products();
        multiply(sums, behind(own_x, next.number * kStage), behind(all_dy, next.number * kStage));
        commit_products();
        keep_products<1>();
        if (tells && step > 0) {
            arrive_at(&barriers.free[next.number == 0 ? kStages - 1 : next.number - 1]);
        }
        next.advance();
    }
    finish_products(sums);
    const int weight = kTapSet[tile.taps].weights[own_tap];
    if (weight >= 0) {
        store(sums, tile, weight, channel_group, parts);
    }
}
