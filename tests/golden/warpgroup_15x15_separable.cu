// warpsmith filter2d_warpgroup
// problem: filter2d image=1080x1920 filter=15x15 planes=1 dtype=float32 border=nearest weights=sha256:6bfb180b7a6910c6
// config:  ahead=1 block_groups=1 block_strips=1 columns=4 frame=apart min_blocks=0 path=async prefetch=11 rows=17 store=plain weights=literal
//
// A row of the image times all rows of the filter at once. A warpgroup owns 64 segments of 8 adjacent outputs. A row of
// matrix A holds pixels of a segment; column 8r + n of matrix B weighs them for output n with row r of the filter. The
// products are added to the outputs in progress, of which one is complete. Both matrices are split into two parts of
// 11 bits, and products of both lesser parts left out. The outputs around the interior are computed one by one.

constexpr int kRows = 1080;  // of one plane of the image
constexpr int kColumns = 1920;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 1920;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 15;
constexpr int kFilterColumns = 15;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 1920;
constexpr int kBeforeRows = 7;  // of a window, above its output pixel
constexpr int kBeforeColumns = 7;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kDepth = 24;  // pixels of a row of matrix A, from a segment's first one on
constexpr int kSteps = kDepth / 8;  // products that sum over them
constexpr int kThreadPixels = kDepth / 4;  // of a segment: four threads share it
constexpr int kMatrixRows = 1;  // rows of weights in matrix B: of the filter's terms
constexpr int kProducts = 4 * kMatrixRows;  // of a thread: 2 outputs of 2 segments for each of them
constexpr int kLast = kFilterRows - 1;  // the row of a window that completes it
constexpr int kGroupColumns = 512;  // outputs of a warpgroup, across
constexpr int kThreadRows = 17;  // and down
constexpr int kPrefetch = 11;  // rows that are read ahead
constexpr int kCopyVector = 4;  // elements that a thread copies at once
constexpr int kLoadVector = 2;  // and that it loads at once
constexpr int kBlockGroups = 1;  // warpgroups across a block
constexpr int kBlockStrips = 1;  // and down
constexpr int kColumnBlocks = 4;  // blocks across the interior
constexpr int kStripBlocks = 63;  // and down
constexpr int kFrameBlocks = 344;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 7;  // of the interior
constexpr int kInteriorRows = 1066;
constexpr int kFirstColumn = 8;  // of the interior, in elements
constexpr int kLead = 1;  // elements read before a segment's windows, so that loads and stores are aligned
constexpr int kLastColumn = 1400;  // where the last warpgroup begins, which may overlap the one before
constexpr int kInteriorGroups = 4;  // across it

__device__ constexpr int skew_of(int) { return 0; }  // rows of outputs all begin at kFirstColumn

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {};  // known when the kernel was generated: see tap()

// Zero taps vanish, since the compiler knows what a constant index finds.
__constant__ constexpr float kTaps[kFilters][kFilterRows][kFilterColumns] = {
    {
        { 1.0f, 14.0f, 91.0f, 364.0f, 1001.0f, 2002.0f, 3003.0f, 3432.0f, 3003.0f, 2002.0f, 1001.0f, 364.0f, 91.0f, 14.0f, 1.0f },
        { 14.0f, 196.0f, 1274.0f, 5096.0f, 14014.0f, 28028.0f, 42042.0f, 48048.0f, 42042.0f, 28028.0f, 14014.0f, 5096.0f, 1274.0f, 196.0f, 14.0f },
        { 91.0f, 1274.0f, 8281.0f, 33124.0f, 91091.0f, 182182.0f, 273273.0f, 312312.0f, 273273.0f, 182182.0f, 91091.0f, 33124.0f, 8281.0f, 1274.0f, 91.0f },
        { 364.0f, 5096.0f, 33124.0f, 132496.0f, 364364.0f, 728728.0f, 1093092.0f, 1249248.0f, 1093092.0f, 728728.0f, 364364.0f, 132496.0f, 33124.0f, 5096.0f, 364.0f },
        { 1001.0f, 14014.0f, 91091.0f, 364364.0f, 1002001.0f, 2004002.0f, 3006003.0f, 3435432.0f, 3006003.0f, 2004002.0f, 1002001.0f, 364364.0f, 91091.0f, 14014.0f, 1001.0f },
        { 2002.0f, 28028.0f, 182182.0f, 728728.0f, 2004002.0f, 4008004.0f, 6012006.0f, 6870864.0f, 6012006.0f, 4008004.0f, 2004002.0f, 728728.0f, 182182.0f, 28028.0f, 2002.0f },
        { 3003.0f, 42042.0f, 273273.0f, 1093092.0f, 3006003.0f, 6012006.0f, 9018009.0f, 10306296.0f, 9018009.0f, 6012006.0f, 3006003.0f, 1093092.0f, 273273.0f, 42042.0f, 3003.0f },
        { 3432.0f, 48048.0f, 312312.0f, 1249248.0f, 3435432.0f, 6870864.0f, 10306296.0f, 11778624.0f, 10306296.0f, 6870864.0f, 3435432.0f, 1249248.0f, 312312.0f, 48048.0f, 3432.0f },
        { 3003.0f, 42042.0f, 273273.0f, 1093092.0f, 3006003.0f, 6012006.0f, 9018009.0f, 10306296.0f, 9018009.0f, 6012006.0f, 3006003.0f, 1093092.0f, 273273.0f, 42042.0f, 3003.0f },
        { 2002.0f, 28028.0f, 182182.0f, 728728.0f, 2004002.0f, 4008004.0f, 6012006.0f, 6870864.0f, 6012006.0f, 4008004.0f, 2004002.0f, 728728.0f, 182182.0f, 28028.0f, 2002.0f },
        { 1001.0f, 14014.0f, 91091.0f, 364364.0f, 1002001.0f, 2004002.0f, 3006003.0f, 3435432.0f, 3006003.0f, 2004002.0f, 1002001.0f, 364364.0f, 91091.0f, 14014.0f, 1001.0f },
        { 364.0f, 5096.0f, 33124.0f, 132496.0f, 364364.0f, 728728.0f, 1093092.0f, 1249248.0f, 1093092.0f, 728728.0f, 364364.0f, 132496.0f, 33124.0f, 5096.0f, 364.0f },
        { 91.0f, 1274.0f, 8281.0f, 33124.0f, 91091.0f, 182182.0f, 273273.0f, 312312.0f, 273273.0f, 182182.0f, 91091.0f, 33124.0f, 8281.0f, 1274.0f, 91.0f },
        { 14.0f, 196.0f, 1274.0f, 5096.0f, 14014.0f, 28028.0f, 42042.0f, 48048.0f, 42042.0f, 28028.0f, 14014.0f, 5096.0f, 1274.0f, 196.0f, 14.0f },
        { 1.0f, 14.0f, 91.0f, 364.0f, 1001.0f, 2002.0f, 3003.0f, 3432.0f, 3003.0f, 2002.0f, 1001.0f, 364.0f, 91.0f, 14.0f, 1.0f },
    },
};

__device__ __forceinline__ float tap(const Weights&, int f, int r, int s) {
    return kTaps[f][r][s];
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

// Where the border takes its pixel from: a a a | a b c d | d d d.
__device__ __forceinline__ int source_index(int i, int size) {
    return min(max(i, 0), size - 1);
}

__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, source_index(row, kRows), source_index(element, kColumns));
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kLastColumn + kGroupColumns - kFirstColumn;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 43936;  // of one plane

// Output n of a plane's frame: first the rows above and below the interior, then what is left and right of it.
__device__ __forceinline__ void locate(int n, int& row, int& element) {
    if (n < kFrameRowPixels) {
        row = n / kRowOutputs;
        element = n - row * kRowOutputs;
        row += row < kFirstRow ? 0 : kInteriorRows;
        return;
    }
    constexpr int kSides = kRowOutputs > kInteriorColumns ? kRowOutputs - kInteriorColumns : 1;
    const int inside = (n - kFrameRowPixels) / kSides;
    element = n - kFrameRowPixels - inside * kSides;
    row = kFirstRow + inside;
    element += element < kFirstColumn + skew_of(inside) ? 0 : kInteriorColumns;
}

__device__ __forceinline__ void compute_frame(const Plane& plane, Result* __restrict__ result, const Weights& weights,
                                              int n) {
    int row, element;
    locate(n, row, element);
#pragma unroll 1
    for (int f = 0; f < kFilters; ++f) {
        float sum = 0.0f;
#pragma unroll kFilterColumns < 8 ? 8 : 4  // so many rows' loads are in flight together
        for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float pixel = pixel_at(plane, row + r - kBeforeRows, element + (s - kBeforeColumns) * kChannels);
                sum = fmaf(tap(weights, f, r, s), pixel, sum);
            }
        }
        result[(f * kOutputRows + row) * kResultPitch + element] = to_result(sum);
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Writes to shared memory become visible to the tensor cores; a barrier follows.
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// What a product needs to know of matrix B, in units of 16 bytes: where it lies, and how far apart core matrices are.
using MatrixB = unsigned long long;

__device__ __forceinline__ MatrixB matrix_b(const float* first) {
    const MatrixB address = __cvta_generic_to_shared(first);
    constexpr MatrixB kAcross = 8, kAlong = kAcross * 1;
    return (address & 0x3ffff) >> 4 | kAlong << 16 | kAcross << 32;
}

// The matrix that lies `elements` behind it.
__device__ __forceinline__ MatrixB behind(MatrixB matrix, int elements) { return matrix + elements / 4; }

// sums = a * b, or sums += a * b: 64x8 by 8x8 tf32 numbers into floats, spread over a warpgroup as PTX lays out
// wgmma.m64n8k8. Of a float it reads the upper 19 bits. It goes on in the background: between begin_products()
// and finish_products() nothing may touch sums.
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&sums)[4], const float (&a)[4], MatrixB b) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %9, 0; "
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3"
        "}, { %4, %5, %6, %7 }, %8, add, 1, 1; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "l"(b), "n"(kAdd ? 1 : 0));
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all of them.
__device__ __forceinline__ void finish_products(float (&sums)[4]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        :
        : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// a * b + c, now: put off, it would take a move to have it in the register where the next row wants it.
__device__ __forceinline__ float multiply_add_now(float a, float b, float c) {
    float sum;
    asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
    return sum;
}
#endif

using Vector = float2;
using StoreVector = float2;

__device__ __forceinline__ void unpack(float2 vector, float* pixels) {
    pixels[0] = vector.x;
    pixels[1] = vector.y;
}

__device__ __forceinline__ float2 pack(const float* sums) {
    return make_float2(sums[0], sums[1]);
}

// A product reads the upper 19 bits of a float. Those of this one are the float's nearest number of 11 bits.
__device__ __forceinline__ float rounding_up(float value) { return __uint_as_float(__float_as_uint(value) + 0x1000u); }

__device__ __forceinline__ float to_tf32(float value) {
    return __uint_as_float(__float_as_uint(rounding_up(value)) & 0xffffe000u);
}

__constant__ constexpr float kRowFactors[kMatrixRows][kFilterColumns] = {
    { 0.000291375291f, 0.00407925408f, 0.0265151515f, 0.106060606f, 0.291666667f, 0.583333333f, 0.875f, 1.0f, 0.875f, 0.583333333f, 0.291666667f, 0.106060606f, 0.0265151515f, 0.00407925408f, 0.000291375291f },
};

// Both parts of matrix B, in the order of its core matrices.
struct Factors {
    float high[kDepth * 8 * kMatrixRows];
    float low[kDepth * 8 * kMatrixRows];
};

// The threads of a block share the work.
__device__ __forceinline__ void split(Factors& factors) {
    const int thread = threadIdx.y * (128 * kBlockGroups) + threadIdx.x;
    for (int i = thread; i < kDepth * 8 * kMatrixRows; i += 128 * kBlockGroups * kBlockStrips) {
        const int holder = i % 4, column = i / 4 % (8 * kMatrixRows), part = i / (32 * kMatrixRows);
        const int away = holder * kThreadPixels + part - kLead - column % 8;  // elements from the output's first tap
        const int s = away / kChannels;
        const bool is_tap = away >= 0 && away % kChannels == 0 && s < kFilterColumns;
        const float value = is_tap ? kRowFactors[column / 8][is_tap ? s : 0] : 0.0f;
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

constexpr int kRowPixels = 120 + kDepth;  // that a warp needs of a row
constexpr int kSlots = kPrefetch + 1;

// A strip's rows, by way of a ring in shared memory that each warp fills for itself: no warp ever waits for another.
struct Rows {
    const Pixel* __restrict__ source;  // what the thread copies of the row that is asked for next
    Pixel* copied;                     // where to, in the first slot
    const Pixel* pixels;               // the thread's pixels there
    int remaining;                     // rows to be asked for; then the last one again, since a branch costs more
    int asked, next;                   // slots, in elements

    __device__ __forceinline__ void request() {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < kRowPixels; i += 32 * kCopyVector) {
            const bool is_needed = i + lane * kCopyVector < kRowPixels;
            copy_async_if<kCopyVector * sizeof(Pixel)>(is_needed, copied + asked + i, source + i);
        }
        copy_async_commit();
        source += --remaining > 0 ? kPitch : 0;
        asked = asked == (kSlots - 1) * kRowPixels ? 0 : asked + kRowPixels;
    }

    __device__ __forceinline__ void begin() {
#pragma unroll
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

// sums = before + factor * products
__device__ __forceinline__ void add(float (&sums)[4], const float (&before)[4], const float* products, float factor) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sums[i] = multiply_add_now(factor, products[i], before[i]);
    }
}

// Adds the products of a row to the outputs in progress, of which the first is then complete, and those that begin
// come in.
__device__ __forceinline__ void advance(float (&sums)[kLast][4], const float (&products)[kProducts],
                                        float (&complete)[4]) {
    constexpr float kNothing[4] = {};
    add(complete, sums[0], products + 0, 3432.0f);
    add(sums[0], sums[1], products + 0, 48048.0f);
    add(sums[1], sums[2], products + 0, 312312.0f);
    add(sums[2], sums[3], products + 0, 1249248.0f);
    add(sums[3], sums[4], products + 0, 3435432.0f);
    add(sums[4], sums[5], products + 0, 6870864.0f);
    add(sums[5], sums[6], products + 0, 10306296.0f);
    add(sums[6], sums[7], products + 0, 11778624.0f);
    add(sums[7], sums[8], products + 0, 10306296.0f);
    add(sums[8], sums[9], products + 0, 6870864.0f);
    add(sums[9], sums[10], products + 0, 3435432.0f);
    add(sums[10], sums[11], products + 0, 1249248.0f);
    add(sums[11], sums[12], products + 0, 312312.0f);
    add(sums[12], sums[13], products + 0, 48048.0f);
    add(sums[13], kNothing, products + 0, 3432.0f);
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
    source.begin();
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
            multiply(products[1 - i], segments_of(next), high, low);
            source.request();
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
filter2d_warpgroup(const Pixel* __restrict__ image, Result* __restrict__ result) {
    const Weights weights{};
    constexpr int kResultPlane = kOutputRows * kResultPitch;
    // The frame is the slow part, pixel by pixel: it goes first, so that nobody waits for it at the end.
    if (blockIdx.x < kFrameBlocks) {
        const int n = (blockIdx.x * kBlockStrips + threadIdx.y) * (128 * kBlockGroups) + threadIdx.x;
        const int plane = n / kFramePixels;
        if (plane < 1) {
            compute_frame(plane_of(image, plane), result + plane * kResultPlane, weights, n % kFramePixels);
        }
        return;
    }
    const int block = blockIdx.x - kFrameBlocks;
    __shared__ __align__(128) Factors factors;
    split(factors);
    show_to_products();
    __syncthreads();
    // From the first thread of a warp, so that the compiler knows that all of them go the same way.
    const int here = __shfl_sync(0xffffffffu, threadIdx.y * kBlockGroups + threadIdx.x / 128, 0);
    const int group = block % kColumnBlocks * kBlockGroups + here % kBlockGroups;
    const int inside = (block / kColumnBlocks % kStripBlocks * kBlockStrips + here / kBlockGroups) * kThreadRows;
    const int plane = block / (kColumnBlocks * kStripBlocks);
    if (group >= kInteriorGroups || inside >= kInteriorRows) {
        return;
    }
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int element = min(kFirstColumn + group * kGroupColumns, kLastColumn) + warp * 128;
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const Pixel* first = plane_of(image, plane).pixels + element - kBeforeColumns * kChannels - kLead +
                         (row - kBeforeRows) * kPitch;
    __shared__ __align__(16) Pixel rings[kBlockGroups * kBlockStrips * 4][kSlots * kRowPixels];
    Pixel* ring = rings[here * 4 + warp];
    const Rows source{first + lane * kCopyVector, ring + lane * kCopyVector,
                      ring + lane / 4 * 8 + lane % 4 * kThreadPixels, rows + kLast, 0, 0};
    Result* target = result + plane * kResultPlane + row * kResultPitch + element + lane / 4 * 8 + lane % 4 * 2;
    slide(source, target, factors, rows);
}
