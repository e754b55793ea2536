// warpsmith conv2d_warpgroup
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  blocks=132 channels=64 columns=64 filter_stages=4 pixel_stages=2 reach=row warpgroups=3
//
// Convolution as an implicit GEMM by wgmma: M counts pixels of the result, N its channels, K taps and channels.
// Persistent blocks; a block computes a kTileM x kTileN tile, a consumer warpgroup 64 x kTileN of it. The packed
// operand has the pixels of all images on one line, m = (image * kRowPitch + row) * kColumnPitch + column, with zeros
// between images: a tap reads pixel m + shift for every m. One producer warp loads spans of pixels (A), each for all
// taps that read it, and tiles of weights (B) by bulk copies. Full and empty mbarriers pass the stages between producer
// and consumers.

constexpr int kBlocks = 132;  // persistent blocks
constexpr int kTiles = 542;
constexpr int kWarpgroups = 3;  // consumers, 64 rows of the tile each
constexpr int kThreads = 128 * kWarpgroups + 128;  // consumer warpgroups, and one with the producer warp
constexpr int kTileM = 64 * kWarpgroups;
constexpr int kTileN = 64;
constexpr int kTilesN = 1;
constexpr int kTilesM = 542;  // tiles along M, per phase
constexpr int kAccumulators = kTileN / 2;  // per thread
constexpr int kGroups = 1;
constexpr int kN = 64;  // channels of the result per group
constexpr int kRows = 56;  // rows of the result
constexpr int kColumns = 56;
constexpr int kRowPitch = 57;  // rows per image, rows between images included
constexpr int kColumnPitch = 57;  // pixels per row, pixels between rows included
constexpr int kM = 103968;  // pixels of all images, those between images included
constexpr int kChannelBlocks = 1;
constexpr int kVectors = 8;  // channel vectors (8 channels) per channel block
constexpr int kParts = 2;  // 16-bit parts per number: high and low
constexpr int kTaps = 9;

// Shared memory, in bytes.
constexpr int kPixelPitch = 16 * 194;  // a channel vector of all pixels of a stage
constexpr int kPixelPart = kVectors * kPixelPitch;
constexpr int kPixelStage = kParts * kPixelPart;
constexpr int kPixelStages = 2;
constexpr int kFilterPitch = 16 * kTileN;
constexpr int kFilterPart = kVectors * kFilterPitch;
constexpr int kFilterStage = kParts * kFilterPart;
constexpr int kFilterStages = 4;
constexpr int kStagingN = 16;  // columns of the epilogue staging tile
constexpr int kStagingPitch = 64 + 4;  // floats; padded against bank conflicts
constexpr int kAPart = kPixelPart, kBPart = kFilterPart;  // from high parts to low parts
constexpr int kAStep = 2 * kPixelPitch, kBStep = 2 * kFilterPitch;  // from one k16 step to the next
constexpr int kSteps = kVectors / 2;

// Global memory, in channel vectors (uint4).
constexpr size_t kVectorStride = 104182;  // from channel vector to channel vector
constexpr size_t kPartStride = 833456;  // from high parts to low parts

// A tap in the order of the mainloop. Consecutive taps may read the same stage of pixels.
struct Tap {
    int first;  // first pixel of the stage, relative to the tile's first m, planes one after the other
    int shift;  // pixels from the stage's first pixel to the tap's first one
    int weight;  // place in the filter
    bool begins, ends;  // whether it is the first, or last, tap that reads the stage
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
// Synchronises the 128 threads of warpgroup `number` on a named barrier; barrier 0 is that of __syncthreads().
__device__ __forceinline__ void sync_warpgroup(int number) {
    asm volatile("bar.sync %0, 128;" ::"r"(number + 1) : "memory");
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

// sums = the product of a stage. Small products first: tensor cores truncate sums.
__device__ __forceinline__ void multiply(Accumulators& sums, SmemDescriptor a, SmemDescriptor b) {
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

// sum * 2^power; the power may lie beyond the range of a float, so it is applied in two factors.
__device__ __forceinline__ float scaled(float sum, int power) {
    const int first = power / 2;
    return sum * __uint_as_float(static_cast<unsigned>(127 + first) << 23) *
           __uint_as_float(static_cast<unsigned>(127 + power - first) << 23);
}

// Exponent of the power of two that scales the results of row m back: that of its image and that of the weights.
__device__ __forceinline__ int power_of(int m, const int* __restrict__ pixel_powers, int filter_power) {
    const int image = min(m / (kRowPitch * kColumnPitch), 31);  // rows from kM on are not stored
    return -__ldg(pixel_powers + image) - filter_power;
}

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

// The producer warp. A stage of pixels is loaded when its first tap comes: one bulk copy per lane, channel vector and
// part. A stage of weights is one bulk copy per tap.
__device__ __forceinline__ void copy_tiles(const uint4* __restrict__ pixels, const uint4* __restrict__ filters,
                                           char* memory, Barriers& barriers) {
    const int lane = threadIdx.x % 32;
    PipelineState<kPixelStages> own;
    PipelineState<kFilterStages> next;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
        for (int block = 0; block < kChannelBlocks; ++block) {
            const size_t vector = (tile.group * kChannelBlocks + block) * kVectors;
            size_t source = (tile.group * kTilesN + tile.column) * kChannelBlocks + block;
            source *= kTaps * (kFilterStage / 16);
#pragma unroll 1
            for (int t = 0; t < kTaps; ++t) {
                if (kTap[t].begins) {
                    mbarrier_wait_parity(&barriers.pixels_empty[own.number], own.parity ^ 1);
                    if (lane == 0) {
                        mbarrier_arrive_expect_tx(&barriers.pixels_full[own.number], kPixelStage);
                    }
                    __syncwarp();
                    if (lane < kParts * kVectors) {
                        const size_t first = (vector + lane % kVectors) * kVectorStride + tile.m + kTap[t].first;
                        bulk_load(memory + own.number * kPixelStage + lane * kPixelPitch,
                                  pixels + first + lane / kVectors * kPartStride, kPixelPitch,
                                  &barriers.pixels_full[own.number]);
                    }
                    own.advance();
                }
                mbarrier_wait_parity(&barriers.filters_empty[next.number], next.parity ^ 1);
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

// Address of the result of row m, first channel of the tile's group; nullptr if m is no pixel of the result.
__device__ __forceinline__ float* target_of(int m, const Tile& tile,
                                              float* y) {
    const int image = m / (kRowPitch * kColumnPitch), offset = m % (kRowPitch * kColumnPitch);
    const int row = offset / kColumnPitch, column = offset % kColumnPitch;
    if (m >= kM || row >= kRows || column >= kColumns) {
        return nullptr;  // between rows or images
    }
    const size_t first = (static_cast<size_t>(image) * kGroups + tile.group) * kN;
    return y + (first * kRows + row) * kColumns + column;
}

// Epilogue: stores a warpgroup's accumulators through the staging tile, kStagingN channels at a time. Adjacent lanes
// then store adjacent pixels: a warp writes runs of 32 pixels instead of 8.
__device__ __forceinline__ void store(const Accumulators& sums, const Tile& tile, int group,
                                      const int* __restrict__ pixel_powers, int filter_power,
                                      float* staging, const float* __restrict__ b, float* __restrict__ y) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int first_m = tile.m + 64 * group + lane;
    float* const targets[2] = {target_of(first_m, tile, y),
                               target_of(first_m + 32, tile, y)};
    float* const own = staging + lane % 4 * 2 * kStagingPitch + warp * 16 + lane / 4;
    const int own_m = tile.m + 64 * group + warp * 16 + lane / 4;
    const int powers[2] = {power_of(own_m, pixel_powers, filter_power),
                           power_of(own_m + 8, pixel_powers, filter_power)};
#pragma unroll
    for (int first = 0; first < kTileN; first += kStagingN) {
        sync_warpgroup(group);  // the previous channels have been stored
#pragma unroll
        for (int i = 0; i < kStagingN / 2; ++i) {
            own[(i / 4 * 8 + i % 2) * kStagingPitch + i % 4 / 2 * 8] = scaled(sums[first / 2 + i], powers[i % 4 / 2]);
        }
        sync_warpgroup(group);
#pragma unroll
        for (int i = 0; i < kStagingN / 4; ++i) {
            const int column = tile.column * kTileN + first + 4 * i + warp;
            const float bias = __ldg(b + tile.group * kN + column);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (targets[half] != nullptr) {
                    const float sum = staging[(4 * i + warp) * kStagingPitch + lane + 32 * half];
                    targets[half][column * (kRows * kColumns)] = relu(sum + bias);
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
    float* const staging = reinterpret_cast<float*>(behind_stages);
    Barriers& barriers = *reinterpret_cast<Barriers*>(staging + kWarpgroups * kStagingN * kStagingPitch);
    if (threadIdx.x == 0) {
        init_barriers(barriers.pixels_full, barriers.pixels_empty, 4 * kWarpgroups);
        init_barriers(barriers.filters_full, barriers.filters_empty, 4 * kWarpgroups);
        fence_proxy_async();
    }
    __syncthreads();
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // warpgroup; warp-uniform
    if (group == kWarpgroups) {
        setmaxnreg_dec<24>();
        if (threadIdx.x < 128 * kWarpgroups + 32) {
            copy_tiles(pixels, filters, memory, barriers);
        }
        return;
    }
    setmaxnreg_inc<160>();
    const bool is_first_lane = threadIdx.x % 32 == 0;
    const SmemDescriptor own_pixels = smem_descriptor<kPixelPitch, 128>(memory + group * (64 * 16));
    const SmemDescriptor all_filters = smem_descriptor<kFilterPitch, 128>(memory + kPixelStages * kPixelStage);
    PipelineState<kPixelStages> own;  // stages of pixels
    PipelineState<kFilterStages> next;  // stages of weights
    Accumulators sums;
    Accumulators totals;
    for (int i = blockIdx.x; i < kTiles; i += kBlocks) {
        const Tile tile = tile_of(i);
#pragma unroll
        for (int n = 0; n < kAccumulators; ++n) {
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
                multiply(sums,
                         behind(own_pixels, own.number * kPixelStage + 16 * kTap[t].shift),
                         behind(all_filters, next.number * kFilterStage));
                wgmma_commit_group();
                wgmma_wait_all(sums);
                if (is_first_lane) {
                    mbarrier_arrive(&barriers.filters_empty[next.number]);
                    if (kTap[t].ends) {
                        mbarrier_arrive(&barriers.pixels_empty[own.number]);
                    }
                }
#pragma unroll
                for (int n = 0; n < kAccumulators; ++n) {
                    totals[n] += sums[n];  // rounds, where tensor cores truncate
                }
                next.advance();
                if (kTap[t].ends) {
                    own.advance();
                }
            }
        }
        store(totals, tile, group, pixel_powers, *filter_power, staging + group * (kStagingN * kStagingPitch), b, y);
    }
}
