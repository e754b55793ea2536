// warpsmith conv2d_warpgroup_gather
// problem: conv2d pass=wgrad input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1
// config:  channel_groups=1 columns=64 splits=32 stages=3 taps=3 terms=128
//
// The gradient of one tap's weights for 64 channels of x and kTileColumns of dy a warpgroup, by products of the tensor
// cores. All images lie on one line of positions, along which products sum: a tap reads the run of x that lies `shift`
// positions further on than that of dy. Four warps make halves; barriers hand stages of shared memory to the others and back.

constexpr int kTaps = 3;  // of a block
constexpr int kChannelGroups = 1;  // of 64 channels of x
constexpr int kWarpgroups = kTaps * kChannelGroups;
constexpr int kThreads = 128 * kWarpgroups + 128;  // another one copies
constexpr int kTileColumns = 64;  // channels of dy
constexpr int kTilesAcross = 1;
constexpr int kTilesDown = 1;  // of the channels of x
constexpr int kTapSets = 3;
constexpr int kGroups = 1;
constexpr int kSums = kTileColumns / 2;  // of a thread
constexpr int kChannels = 64;  // of x, in a group
constexpr int kFilters = 64;  // and so channels of dy
constexpr int kTerms = 128;  // positions of a stage
constexpr int kAllSteps = 813;  // stages that a sum goes through
constexpr int kSplitSteps = 26;  // and each of its parts
constexpr int kParts = 2;  // of a number: high and low

// Shared memory, in bytes.
constexpr int kXChunks = 8;
constexpr int kXRun = 130;  // pixels of a chunk that the taps of a block read
constexpr int kXChunk = 16 * 131;  // from chunk to chunk
constexpr int kAPart = kXChunks * kXChunk;  // from high parts to low ones
constexpr int kDyChunks = kTileColumns / 8;
constexpr int kBPart = 16 * kTerms;
constexpr int kDyChunk = kParts * kBPart;
constexpr int kDyTile = kDyChunks * kDyChunk;
constexpr int kStage = kParts * kAPart + kDyTile;
constexpr int kStages = 3;
constexpr int kAStep = 2 * 128, kBStep = 2 * 128;  // from 16 positions to the next ones
constexpr int kSteps = kTerms / 16;

// Taps of a block.
struct TapSet {
    int first;  // of x, from a position of dy
    int shifts[kTaps];  // from there
    int weights[kTaps];  // places in the filter; -1 where there is no tap
};
__constant__ TapSet kTapSet[kTapSets] = {
    {0, {0, 1, 2}, {0, 1, 2}},
    {57, {0, 1, 2}, {3, 4, 5}},
    {114, {0, 1, 2}, {6, 7, 8}},
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

// Full where each warp that writes has told so, or bytes that were announced have come; free where all that read have.
template <int kStages>
__device__ __forceinline__ void begin_barriers(PhaseBarrier (&full)[kStages], PhaseBarrier (&free)[kStages], int warps,
                                               int writing = 1) {
    for (int stage = 0; stage < kStages; ++stage) {
        begin_barrier(&full[stage], writing);
        begin_barrier(&free[stage], warps);
    }
}

// sums = what a stage gives. Small products come first, since tensor cores cut sums off.
__device__ __forceinline__ void multiply(Sums& sums, Halves a, Halves b) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        const Halves high_a = behind(a, j * kAStep), high_b = behind(b, j * kBStep);
        multiply_halves<false, true, true>(sums, behind(high_a, kAPart), high_b, j > 0);
        multiply_halves<false, true, true>(sums, high_a, behind(high_b, kBPart), true);
    }
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
        multiply_halves<false, true, true>(sums, behind(a, j * kAStep), behind(b, j * kBStep), true);
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

// x as it is, of which warps make halves.
namespace source_x {
constexpr int kThreads = 512;
constexpr int kLargest = 65;
constexpr int kHeadroom = 6;  // powers of two that numbers may lie above the sample

constexpr int kImages = 32;
constexpr int kChannels = 64;  // of a group
constexpr int kRows = 56;
constexpr int kColumns = 56;
constexpr size_t kImageStride = 200704;  // elements of x
constexpr int kChannelStride = 3136;
constexpr int kRowStride = 56;
constexpr int kColumnStride = 1;
constexpr int kRowPitch = 57;  // positions of an image, in rows
constexpr int kColumnPitch = 57;  // and of a row
constexpr int kAbove = 1;  // where the first row is
constexpr int kLeft = 1;
constexpr int kLow = 1048;  // from high parts to low ones

// Eight numbers of 16 bits side by side.
struct __align__(16) Eight {
    unsigned short of[8];
};

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

// The bits of a magnitude, which are in the order of magnitudes; 0 of what is not finite.
__device__ __forceinline__ unsigned magnitude(float number) {
    constexpr unsigned kInfinityBits = 0x7f800000u;
    const unsigned bits = __float_as_uint(fabsf(number));
    return bits < kInfinityBits ? bits : 0u;
}

// 2 to which power brings `largest` to [2^14, 2^15), as far as floats go.
__device__ __forceinline__ int power_of(unsigned largest) {
    return min(14 + 127 - static_cast<int>(largest >> 23), 126);
}

// Remembers the largest number that is beyond 2^15 when it is scaled: halves end at 2^16.
__device__ __forceinline__ void tell_beyond(unsigned most, int power, unsigned* __restrict__ largest) {
    if (static_cast<int>(most >> 23) - 127 + power > 14) {
        atomicMax(&largest[kLargest + 1], most);
    }
}

// The power for the largest number of the sample, of what each block has found, with headroom.
__device__ __forceinline__ int power_for(const unsigned* __restrict__ largest) {
    __shared__ unsigned of_warps[kThreads / 32];
    unsigned most = 0;
    for (int i = threadIdx.x; i < kLargest; i += kThreads) {
        most = max(most, largest[i]);
    }
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = most;
    }
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        most = max(most, of_warps[warp]);
    }
    return power_of(most) - kHeadroom;
}

// Stores the halves of eight numbers that are scaled already: what each half leaves is the low one. An infinity leaves nothing.
__device__ __forceinline__ void store(const float (&numbers)[8], Eight* high, Eight* low) {
    Eight above, below;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        above.of[i] = float_to_half(numbers[i]);
        const float left = numbers[i] - half_to_float(above.of[i]);
        below.of[i] = float_to_half(fabsf(left) <= 16.0f ? left : 0.0f);
    }
    *high = above;
    *low = below;
}

// Lays eight channels of a position into shared memory.
__device__ __forceinline__ void gather(const float* __restrict__ x, int group, int channel, int position,
                                       int power, unsigned* __restrict__ largest, Eight* own) {
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    const int image = position / (kRowPitch * kColumnPitch);
    const int place = position % (kRowPitch * kColumnPitch);
    const int row = (place / kColumnPitch - kAbove);
    const int column = (place % kColumnPitch - kLeft);
    const bool is_pixel = image < kImages && row >= 0 && row < kRows && column >= 0 && column < kColumns;
    const auto* source = x + image * kImageStride + (group * kChannels + channel) * static_cast<size_t>(kChannelStride) +
                         row * kRowStride + column * kColumnStride;
    float numbers[8];
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float number = is_pixel && channel + i < kChannels ? source[i * static_cast<size_t>(kChannelStride)] : 0.0f;
        most = max(most, magnitude(number));
        numbers[i] = number * factor;
    }
    tell_beyond(most, power, largest);
    store(numbers, own, own + kLow);
}
}  // namespace source_x

// dy as it is, of which warps make halves.
namespace source_dy {
constexpr int kThreads = 512;
constexpr int kLargest = 65;
constexpr int kHeadroom = 6;  // powers of two that numbers may lie above the sample

constexpr int kImages = 32;
constexpr int kChannels = 64;  // of a group
constexpr int kRows = 56;
constexpr int kColumns = 56;
constexpr size_t kImageStride = 200704;  // elements of dy
constexpr int kChannelStride = 3136;
constexpr int kRowStride = 56;
constexpr int kColumnStride = 1;
constexpr int kRowPitch = 57;  // positions of an image, in rows
constexpr int kColumnPitch = 57;  // and of a row
constexpr int kAbove = 0;  // where the first row is
constexpr int kLeft = 0;
constexpr int kLow = 128;  // from high parts to low ones

// Eight numbers of 16 bits side by side.
struct __align__(16) Eight {
    unsigned short of[8];
};

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

// The bits of a magnitude, which are in the order of magnitudes; 0 of what is not finite.
__device__ __forceinline__ unsigned magnitude(float number) {
    constexpr unsigned kInfinityBits = 0x7f800000u;
    const unsigned bits = __float_as_uint(fabsf(number));
    return bits < kInfinityBits ? bits : 0u;
}

// 2 to which power brings `largest` to [2^14, 2^15), as far as floats go.
__device__ __forceinline__ int power_of(unsigned largest) {
    return min(14 + 127 - static_cast<int>(largest >> 23), 126);
}

// Remembers the largest number that is beyond 2^15 when it is scaled: halves end at 2^16.
__device__ __forceinline__ void tell_beyond(unsigned most, int power, unsigned* __restrict__ largest) {
    if (static_cast<int>(most >> 23) - 127 + power > 14) {
        atomicMax(&largest[kLargest + 1], most);
    }
}

// The power for the largest number of the sample, of what each block has found, with headroom.
__device__ __forceinline__ int power_for(const unsigned* __restrict__ largest) {
    __shared__ unsigned of_warps[kThreads / 32];
    unsigned most = 0;
    for (int i = threadIdx.x; i < kLargest; i += kThreads) {
        most = max(most, largest[i]);
    }
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = most;
    }
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        most = max(most, of_warps[warp]);
    }
    return power_of(most) - kHeadroom;
}

// Stores the halves of eight numbers that are scaled already: what each half leaves is the low one. An infinity leaves nothing.
__device__ __forceinline__ void store(const float (&numbers)[8], Eight* high, Eight* low) {
    Eight above, below;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        above.of[i] = float_to_half(numbers[i]);
        const float left = numbers[i] - half_to_float(above.of[i]);
        below.of[i] = float_to_half(fabsf(left) <= 16.0f ? left : 0.0f);
    }
    *high = above;
    *low = below;
}

// Lays eight channels of a position into shared memory.
__device__ __forceinline__ void gather(const float* __restrict__ dy, int group, int channel, int position,
                                       int power, unsigned* __restrict__ largest, Eight* own) {
    const float factor = __uint_as_float(static_cast<unsigned>(127 + power) << 23);
    const int image = position / (kRowPitch * kColumnPitch);
    const int place = position % (kRowPitch * kColumnPitch);
    const int row = (place / kColumnPitch - kAbove);
    const int column = (place % kColumnPitch - kLeft);
    const bool is_pixel = image < kImages && row >= 0 && row < kRows && column >= 0 && column < kColumns;
    const auto* source = dy + image * kImageStride + (group * kChannels + channel) * static_cast<size_t>(kChannelStride) +
                         row * kRowStride + column * kColumnStride;
    float numbers[8];
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float number = is_pixel && channel + i < kChannels ? source[i * static_cast<size_t>(kChannelStride)] : 0.0f;
        most = max(most, magnitude(number));
        numbers[i] = number * factor;
    }
    tell_beyond(most, power, largest);
    store(numbers, own, own + kLow);
}
}  // namespace source_dy

// What the warps do that gather both operands.
__device__ __forceinline__ void gather_stages(const float* __restrict__ x, int x_power, unsigned* __restrict__ x_largest,
                                              const float* __restrict__ dy, int dy_power, unsigned* __restrict__ dy_largest,
                                              const Tile& tile, int first_step, int steps, char* memory, Barriers& barriers) {
    const int thread = threadIdx.x - 128 * kWarpgroups;
    const int first = kTapSet[tile.taps].first;
    Stage<kStages> next;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const int position = (first_step + step) * kTerms;
        char* const stage = memory + next.number * kStage;
        wait_for_phase(&barriers.free[next.number], next.parity ^ 1);
#pragma unroll 2
        for (int item = thread; item < kXChunks * kXRun; item += 128) {
            const int chunk = item / kXRun, at = item % kXRun;
            source_x::Eight* const own = reinterpret_cast<source_x::Eight*>(stage) + chunk * (kXChunk / 16) + at;
            source_x::gather(x, tile.group, (tile.row * kXChunks + chunk) * 8, first + position + at, x_power, x_largest, own);
        }
#pragma unroll 2
        for (int item = thread; item < kDyChunks * kTerms; item += 128) {
            const int chunk = item / kTerms, at = item % kTerms;
            source_dy::Eight* const own = reinterpret_cast<source_dy::Eight*>(stage + kParts * kAPart) + chunk * (kDyChunk / 16) + at;
            source_dy::gather(dy, tile.group, (tile.column * kDyChunks + chunk) * 8, position + at, dy_power, dy_largest, own);
        }
        show_to_products();
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            arrive_at(&barriers.full[next.number]);
        }
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
conv2d_warpgroup_gather(const float* __restrict__ x, unsigned* __restrict__ x_largest, const unsigned* __restrict__ x_turn,
                 const float* __restrict__ dy, unsigned* __restrict__ dy_largest, const unsigned* __restrict__ dy_turn,
                 float* __restrict__ parts) {
    const unsigned own_x_turn = *x_turn;  // 1, or the largest number that no sample had
    const unsigned own_dy_turn = *dy_turn;
    if (own_x_turn == 0 && own_dy_turn == 0) {
        return;
    }
    extern __shared__ __align__(128) float4 shared[];
    char* const memory = reinterpret_cast<char*>(shared);
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory + kStages * kStage);
    if (threadIdx.x == 0) {
        begin_barriers(barriers.full, barriers.free, 4 * kWarpgroups, 4);
        show_barriers();
    }
    const int x_power = own_x_turn > 1 ? source_x::power_of(own_x_turn) : source_x::power_for(x_largest);
    const int dy_power = own_dy_turn > 1 ? source_dy::power_of(own_dy_turn) : source_dy::power_for(dy_largest);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        x_largest[source_x::kLargest] = static_cast<unsigned>(x_power);  // for those who add up
        dy_largest[source_dy::kLargest] = static_cast<unsigned>(dy_power);
    }
    __syncthreads();
    const Tile tile = tile_of(blockIdx.x);
    const int first_step = tile.split * kSplitSteps;
    const int steps = min(kSplitSteps, kAllSteps - first_step);
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);  // so that the compiler sees that it is a warp's
    if (group == kWarpgroups) {
        keep_registers<104>();
        gather_stages(x, x_power, x_largest, dy, dy_power, dy_largest, tile, first_step, steps, memory, barriers);
        return;
    }
    take_registers<136>();
    const bool tells = threadIdx.x % 32 == 0;
    const int own_tap = group / kChannelGroups, channel_group = group % kChannelGroups;
    const Halves own_x = halves<128, kXChunk>(memory + channel_group * (8 * kXChunk) + 16 * kTapSet[tile.taps].shifts[own_tap]);
    const Halves all_dy = halves<128, kDyChunk>(memory + kParts * kAPart);
    Stage<kStages> next;
    Sums sums;
    Sums totals;
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
        totals[n] = 0.0f;
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wait_for_phase(&barriers.full[next.number], next.parity);
        begin_products();
        multiply(sums, behind(own_x, next.number * kStage), behind(all_dy, next.number * kStage));
        commit_products();
        finish_products(sums);
        if (tells) {
            arrive_at(&barriers.free[next.number]);
        }
#pragma unroll
        for (int n = 0; n < kSums; ++n) {
            totals[n] += sums[n];  // rounded, where tensor cores cut off
        }
        next.advance();
    }
    const int weight = kTapSet[tile.taps].weights[own_tap];
    if (weight >= 0) {
        store(totals, tile, weight, channel_group, parts);
    }
}
