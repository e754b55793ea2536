// warpsmith filter2d_warpgroup
// problem: filter2d image=128x128 filter=7x7 planes=100 dtype=float32 border=constant cval=0.0
// config:  ahead=1 block_groups=1 block_strips=1 columns=4 frame=loads min_blocks=0 path=async prefetch=11 rows=26 store=plain weights=argument
//
// A row of the image times all rows of the filter at once. A warpgroup owns 64 segments of 8 adjacent outputs. A row of
// matrix A holds pixels of a segment; column 8r + n of matrix B weighs them for output n with row r of the filter. The
// products are added to the outputs in progress, of which one is complete. Both matrices are split into two parts of
// 11 bits, and products of both lesser parts left out. What lies outside the image is made as rows are loaded.

constexpr int kRows = 128;  // of one plane of the image
constexpr int kColumns = 128;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 128;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 7;
constexpr int kFilterColumns = 7;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 128;
constexpr int kBeforeRows = 3;  // of a window, above its output pixel
constexpr int kBeforeColumns = 3;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kDepth = 16;  // pixels of a row of matrix A, from a segment's first one on
constexpr int kSteps = kDepth / 8;  // products that sum over them
constexpr int kThreadPixels = kDepth / 4;  // of a segment: four threads share it
constexpr int kMatrixRows = kFilterRows;  // rows of weights in matrix B
constexpr int kProducts = 4 * kMatrixRows;  // of a thread: 2 outputs of 2 segments for each of them
constexpr int kLast = kFilterRows - 1;  // the row of a window that completes it
constexpr int kThreadRows = 26;  // and down
constexpr int kPrefetch = 11;  // rows that are read ahead
constexpr int kCopyVector = 4;  // elements that a thread copies at once
constexpr int kLoadVector = 4;  // and that it loads at once
constexpr int kBlockGroups = 1;  // warpgroups of a block
constexpr int kBlockStrips = 1;  // threads of a block lie in one line
constexpr int kWarpColumns = 128;  // outputs of a warp, across
constexpr int kWarpsAcross = 1;  // the result; the last one may compute some of its neighbour's again
constexpr int kStrips = 5;  // down the result, and the last one so as well
constexpr int kWarps = 500;  // of all planes
constexpr int kLead = 1;  // elements read before a segment's windows, so that loads and stores are aligned

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image, and one of its elements as float.
struct Plane {
    const Pixel* pixels;
};

__device__ __forceinline__ Plane plane_of(const Pixel* image, int plane) {
    return {image + plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return to_float(__ldg(plane.pixels + row * kPitch + element));
}

// k k k | a b c d | k k k
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    const bool inside = row >= 0 && row < kRows && element >= 0 && element < kColumns * kChannels;
    return inside ? load(plane, row, element) : 0.0f;
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Writes to shared memory become visible to the tensor cores; a barrier follows.
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// What a product needs to know of matrix B, in units of 16 bytes: where it lies, and how far apart core matrices are.
using MatrixB = unsigned long long;

__device__ __forceinline__ MatrixB matrix_b(const float* first) {
    const MatrixB address = __cvta_generic_to_shared(first);
    constexpr MatrixB kAcross = 8, kAlong = kAcross * 7;
    return (address & 0x3ffff) >> 4 | kAlong << 16 | kAcross << 32;
}

// The matrix that lies `elements` behind it.
__device__ __forceinline__ MatrixB behind(MatrixB matrix, int elements) { return matrix + elements / 4; }

// sums = a * b, or sums += a * b: 64x8 by 8x56 tf32 numbers into floats, spread over a warpgroup as PTX lays out
// wgmma.m64n56k8. Of a float it reads the upper 19 bits. It goes on in the background: between begin_products()
// and finish_products() nothing may touch sums.
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&sums)[28], const float (&a)[4], MatrixB b) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %33, 0; "
        "wgmma.mma_async.sync.aligned.m64n56k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27"
        "}, { %28, %29, %30, %31 }, %32, add, 1, 1; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "l"(b), "n"(kAdd ? 1 : 0));
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
__device__ __forceinline__ void finish_products(float (&sums)[28]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27])
        :
        : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// a + b, now: put off, it would take a move to have it in the register where the next row wants it.
__device__ __forceinline__ float add_now(float a, float b) {
    float sum;
    asm volatile("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
    return sum;
}

// What a product was, before another one takes its register.
__device__ __forceinline__ float taken_now(float product) {
    float taken;
    asm volatile("mov.f32 %0, %1;" : "=f"(taken) : "f"(product));
    return taken;
}
#endif

using Vector = float4;
using StoreVector = float2;

__device__ __forceinline__ void unpack(float4 vector, float* pixels) {
    pixels[0] = vector.x;
    pixels[1] = vector.y;
    pixels[2] = vector.z;
    pixels[3] = vector.w;
}

__device__ __forceinline__ float2 pack(const float* sums) {
    return make_float2(sums[0], sums[1]);
}

// A product reads the upper 19 bits of a float. Those of this one are the float's nearest number of 11 bits.
__device__ __forceinline__ float rounding_up(float value) { return __uint_as_float(__float_as_uint(value) + 0x1000u); }

__device__ __forceinline__ float to_tf32(float value) {
    return __uint_as_float(__float_as_uint(rounding_up(value)) & 0xffffe000u);
}

// Both parts of matrix B, in the order of its core matrices.
struct Factors {
    float high[kDepth * 8 * kMatrixRows];
    float low[kDepth * 8 * kMatrixRows];
};

// The threads of a block share the work.
__device__ __forceinline__ void split(const Weights& weights, Factors& factors) {
    const int thread = threadIdx.y * (128 * kBlockGroups) + threadIdx.x;
    for (int i = thread; i < kDepth * 8 * kMatrixRows; i += 128 * kBlockGroups * kBlockStrips) {
        const int holder = i % 4, column = i / 4 % (8 * kMatrixRows), part = i / (32 * kMatrixRows);
        const int away = holder * kThreadPixels + part - kLead - column % 8;  // elements from the output's first tap
        const int s = away / kChannels;
        const bool is_tap = away >= 0 && away % kChannels == 0 && s < kFilterColumns;
        const float value = is_tap ? tap(weights, 0, column / 8, is_tap ? s : 0) : 0.0f;
        factors.high[i] = to_tf32(value);
        const float rest = value - to_tf32(value);
        factors.low[i] = rest == rest ? to_tf32(rest) : rest;  // where a weight is not a number, results are none either
    }
}

// A thread's pixels of two segments in one row of the image, as they are stored.
struct Row {
    Vector vectors[2][kThreadPixels / kLoadVector];
};

__device__ __forceinline__ Row read(const Pixel* __restrict__ source) {
    Row row;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadPixels / kLoadVector; ++j) {
            row.vectors[i][j] = reinterpret_cast<const Vector*>(source + i * 64)[j];
        }
    }
    return row;
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Copies past the registers where `wanted` holds, without a branch; the thread goes on at once.
template <int kBytes>
__device__ __forceinline__ void copy_async_if(bool wanted, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes) : "memory");
    }
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Copies where `wanted` holds: zeros, and nothing is read, unless `has_source` does.
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

constexpr int kRowPixels = 120 + kDepth;  // that a warp needs of a row
constexpr int kSlots = kPrefetch + 1;
constexpr int kRowElements = kColumns * kChannels;
constexpr float kOutside = 0.0f;
constexpr int kSingles = (2 * (kDepth - 8) + 31) / 32;  // elements of a row that a thread copies by themselves

// A strip's rows, by way of a ring in shared memory that each warp fills for itself: no warp ever waits for another.
// kWarpColumns elements of a row are copied by vectors, but for those left of the image. These, and the elements behind,
// are copied one by one, since they may come from anywhere.
struct Rows {
    const Pixel* __restrict__ image;
    Pixel* copied;            // where the thread's first vector of a row goes to, in the first slot
    const Pixel* pixels;      // the thread's pixels there
    Pixel* places[kSingles];  // where its single elements go to
    int singles[kSingles];    // where they come from in row 0, as elements of the image; negative: from nowhere
    int vector;               // where the thread's first vector lies in row 0
    bool is_inner;            // whether that is in the image
    int row, last;            // to be asked for next; none after the last one, which is asked for again
    int asked, next;          // slots, in elements

    // `first` is the element that each row begins with, and `row` the strip's first one, of `rows`.
    __device__ __forceinline__ Rows(const Pixel* image, int plane, Pixel* ring, int first, int row, int rows)
        : image(image), row(row), last(row + rows - 1), asked(0), next(0) {
        const int lane = threadIdx.x % 32, origin = plane * (kRows * kPitch), outside = max(0, -first);
        copied = ring + lane * kCopyVector;
        pixels = ring + lane / 4 * 8 + lane % 4 * kThreadPixels;
        vector = origin + first + lane * kCopyVector;
        is_inner = lane * kCopyVector >= outside;
#pragma unroll
        for (int i = 0; i < kSingles; ++i) {
            const int n = i * 32 + lane, place = n < outside ? n : n - outside + kWarpColumns;
            const int element = first + place;
            places[i] = ring + place;
            const bool is_copied = element >= 0 && element < kRowElements && place < kRowPixels;
            singles[i] = is_copied ? origin + element : -1;
            for (int slot = 0; slot < kSlots && !is_copied && place < kRowPixels; ++slot) {
                places[i][slot * kRowPixels] = kOutside;  // in all rows, and so it stays
            }
        }
    }

    __device__ __forceinline__ void request() {
        const bool is_row = row >= 0 && row < kRows;
        const int source = row * kPitch;
#pragma unroll
        for (int i = 0; i < kWarpColumns; i += 32 * kCopyVector) {
            const bool wanted = (i > 0 || is_inner);
            const Pixel* from = image + (source + vector) + i;
            copy_async_or_zero<kCopyVector * sizeof(Pixel)>(wanted, is_row, copied + asked + i, from);
        }
#pragma unroll
        for (int i = 0; i < kSingles; ++i) {
            const bool wanted = (singles[i] >= 0);
            copy_async_or_zero<sizeof(Pixel)>(wanted, is_row, places[i] + asked, image + (source + singles[i]));
        }
        copy_async_commit();
        row = min(row + 1, last);
        asked = asked == (kSlots - 1) * kRowPixels ? 0 : asked + kRowPixels;
    }

    __device__ __forceinline__ void begin() {
#pragma unroll 1  // written out, all rows' addresses would take more registers than the walk
        for (int k = 0; k < kPrefetch; ++k) {
            request();
        }
    }

    __device__ __forceinline__ Row read_next() {
        copy_async_wait<kPrefetch - 1>();
        __syncwarp();  // the whole warp has its part of this row, and is done with the row before
        const Row row = read(pixels + next);
        next = next == (kSlots - 1) * kRowPixels ? 0 : next + kRowPixels;
        return row;
    }
};

// A thread's part of matrix A for each product, and what that leaves of the pixels. The order of the
// pixels that are summed over is free, as long as both matrices agree on it: a thread's two of a product are adjacent.
struct Segments {
    float high[kSteps][4];
    float low[kSteps][4];
};

__device__ __forceinline__ Segments segments_of(const Row& row) {
    Segments segments;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float pixels[kThreadPixels];
#pragma unroll
        for (int j = 0; j < kThreadPixels / kLoadVector; ++j) {
            unpack(row.vectors[i][j], pixels + j * kLoadVector);
        }
#pragma unroll
        for (int j = 0; j < kThreadPixels; ++j) {
            segments.high[j / 2][j % 2 * 2 + i] = rounding_up(pixels[j]);
            segments.low[j / 2][j % 2 * 2 + i] = pixels[j] - to_tf32(pixels[j]);
        }
    }
    return segments;
}

// Starts the products of a row of the image with each row of weights, the lesser ones first: the tensor cores round
// towards zero, by more the larger a sum is.
__device__ __forceinline__ void multiply(float (&products)[kProducts], const Segments& segments, MatrixB high,
                                         MatrixB low) {
    constexpr int kStep = 8 * 8 * kMatrixRows;  // elements of matrix B
    begin_products();
    multiply<false>(products, segments.high[0], low);
#pragma unroll
    for (int i = 1; i < kSteps; ++i) {
        multiply<true>(products, segments.high[i], behind(low, i * kStep));
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
        multiply<true>(products, segments.low[i], behind(high, i * kStep));
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
        multiply<true>(products, segments.high[i], behind(high, i * kStep));
    }
    commit_products();
}

// Adds the products of a row to the outputs in progress, of which the first is then complete, and those that begin
// come in.
__device__ __forceinline__ void advance(float (&sums)[kLast][4], const float (&products)[kProducts],
                                        float (&complete)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        complete[i] = sums[0][i] + products[kLast * 4 + i];
    }
#pragma unroll
    for (int j = 1; j < kLast; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums[j - 1][i] = add_now(sums[j][i], products[(kLast - j) * 4 + i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sums[kLast - 1][i] = taken_now(products[i]);
    }
}

// Stores two outputs of each segment.
__device__ __forceinline__ void store(Result* __restrict__ target, const float (&outputs)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        StoreVector* vector = reinterpret_cast<StoreVector*>(target + i / 2 * 64 + i % 2);
        *vector = pack(outputs + i);
    }
}

// Walks down a strip of `rows` output rows. `target` is the thread's first output.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, const Factors& factors, int rows) {
    const MatrixB high = matrix_b(factors.high), low = matrix_b(factors.low);
    float sums[kLast][4] = {};  // of the outputs in progress
    // While the products of a row are added, those of the next one are under way. Beyond the last row they are not used.
    float products[2][kProducts], complete[4];
    multiply(products[0], segments_of(source.read_next()), high, low);
    source.request();
#pragma unroll 1
    for (int k = -kLast; k < rows; k += 2) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const Row next = source.read_next();
            finish_products(products[i]);
            source.request();  // behind the products, ptxas would need a fourth more registers (9x9: 182 instead of 140)
            multiply(products[1 - i], segments_of(next), high, low);
            advance(sums, products[i], complete);
            if (k + i >= 0 && k + i < rows) {
                store(target, complete);
                target += kResultPitch;
            }
        }
    }
    finish_products(products[0]);
}

extern "C" __global__ void __launch_bounds__(128 * kBlockGroups * kBlockStrips)
filter2d_warpgroup(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    constexpr int kResultPlane = kOutputRows * kResultPitch;
    __shared__ __align__(128) Factors factors;
    // From the first thread of a warp, so that the compiler knows that all of them go the same way.
    const int here = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const int group = blockIdx.x * kBlockGroups + here;
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int place = min(group * 4 + warp, kWarps - 1);  // a warpgroup's last warps may have no work of their own
    const int element = min(place % kWarpsAcross * kWarpColumns, kOutputColumns * kChannels - kWarpColumns);
    const int row = min(place / kWarpsAcross % kStrips * kThreadRows, kOutputRows - kThreadRows);
    const int plane = place / (kWarpsAcross * kStrips);
    __shared__ __align__(16) Pixel rings[kBlockGroups * 4][kSlots * kRowPixels];
    Rows source(image, plane, rings[here * 4 + warp], element - kBeforeColumns * kChannels - kLead, row - kBeforeRows,
                kThreadRows + kLast);
    source.begin();  // while the weights are split
    split(weights, factors);
    show_to_products();
    __syncthreads();
    if (group * 4 >= kWarps) {
        return;
    }
    const int start = plane * kResultPlane + row * kResultPitch + element;
    Result* target = result + start + lane / 4 * 8 + lane % 4 * 2;
    slide(source, target, factors, kThreadRows);
}
