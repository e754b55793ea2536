// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  blocks=132 channels=64 columns=64 filter_stages=4 pixel_stages=2 reach=row warpgroups=3
//
// 64 results x kTileColumns channels a warpgroup, by products of the tensor cores. All images lie on one line of positions,
// so that a tap reads the run of pixels that lies `shift` positions further on. One warp copies pixels and weights;
// barriers hand the stages of shared memory from it to the warpgroups and back.

constexpr int kBlocks = 132;  // of threads, which take tiles in turns
constexpr int kTiles = 542;
constexpr int kWarpgroups = 3;  // 64 positions each
constexpr int kThreads = 128 * kWarpgroups + 128;  // another one copies
constexpr int kTilePositions = 64 * kWarpgroups;
constexpr int kTileColumns = 64;  // channels of the result
constexpr int kTilesAcross = 1;
constexpr int kTilesDown = 542;  // of a phase
constexpr int kSums = kTileColumns / 2;  // of a thread
constexpr int kGroups = 1;
constexpr int kResults = 64;  // channels of the result, in a group
constexpr int kRows = 56;  // of the result
constexpr int kColumns = 56;
constexpr int kRowPitch = 57;  // positions of an image, in rows
constexpr int kColumnPitch = 57;  // and of a row
constexpr int kPositions = 103968;  // of all images
constexpr int kChannelBlocks = 1;
constexpr int kChunks = 8;  // of eight channels, in a block
constexpr int kParts = 2;  // of a number: high and low
constexpr int kTaps = 9;

// Shared memory, in bytes.
constexpr int kPixelChunk = 16 * 194;  // pixels that the taps of a stage read
constexpr int kPixelPart = kChunks * kPixelChunk;
constexpr int kPixelStage = kParts * kPixelPart;
constexpr int kPixelStages = 2;
constexpr int kFilterChunk = 16 * kTileColumns;
constexpr int kFilterPart = kChunks * kFilterChunk;
constexpr int kFilterStage = kParts * kFilterPart;
constexpr int kFilterStages = 4;
constexpr int kStagedColumns = 16;  // of results on their way out
constexpr int kStagedPitch = 64 + 4;  // floats, so that what lanes write lies in banks of its own
constexpr int kAPart = kPixelPart, kBPart = kFilterPart;  // from high parts to low ones
constexpr int kAStep = 2 * kPixelChunk, kBStep = 2 * kFilterChunk;  // from 16 channels to the next ones
constexpr int kSteps = kChunks / 2;

// Global memory, in eight halves.
constexpr size_t kChunkLength = 104182;  // from chunk to chunk
constexpr size_t kPartLength = 833456;  // from high parts to low ones

// A tap: where its run of pixels begins within a stage, its place in a filter, and what it has to do with the stage.
struct Tap {
    int first;  // position of a stage's first pixel, from a tile's first result on
    int shift;  // positions from there to the tap's own pixels
    int weight;
    bool begins, ends;  // the first, and last, tap that reads the stage
};
__constant__ Tap kTap[] = {
    {0, 0, 0, true, false},
    {0, 1, 1, false, false},
    {0, 2, 2, false, true},
    {57, 0, 3, true, false},
    {57, 1, 4, false, false},
    {57, 2, 5, false, true},
    {114, 0, 6, true, false},
    {114, 1, 7, false, false},
    {114, 2, 8, false, true},
};

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
// Holds the threads of a warpgroup until all of them are there; `number` is the warpgroup's.
__device__ __forceinline__ void sync_warpgroup(int number) {
    asm volatile("bar.sync %0, 128;" ::"r"(number + 1) : "memory");
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

// sums = what a stage gives. Small products come first, since tensor cores cut sums off.
__device__ __forceinline__ void multiply(Sums& sums, SmemDescriptor a, SmemDescriptor b) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        const SmemDescriptor high_a = behind(a, j * kAStep), high_b = behind(b, j * kBStep);
        wgmma_f16<false, false, false>(sums, behind(high_a, kAPart), high_b, j > 0);
        wgmma_f16<false, false, false>(sums, high_a, behind(high_b, kBPart), true);
    }
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        wgmma_f16<false, false, false>(sums, behind(a, j * kAStep), behind(b, j * kBStep), true);
    }
}

// A sum times two to a power that may be beyond a float's.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

// 2 to which power scales back a position's results: of its image, and of the weights.
__device__ __forceinline__ int power_of(int position, const int* __restrict__ pixel_powers, int filter_power) {
    const int image = min(position / (kRowPitch * kColumnPitch), 31);  // those behind are not stored
    return -__ldg(pixel_powers + image) - filter_power;
}

// The ReLU of a NaN is a NaN, as in PyTorch; fmaxf would make it 0.
__device__ __forceinline__ float finished(float sum) { return sum < 0.0f ? 0.0f : sum; }

struct Tile {
    int column, position, group;
};

__device__ __forceinline__ Tile tile_of(int i) {
    Tile tile;
    tile.column = i % kTilesAcross;  // fastest: these tiles read the same pixels
    i /= kTilesAcross;
    tile.position = i % kTilesDown * kTilePositions;
    tile.group = i / kTilesDown;
    return tile;
}

struct Barriers {
    Mbarrier pixels_full[kPixelStages], pixels_free[kPixelStages];
    Mbarrier filters_full[kFilterStages], filters_free[kFilterStages];
};

// What the copying warp does.
__device__ __forceinline__ void copy_tiles(const uint4* __restrict__ pixels, const uint4* __restrict__ filters,
                                           char* memory, Barriers& barriers) {
    const int lane = threadIdx.x % 32;
    Stage<kPixelStages> own;
    Stage<kFilterStages> next;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        for (int block = 0; block < kChannelBlocks; ++block) {
            const size_t chunk = (tile.group * kChannelBlocks + block) * kChunks;
            size_t source = (tile.group * kTilesAcross + tile.column) * kChannelBlocks + block;
            source *= kTaps * (kFilterStage / 16);
#pragma unroll 1
            for (int t = 0; t < kTaps; ++t) {
                if (kTap[t].begins) {
                    mbarrier_wait_parity(&barriers.pixels_free[own.number], own.parity ^ 1);
                    if (lane == 0) {
                        mbarrier_arrive_expect_tx(&barriers.pixels_full[own.number], kPixelStage);
                    }
                    __syncwarp();
                    if (lane < kParts * kChunks) {
                        const size_t first = (chunk + lane % kChunks) * kChunkLength + tile.position + kTap[t].first;
                        bulk_load(memory + own.number * kPixelStage + lane * kPixelChunk,
                                     pixels + first + lane / kChunks * kPartLength, kPixelChunk,
                                     &barriers.pixels_full[own.number]);
                    }
                    own.advance();
                }
                mbarrier_wait_parity(&barriers.filters_free[next.number], next.parity ^ 1);
                if (lane == 0) {
                    mbarrier_arrive_expect_tx(&barriers.filters_full[next.number], kFilterStage);
                    bulk_load(memory + kPixelStages * kPixelStage + next.number * kFilterStage,
                                 filters + source + kTap[t].weight * (kFilterStage / 16), kFilterStage,
                                 &barriers.filters_full[next.number]);
                }
                next.advance();
            }
        }
    }
}

// Where a position's results are: that of the first channel.
__device__ __forceinline__ float* target_of(int position, const Tile& tile, float* y) {
    const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
    const int row = place / kColumnPitch, column = place % kColumnPitch;
    if (position >= kPositions || row >= kRows || column >= kColumns) {
        return nullptr;  // between images
    }
    const size_t first = (static_cast<size_t>(image) * kGroups + tile.group) * kResults;
    return y + (first * kRows + row) * kColumns + column;
}

// Stores a warpgroup's sums, kStagedColumns channels at a time by way of shared memory: neighbouring lanes then store
// neighbouring positions, a line of memory rather than a sector of four.
__device__ __forceinline__ void store(const Sums& sums, const Tile& tile, int group, const int* __restrict__ pixel_powers, int filter_power, float* staged, const float* __restrict__ b, float* __restrict__ y) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int first_position = tile.position + 64 * group + lane;
    float* const targets[2] = {target_of(first_position, tile, y), target_of(first_position + 32, tile, y)};
    float* const own = staged + lane % 4 * 2 * kStagedPitch + warp * 16 + lane / 4;
    const int own_position = tile.position + 64 * group + warp * 16 + lane / 4;
    const int powers[2] = {power_of(own_position, pixel_powers, filter_power), power_of(own_position + 8, pixel_powers, filter_power)};
#pragma unroll
    for (int first = 0; first < kTileColumns; first += kStagedColumns) {
        sync_warpgroup(group);  // what was staged before has been stored
#pragma unroll
        for (int i = 0; i < kStagedColumns / 2; ++i) {
            own[(i / 4 * 8 + i % 2) * kStagedPitch + i % 4 / 2 * 8] = scaled(sums[first / 2 + i], powers[i % 4 / 2]);
        }
        sync_warpgroup(group);
#pragma unroll
        for (int i = 0; i < kStagedColumns / 4; ++i) {
            const int column = tile.column * kTileColumns + first + 4 * i + warp;
            const float bias = __ldg(b + tile.group * kResults + column);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (targets[half] != nullptr) {
                    const float sum = staged[(4 * i + warp) * kStagedPitch + lane + 32 * half];
                    targets[half][column * (kRows * kColumns)] = finished(sum + bias);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_warpgroup(const uint4* __restrict__ pixels, const uint4* __restrict__ filters,
                 const int* __restrict__ pixel_powers, const int* __restrict__ filter_power,
                 const float* __restrict__ b, float* __restrict__ y) {
    extern __shared__ __align__(128) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    char* const behind_stages = memory + kPixelStages * kPixelStage + kFilterStages * kFilterStage;
    float* const staged = reinterpret_cast<float*>(behind_stages);
    Barriers& barriers = *reinterpret_cast<Barriers*>(staged + kWarpgroups * kStagedColumns * kStagedPitch);
    if (threadIdx.x == 0) {
        begin_barriers(barriers.pixels_full, barriers.pixels_free, 4 * kWarpgroups);
        begin_barriers(barriers.filters_full, barriers.filters_free, 4 * kWarpgroups);
        fence_proxy_async();
    }
    __syncthreads();
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // so that the compiler sees that it is a warp's
    if (group == kWarpgroups) {
        setmaxnreg_dec<24>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            copy_tiles(pixels, filters, memory, barriers);
        }
        return;
    }
    setmaxnreg_inc<160>();
    const bool tells = threadIdx.x % 32 == 0;
    const SmemDescriptor own_pixels = smem_descriptor<kPixelChunk, 128>(memory + group * (64 * 16));
    const SmemDescriptor all_filters = smem_descriptor<kFilterChunk, 128>(memory + kPixelStages * kPixelStage);
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
            for (int t = 0; t < kTaps; ++t) {
                if (kTap[t].begins) {
                    mbarrier_wait_parity(&barriers.pixels_full[own.number], own.parity);
                }
                mbarrier_wait_parity(&barriers.filters_full[next.number], next.parity);
                wgmma_fence();
                multiply(sums, behind(own_pixels, own.number * kPixelStage + 16 * kTap[t].shift),
                         behind(all_filters, next.number * kFilterStage));
                wgmma_commit_group();
                wgmma_wait_all(sums);
                if (tells) {
                    mbarrier_arrive(&barriers.filters_free[next.number]);
                    if (kTap[t].ends) {
                        mbarrier_arrive(&barriers.pixels_free[own.number]);
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
        store(totals, tile, group, pixel_powers, *filter_power, staged + group * (kStagedColumns * kStagedPitch), b, y);
    }
}
