// warpsmith conv2d_warpgroup_gather
// problem: conv2d pass=dgrad input=32x64x56x56 weight=128x64x3x3 precision=ieee dtype=float16 stride=2x2 padding=1x1 layout=nhwc
// config:  blocks=132 channels=64 columns=64 filter_stages=4 pixel_stages=4 sharing=row warpgroups=3
//
// 64 results x kTileColumns channels a warpgroup, by products of the tensor cores. One warp copies weights, and three copy pixels
// from where they lie, with zeros beyond the images; barriers hand the stages of shared memory from them to the warpgroups
// and back.

constexpr int kBlocks = 131;  // of threads, which take tiles in turns
constexpr int kTiles = 544;
constexpr int kWarpgroups = 3;  // 64 positions each
constexpr int kThreads = 128 * kWarpgroups + 128;  // another one copies
constexpr int kTilePositions = 64 * kWarpgroups;
constexpr int kTileColumns = 64;  // channels of the result
constexpr int kTilesAcross = 1;
constexpr int kTilesDown = 136;  // of a phase
constexpr int kSums = kTileColumns / 2;  // of a thread
constexpr int kGroups = 1;
constexpr int kResults = 64;  // channels of the result, in a group
constexpr int kRows = 56;  // of the result
constexpr int kColumns = 56;
constexpr int kRowPitch = 28;  // positions of an image, in rows
constexpr int kColumnPitch = 29;  // and of a row
constexpr int kPositions = 25984;  // of all images
constexpr int kChannelBlocks = 2;
constexpr int kChunks = 8;  // of eight channels, in a block
constexpr int kParts = 1;  // of a number: high alone
constexpr int kTaps = 9;
constexpr int kPhases = 4;  // of the result, with taps of their own
constexpr int kPhaseColumns = 2;
constexpr int kPhaseRows = 2;
constexpr int kCopyingWarps = 3;  // of pixels
constexpr int kRun = 193;  // pixels that the taps of a stage read

// Shared memory, in bytes.
constexpr int kPixelChunk = 16 * 193;
constexpr int kPixelPart = kChunks * kPixelChunk;
constexpr int kPixelStage = kParts * kPixelPart;
constexpr int kPixelStages = 4;
constexpr int kFilterChunk = 16 * kTileColumns;
constexpr int kFilterPart = kChunks * kFilterChunk;
constexpr int kFilterStage = kParts * kFilterPart;
constexpr int kFilterStages = 4;
constexpr int kAStep = 2 * kPixelChunk, kBStep = 2 * kFilterChunk;  // from 16 channels to the next ones
constexpr int kSteps = kChunks / 2;

// A tap: what the first result of an image reads of the source, its place in a filter, and what it has to do with a stage.
struct Tap {
    int row, column;  // of the source, the column of the stage's first pixel
    int shift;  // positions from there to the tap's own pixels
    int weight;
    bool begins, ends;  // the first, and last, tap that reads the stage
};
__constant__ Tap kTap[] = {
    {0, 0, 0, 4, true, true},
    {0, 0, 0, 5, true, false},
    {0, 0, 1, 3, false, true},
    {0, 0, 0, 7, true, true},
    {1, 0, 0, 1, true, true},
    {0, 0, 0, 8, true, false},
    {0, 0, 1, 6, false, true},
    {1, 0, 0, 2, true, false},
    {1, 0, 1, 0, false, true},
};
__constant__ int kFirstTap[kPhases + 1] = {0, 1, 3, 5, 9};

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

// sums = a * b, or sums += a * b where `add` holds, or -a * b instead: 64x16 by 16x64 halves into floats, spread over
// a warpgroup as PTX lays out wgmma.m64n64k16. What lies side by side are terms, or rows of a and columns of b where
// they are turned. It goes on in the background: between begin_products() and finish_products() nothing may touch sums.
template <bool kNegated, bool kTurnedA, bool kTurnedB>
__device__ __forceinline__ void multiply_halves(float (&sums)[32], Halves a, Halves b, bool add) {
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

// sums = what a stage gives.
__device__ __forceinline__ void multiply(Sums& sums, Halves a, Halves b) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        multiply_halves<false, false, false>(sums, behind(a, j * kAStep), behind(b, j * kBStep), j > 0);
    }
}

using Element = unsigned short;  // the bits of a float16

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

__device__ __forceinline__ float load(const Element* from) { return half_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_half(value); }

struct Tile {
    int column, position, group, phase;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.column = i % kTilesAcross;  // fastest: these tiles read the same pixels
    i /= kTilesAcross;
    tile.phase = i % kPhases;  // and these write the same lines of memory
    i /= kPhases;
    tile.position = i % kTilesDown * kTilePositions;
    tile.group = i / kTilesDown;
    return tile;
}

struct Barriers {
    PhaseBarrier pixels_full[kPixelStages], pixels_free[kPixelStages];
    PhaseBarrier filters_full[kFilterStages], filters_free[kFilterStages];
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

// dy where it lies: pixel by pixel, eight channels at a time.
namespace source {
constexpr int kImages = 32;
constexpr int kRows = 28;
constexpr int kColumns = 28;
constexpr int kPixel = 16;  // from pixel to pixel, in eight channels
}  // namespace source

// What the warp does that copies weights.
__device__ __forceinline__ void copy_filters(const uint4* __restrict__ filters, char* memory, Barriers& barriers) {
    const int lane = threadIdx.x % 32;
    Stage<kFilterStages> next;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        for (int block = 0; block < kChannelBlocks; ++block) {
            size_t source = (tile.group * kTilesAcross + tile.column) * kChannelBlocks + block;
            source *= kTaps * (kFilterStage / 16);
#pragma unroll 1
            for (int t = kFirstTap[tile.phase]; t < kFirstTap[tile.phase + 1]; ++t) {
                wait_for_phase(&barriers.filters_free[next.number], next.parity ^ 1);
                if (lane == 0) {
                    arrive_with_bytes(&barriers.filters_full[next.number], kFilterStage);
                    copy_bulk_to(memory + kPixelStages * kPixelStage + next.number * kFilterStage,
                                 filters + source + kTap[t].weight * (kFilterStage / 16), kFilterStage,
                                 &barriers.filters_full[next.number]);
                }
                next.advance();
            }
        }
    }
}

// Where the source has what a position reads if no tap leads further on: eight channels, and the row and column.
struct __align__(16) Place {
    int eight, row, column;
};

// What the other ones do, which copy pixels. Eight lanes copy a line of memory, of which each chunk goes to banks of its own.
// The places of a tile's positions are found once, by those who copy them.
__device__ __forceinline__ void copy_pixels(const uint4* __restrict__ dy, char* memory, Place* __restrict__ places,
                                            Barriers& barriers) {
    constexpr int kPixels = 32 / kChunks;  // of a warp's copy
    constexpr int kStep = kPixels * kCopyingWarps, kAtOnce = 4;  // positions whose places are looked up at once
    const int lane = threadIdx.x % 32, chunk = lane % kChunks;
    const int first = kPixels * (threadIdx.x / 32 % 4 - 1) + lane / kChunks;
    dy += chunk;
    Stage<kPixelStages> own;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        __syncwarp();
        for (int at = first; at < kRun; at += kStep) {
            const int position = tile.position + at;
            const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
            const int row = place / kColumnPitch, column = place % kColumnPitch;
            const int eight = ((image * source::kRows + row) * source::kColumns + column) * source::kPixel;
            places[at] = {eight, image < source::kImages ? row : -(1 << 30), column};
        }
        __syncwarp();
        for (int block = 0; block < kChannelBlocks; ++block) {
#pragma unroll 1
            for (int t = kFirstTap[tile.phase]; t < kFirstTap[tile.phase + 1]; ++t) {
                if (!kTap[t].begins) {
                    continue;
                }
                const int row = kTap[t].row, column = kTap[t].column;
                const int further = (row * source::kColumns + column) * source::kPixel + block * kChunks;
                char* const stage = memory + own.number * kPixelStage + chunk * kPixelChunk;
                wait_for_phase(&barriers.pixels_free[own.number], own.parity ^ 1);
#pragma unroll 1
                for (int begin = first; begin < kRun; begin += kStep * kAtOnce) {
                    const uint4* from[kAtOnce];
                    bool is_pixel[kAtOnce];
#pragma unroll
                    for (int n = 0; n < kAtOnce; ++n) {
                        const Place place = places[begin + n * kStep < kRun ? begin + n * kStep : first];
                        is_pixel[n] = static_cast<unsigned>(place.row + row) < source::kRows &&
                                      static_cast<unsigned>(place.column + column) < source::kColumns;
                        from[n] = dy + (place.eight + further);
                    }
#pragma unroll
                    for (int n = 0; n < kAtOnce; ++n) {
                        const int at = begin + n * kStep;
                        copy_async_or_zero<16>(at < kRun, is_pixel[n], stage + 16 * at, from[n]);
                    }
                }
                arrive_with_copies(&barriers.pixels_full[own.number]);
                own.advance();
            }
        }
    }
}

// Where a position's results are: that of the first channel.
__device__ __forceinline__ Element* target_of(int position, const Tile& tile, Element* dx) {
    const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
    const int row = place / kColumnPitch * kPhaseRows + tile.phase / kPhaseColumns;
    const int column = place % kColumnPitch * kPhaseColumns + tile.phase % kPhaseColumns;
    if (position >= kPositions || row >= kRows || column >= kColumns) {
        return nullptr;  // between images
    }
    const size_t pixel = (static_cast<size_t>(image) * kRows + row) * kColumns + column;
    return dx + (pixel * kGroups + tile.group) * kResults;
}

__device__ __forceinline__ void store_pair(Element* target, Element first, Element second) {
    *reinterpret_cast<unsigned*>(target) = first | static_cast<unsigned>(second) << 16;
}

// Stores a warp's sums: four lanes have eight channels of a pixel.
__device__ __forceinline__ void store(const Sums& sums, const Tile& tile, int group, Element* __restrict__ dx) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int position = tile.position + 64 * group + warp * 16 + lane / 4;
    const int column = tile.column * kTileColumns + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Element* const target = target_of(position + 8 * half, tile, dx);
        if (target == nullptr) {
            continue;
        }
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
            const int own = column + i / 4 * 8;
            if (own < kResults) {
                store_pair(target + own, rounded(sums[i + 2 * half]), rounded(sums[i + 2 * half + 1]));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_warpgroup_gather(const uint4* __restrict__ dy, const uint4* __restrict__ filters,
                 Element* __restrict__ dx) {
    extern __shared__ __align__(128) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    char* const behind_stages = memory + kPixelStages * kPixelStage + kFilterStages * kFilterStage;
    Barriers& barriers = *reinterpret_cast<Barriers*>(behind_stages);
    if (threadIdx.x == 0) {
        begin_barriers(barriers.pixels_full, barriers.pixels_free, 4 * kWarpgroups, 96);
        begin_barriers(barriers.filters_full, barriers.filters_free, 4 * kWarpgroups);
        show_barriers();
    }
    __syncthreads();
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // so that the compiler sees that it is a warp's
    if (group == kWarpgroups) {
        keep_registers<56>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            copy_filters(filters, memory, barriers);
        } else {
            copy_pixels(dy, memory, reinterpret_cast<Place*>(&barriers + 1), barriers);
        }
        return;
    }
    take_registers<152>();
    const bool tells = threadIdx.x % 32 == 0;
    const Halves own_pixels = halves<kPixelChunk, 128>(memory + group * (64 * 16));
    const Halves all_filters = halves<kFilterChunk, 128>(memory + kPixelStages * kPixelStage);
    Stage<kPixelStages> own;
    Stage<kFilterStages> next;
    Sums sums;
    Sums totals;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
#pragma unroll
        for (int n = 0; n < kSums; ++n) {
            totals[n] = 0.0f;
        }
        for (int block = 0; block < kChannelBlocks; ++block) {
#pragma unroll 1
            for (int t = kFirstTap[tile.phase]; t < kFirstTap[tile.phase + 1]; ++t) {
                if (kTap[t].begins) {
                    wait_for_phase(&barriers.pixels_full[own.number], own.parity);
                    show_to_products();
                }
                wait_for_phase(&barriers.filters_full[next.number], next.parity);
                begin_products();
                multiply(sums, behind(own_pixels, own.number * kPixelStage + 16 * kTap[t].shift),
                         behind(all_filters, next.number * kFilterStage));
                commit_products();
                finish_products(sums);
                if (tells) {
                    arrive_at(&barriers.filters_free[next.number]);
                    if (kTap[t].ends) {
                        arrive_at(&barriers.pixels_free[own.number]);
                    }
                }
#pragma unroll
                for (int n = 0; n < kSums; ++n) {
                    totals[n] += sums[n];  // rounded, where tensor cores cut off
                }
                next.advance();
                if (kTap[t].ends) {
                    own.advance();
                }
            }
        }
        store(totals, tile, group, dx);
    }
}
