// warpsmith conv2d_warpgroup_im2col
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=f16 dtype=float16 padding=1x1 layout=nhwc bias=yes relu=yes
// config:  blocks=132 channels=64 columns=64 filter_stages=4 pixel_stages=4 sharing=row warpgroups=3
//
// 64 results x kTileColumns channels a warpgroup, by products of the tensor cores. One warp has the copy engine bring weights,
// and pixels from where they lie, with zeros beyond the images; barriers hand the stages of shared memory from it to the
// warpgroups and back.

constexpr int kBlocks = 132;  // of threads, which take tiles in turns
constexpr int kTiles = 532;
constexpr int kWarpgroups = 3;  // 64 positions each
constexpr int kThreads = 128 * kWarpgroups + 128;  // another one copies
constexpr int kTilePositions = 64 * kWarpgroups;
constexpr int kTileColumns = 64;  // channels of the result
constexpr int kTilesAcross = 1;
constexpr int kTilesDown = 532;  // of a phase
constexpr int kSums = kTileColumns / 2;  // of a thread
constexpr int kGroups = 1;
constexpr int kResults = 64;  // channels of the result, in a group
constexpr int kRows = 56;  // of the result
constexpr int kColumns = 56;
constexpr int kRowPitch = 56;  // positions of an image, in rows
constexpr int kColumnPitch = 57;  // and of a row
constexpr int kPositions = 102144;  // of all images
constexpr int kChannelBlocks = 1;
constexpr int kChunks = 8;  // of eight channels, in a block
constexpr int kTaps = 9;
constexpr int kFilterColumns = 3;
constexpr int kRun = 200;  // pixels that the taps of a stage read, and some more

// Shared memory, in bytes.
constexpr int kLine = 16 * kChunks;  // channels of a pixel, or of a weight
constexpr int kPixelStage = kRun * kLine;
constexpr int kPixelStages = 4;
constexpr int kFilterStage = 64 * kLine;
constexpr int kFilterStages = 4;
constexpr int kAStep = 32, kBStep = 32;  // from 16 channels to the next ones
constexpr int kSteps = kChunks / 2;

// A tap: what a stage of pixels has of the source, its place in a filter, and what it has to do with the stage.
struct Tap {
    int row, column;  // from a position's pixel in the window to the one that a stage has
    int shift;  // positions from there to the tap's own pixels
    int weight;
    bool begins, ends;  // the first, and last, tap that reads the stage
};
__constant__ Tap kTap[] = {
    {0, 0, 0, 0, true, false},
    {0, 0, 1, 1, false, false},
    {0, 0, 2, 2, false, true},
    {1, 0, 0, 3, true, false},
    {1, 0, 1, 4, false, false},
    {1, 0, 2, 5, false, true},
    {2, 0, 0, 6, true, false},
    {2, 0, 1, 7, false, false},
    {2, 0, 2, 8, false, true},
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

// Lines of 128 bytes whose chunks of 16 are exchanged by the bits of their address, as the copy engine writes them from a
// multiple of 1024 bytes on. A line has 64 terms; of turned matrices it has 64 rows or columns, and the next 64 lie
// kFurther bytes behind.
template <int kFurther = 16> __device__ __forceinline__ SmemDescriptor swizzled_smem_descriptor(const void* first) {
    const SmemDescriptor address = __cvta_generic_to_shared(first);
    return (address & 0x3ffff) >> 4 | 1ull << 62 | static_cast<SmemDescriptor>(1024 / 16) << 32 | static_cast<SmemDescriptor>(kFurther / 16) << 16;
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

#ifndef WARPSMITH_ON_HOST
// Waits until no more groups of products than these, the last ones that were committed, are under way.
template <int kGroups> __device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
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

// sums += what a stage gives.
__device__ __forceinline__ void multiply(Sums& sums, SmemDescriptor a, SmemDescriptor b) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        wgmma_f16<false, false, false>(sums, behind(a, j * kAStep), behind(b, j * kBStep), true);
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

// What the copying warp does: one of its lanes, for all. Weights lie as images of filters do: rows and columns are taps.
__device__ __forceinline__ void copy_tiles(const TensorMap& x, const TensorMap& w, char* memory, Barriers& barriers) {
    const int lane = threadIdx.x % 32;
    Stage<kPixelStages> own;
    Stage<kFilterStages> next;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        const int image = tile.position / (kRowPitch * kColumnPitch), place = tile.position % (kRowPitch * kColumnPitch);
        const int row = place / kColumnPitch - 1;  // of the source, in the window
        const int column = place % kColumnPitch - 1;
        const int result = tile.column * kTileColumns;  // filter of w
        for (int block = 0; block < kChannelBlocks; ++block) {
#pragma unroll 1
            for (int t = 0; t < kTaps; ++t) {
                if (kTap[t].begins) {
                    mbarrier_wait_parity(&barriers.pixels_free[own.number], own.parity ^ 1);
                    if (lane == 0) {
                        Mbarrier* const full = &barriers.pixels_full[own.number];
                        mbarrier_arrive_expect_tx(full, kPixelStage);
                        tma_load_im2col(memory + own.number * kPixelStage, x, block * 64, column, row, image,
                                       kTap[t].column, kTap[t].row, full);
                    }
                    __syncwarp();
                    own.advance();
                }
                mbarrier_wait_parity(&barriers.filters_free[next.number], next.parity ^ 1);
                if (lane == 0) {
                    const int down = kTap[t].weight / kFilterColumns, across = kTap[t].weight % kFilterColumns;
                    char* const stage = memory + kPixelStages * kPixelStage + next.number * kFilterStage;
                    Mbarrier* const full = &barriers.filters_full[next.number];
                    mbarrier_arrive_expect_tx(full, kFilterStage);
                    tma_load_im2col(stage, w, block * 64, 0, 0, result, across, down, full);
                }
                __syncwarp();
                next.advance();
            }
        }
    }
}

// Where a position's results are: that of the first channel.
__device__ __forceinline__ Element* target_of(int position, const Tile& tile, Element* y) {
    const int image = position / (kRowPitch * kColumnPitch), place = position % (kRowPitch * kColumnPitch);
    const int row = place / kColumnPitch, column = place % kColumnPitch;
    if (position >= kPositions || row >= kRows || column >= kColumns) {
        return nullptr;  // between images
    }
    const size_t pixel = (static_cast<size_t>(image) * kRows + row) * kColumns + column;
    return y + (pixel * kGroups + tile.group) * kResults;
}

__device__ __forceinline__ void store_pair(Element* target, Element first, Element second) {
    *reinterpret_cast<unsigned*>(target) = first | static_cast<unsigned>(second) << 16;
}

// Stores a warp's sums: four lanes have eight channels of a pixel.
__device__ __forceinline__ void store(const Sums& sums, const Tile& tile, int group, const Element* __restrict__ b, Element* __restrict__ y) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int position = tile.position + 64 * group + warp * 16 + lane / 4;
    const int column = tile.column * kTileColumns + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Element* const target = target_of(position + 8 * half, tile, y);
        if (target == nullptr) {
            continue;
        }
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
            const int own = column + i / 4 * 8;
            if (own < kResults) {
                store_pair(target + own, rounded(finished(sums[i + 2 * half] + load(b + tile.group * kResults + own))), rounded(finished(sums[i + 2 * half + 1] + load(b + tile.group * kResults + own + 1))));
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
            copy_tiles(x, w, memory, barriers);
        }
        return;
    }
    setmaxnreg_inc<160>();
    const bool tells = threadIdx.x % 32 == 0;
    const SmemDescriptor own_pixels = swizzled_smem_descriptor(memory + group * (64 * kLine));
    const SmemDescriptor all_filters = swizzled_smem_descriptor(memory + kPixelStages * kPixelStage);
    Stage<kPixelStages> own;
    Stage<kFilterStages> next;
    Sums sums;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
#pragma unroll
        for (int n = 0; n < kSums; ++n) {
            sums[n] = 0.0f;
        }
        int pixels_read = -1, filters_read = -1;  // stages of products that may still be under way
        const auto tell = [&] {
            if (tells && filters_read >= 0) {
                mbarrier_arrive(&barriers.filters_free[filters_read]);
            }
            if (tells && pixels_read >= 0) {
                mbarrier_arrive(&barriers.pixels_free[pixels_read]);
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
                multiply(sums, behind(own_pixels, own.number * kPixelStage + kLine * kTap[t].shift),
                         behind(all_filters, next.number * kFilterStage));
                wgmma_commit_group();
                wgmma_wait_group<1>();
                tell();
                filters_read = next.number;
                pixels_read = kTap[t].ends ? own.number : -1;
                next.advance();
                if (kTap[t].ends) {
                    own.advance();
                }
            }
        }
        wgmma_wait_all(sums);
        tell();
        store(sums, tile, group, b, y);
    }
}
