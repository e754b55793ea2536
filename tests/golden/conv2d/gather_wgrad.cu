// warpsmith conv2d_warpgroup_gather
// problem: conv2d pass=wgrad input=32x256x28x28 weight=256x8x3x3 precision=bf16 dtype=bfloat16 padding=1x1 groups=32 layout=nhwc
// config:  channel_groups=1 columns=16 splits=4 stages=4 taps=3 terms=128
//
// The gradient of one tap's weights for 64 channels of x and kTileColumns of dy a warpgroup, by products of the tensor
// cores, which sum along the positions of dy. Four warps copy pixels from where they lie, with zeros beyond the images; barriers
// hand stages of shared memory to the others and back.

constexpr int kTaps = 3;  // of a block
constexpr int kChannelGroups = 1;  // of 64 channels of x
constexpr int kWarpgroups = kTaps * kChannelGroups;
constexpr int kThreads = 128 * kWarpgroups + 128;  // another one copies
constexpr int kTileColumns = 16;  // channels of dy
constexpr int kTilesAcross = 1;
constexpr int kTilesDown = 1;  // of the channels of x
constexpr int kTapSets = 3;
constexpr int kGroups = 32;
constexpr int kSums = kTileColumns / 2;  // of a thread
constexpr int kChannels = 8;  // of x, in a group
constexpr int kFilters = 8;  // and so channels of dy
constexpr int kCopyingWarps = 4;
constexpr int kRowPitch = 28;  // positions of an image, in rows
constexpr int kColumnPitch = 29;  // and of a row
constexpr int kTerms = 128;  // positions of a stage
constexpr int kAllSteps = 203;  // stages that a sum goes through
constexpr int kSplitSteps = 51;  // and each of its parts
constexpr int kParts = 1;  // of a number: high alone

// Shared memory, in bytes.
constexpr int kXChunks = 8;
constexpr int kXRun = 130;  // pixels that the taps of a block read
constexpr int kXChunk = 16 * 131;  // from chunk to chunk
constexpr int kAPart = kXChunks * kXChunk;  // from high parts to low ones
constexpr int kDyChunks = kTileColumns / 8;
constexpr int kBPart = 16 * 129;
constexpr int kDyChunk = kParts * kBPart;
constexpr int kDyTile = kDyChunks * kDyChunk;
constexpr int kStage = kParts * kAPart + kDyTile;
constexpr int kStages = 4;
constexpr int kAStep = 2 * 128, kBStep = 2 * 128;  // from 16 positions to the next ones
constexpr int kSteps = kTerms / 16;

// Taps of a block.
struct TapSet {
    int row, column;  // of x, that the first position of dy reads for the first tap
    int shifts[kTaps];  // positions from there
    int weights[kTaps];  // places in the filter; -1 where there is no tap
};
__constant__ TapSet kTapSet[kTapSets] = {
    {-1, -1, {0, 1, 2}, {0, 1, 2}},
    {0, -1, {0, 1, 2}, {3, 4, 5}},
    {1, -1, {0, 1, 2}, {6, 7, 8}},
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

// The matrix that lies so many bytes behind it.
__device__ __forceinline__ Halves behind(Halves matrix, int bytes) { return matrix + bytes / 16; }

// sums = a * b, or sums += a * b where `add` holds, or -a * b instead: 64x16 by 16x16 bfloats into floats, spread over
// a warpgroup as PTX lays out wgmma.m64n16k16. What lies side by side are terms, or rows of a and columns of b where
// they are turned. It goes on in the background: between begin_products() and finish_products() nothing may touch sums.
template <bool kNegated, bool kTurnedA, bool kTurnedB>
__device__ __forceinline__ void multiply_bfloats(float (&sums)[8], Halves a, Halves b, bool add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %10, 0; "
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, add, %11, 1, %12, %13; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kNegated ? -1 : 1),
          "n"(kTurnedA ? 1 : 0), "n"(kTurnedB ? 1 : 0));
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
__device__ __forceinline__ void finish_products(float (&sums)[8]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7])
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

// Full where the copies of so many threads are there, or bytes that were announced; free where all other warps have told so.
template <int kStages>
__device__ __forceinline__ void begin_barriers(PhaseBarrier (&full)[kStages], PhaseBarrier (&free)[kStages], int warps,
                                               int copying = 1) {
    for (int stage = 0; stage < kStages; ++stage) {
        begin_barrier(&full[stage], copying);
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
// Copies past the registers where `wanted` holds: zeros, and nothing is read, unless `has_source` does.
template <int kBytes>
__device__ __forceinline__ void copy_async_or_zero(bool wanted, bool has_source, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int read = has_source ? kBytes : 0;
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "r"(read) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3, %4; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes), "r"(read) : "memory");
    }
}
#endif

#ifndef WARPSMITH_ON_HOST
// Arrives when all copies that the thread has begun are there.
__device__ __forceinline__ void arrive_with_copies(PhaseBarrier* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}
#endif

// x where it lies: pixel by pixel, eight channels at a time.
namespace x {
constexpr int kImages = 32;
constexpr int kRows = 28;
constexpr int kColumns = 28;
constexpr int kChunks = 1;  // of eight channels, in a group
constexpr int kPixel = 32;  // from pixel to pixel, in eight channels
}  // namespace x

// dy where it lies: pixel by pixel, eight channels at a time.
namespace dy {
constexpr int kImages = 32;
constexpr int kRows = 28;
constexpr int kColumns = 28;
constexpr int kChunks = 1;  // of eight channels, in a group
constexpr int kPixel = 32;  // from pixel to pixel, in eight channels
}  // namespace dy

// What the copying warps do. Eight lanes copy a line of memory, of which each chunk goes to banks of its own.
__device__ __forceinline__ void copy_stages(const uint4* __restrict__ x, const uint4* __restrict__ dy, const Tile& tile,
                                            int first_step, int steps, char* memory, Barriers& barriers) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int first_row = kTapSet[tile.taps].row, first_column = kTapSet[tile.taps].column;
    const int x_chunk = tile.row * kXChunks + lane % 8, dy_chunk = tile.column * kDyChunks + lane % 8;
    x += tile.group * x::kChunks + x_chunk;
    dy += tile.group * dy::kChunks + dy_chunk;
    Stage<kStages> next;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wait_for_phase(&barriers.free[next.number], next.parity ^ 1);
#pragma unroll 4
        for (int at = 4 * warp + lane / 8; at < kXRun; at += 4 * kCopyingWarps) {
            const int position = (first_step + step) * kTerms + at;
            const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
            const int row = place / kColumnPitch, column = place % kColumnPitch;
            const int x_row = row + first_row, x_column = column + first_column;
            const bool is_x = image < x::kImages && x_row >= 0 && x_row < x::kRows && x_column >= 0 && x_column < x::kColumns;
            const int pixel = is_x ? (image * x::kRows + x_row) * x::kColumns + x_column : 0;
            char* const target = memory + next.number * kStage + lane % 8 * kXChunk + 16 * at;
#pragma unroll
            for (int i = 0; i < kXChunks; i += 8) {
                copy_async_or_zero<16>(true, is_x && x_chunk + i < x::kChunks, target + i * kXChunk,
                                       x + static_cast<size_t>(pixel) * x::kPixel + i);
            }
            if (at < kTerms) {
                const bool is_dy = image < dy::kImages && column < dy::kColumns;
                const int result = is_dy ? (image * dy::kRows + row) * dy::kColumns + column : 0;
                char* const own = memory + next.number * kStage + kAPart + lane % 8 * kDyChunk + 16 * at;
#pragma unroll
                for (int i = 0; i < kDyChunks; i += 8) {
                    copy_async_or_zero<16>(lane % 8 + i < kDyChunks, is_dy && dy_chunk + i < dy::kChunks, own + i * kDyChunk,
                                           dy + static_cast<size_t>(result) * dy::kPixel + i);
                }
            }
        }
        arrive_with_copies(&barriers.full[next.number]);
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
conv2d_warpgroup_gather(const uint4* __restrict__ x, const uint4* __restrict__ dy, float* __restrict__ parts) {
    extern __shared__ __align__(128) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory + kStages * kStage);
    if (threadIdx.x == 0) {
        begin_barriers(barriers.full, barriers.free, 4 * kWarpgroups, 128);
        show_barriers();
    }
    __syncthreads();
    const Tile tile = tile_of(blockIdx.x);
    const int first_step = tile.split * kSplitSteps;
    const int steps = min(kSplitSteps, kAllSteps - first_step);
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // so that the compiler sees that it is a warp's
    if (group == kWarpgroups) {
        keep_registers<56>();
        copy_stages(x, dy, tile, first_step, steps, memory, barriers);
        return;
    }
    take_registers<152>();
    const bool tells = threadIdx.x % 32 == 0;
    const int own_tap = group / kChannelGroups, channel_group = group % kChannelGroups;
    const Halves own_x = halves<128, kXChunk>(memory + channel_group * (8 * kXChunk) + 16 * kTapSet[tile.taps].shifts[own_tap]);
    const Halves all_dy = halves<128, kDyChunk>(memory + kParts * kAPart);
    Stage<kStages> next;
    Sums sums;
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
        sums[n] = 0.0f;
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wait_for_phase(&barriers.full[next.number], next.parity);
        show_to_products();
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
