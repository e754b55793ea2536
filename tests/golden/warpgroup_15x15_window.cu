// warpsmith filter2d_warpgroup
// problem: filter2d image=9216x9216 filter=15x15 planes=1 dtype=float32 border=valid
// config:  ahead=0 block_groups=1 block_strips=1 columns=4 min_blocks=1 path=async prefetch=5 rows=419 store=plain
//          weights=argument
//
// Convolution by wgmma.m64nNk8 on tf32. A warpgroup computes a strip of kThreadRows rows by 64 segments of 8 adjacent
// outputs. Row m of matrix A, in registers, has the pixels of segment m in one image row; column 8r + n of matrix B, in
// shared memory, has the weights of filter row r for output n. The products are the contributions of an image row to
// all output rows in progress; they are added to accumulators in registers, which completes the oldest output row.
// Pixels and weights are split into high and low tf32 parts (3xTF32).
// Each warp copies rows by cp.async into its own ring buffer, kPrefetch rows ahead, synchronised by __syncwarp().
// The first kFrameBlocks blocks compute the outputs around the interior, one per thread.

constexpr int kRows = 9216;  // rows of one plane of the image
constexpr int kColumns = 9216;
constexpr int kChannels = 1;  // interleaved elements of a pixel
constexpr int kPitch = 9216;  // elements from one row to the next
constexpr int kFilters = 1;
constexpr int kFilterRows = 15;
constexpr int kFilterColumns = 15;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 9202;
constexpr int kBeforeRows = 0;  // rows of a window above its output pixel
constexpr int kBeforeColumns = 0;  // columns of a window left of it

using Pixel = float;
using Result = float;

constexpr int kDepth = 24;  // K: pixels of a row of matrix A, from a segment's first pixel on
constexpr int kSteps = kDepth / 8;  // wgmma instructions that sum over them
constexpr int kThreadPixels = kDepth / 4;  // pixels of a segment per thread: a quad shares a segment
constexpr int kMatrixRows = kFilterRows;  // rows of weights in matrix B
constexpr int kProducts = 4 * kMatrixRows;  // wgmma accumulators per thread: 2 outputs of 2 segments per row of weights
constexpr int kLast = kFilterRows - 1;  // the row of a window that completes it
constexpr int kGroupColumns = 512;  // outputs of a warpgroup in a row
constexpr int kThreadRows = 419;  // output rows of a strip
constexpr int kPrefetch = 5;  // rows that are copied ahead
constexpr int kCopyVector = 4;  // elements per cp.async
constexpr int kLoadVector = 2;  // elements per load from shared memory
constexpr int kBlockGroups = 1;  // warpgroups of a block in x
constexpr int kBlockStrips = 1;  // warpgroups of a block in y, each with a strip of its own
constexpr int kColumnBlocks = 18;  // blocks across the interior
constexpr int kStripBlocks = 22;  // blocks down the interior
constexpr int kFrameBlocks = 144;  // blocks for the frames of all planes
constexpr int kFirstRow = 0;  // first output row of the interior
constexpr int kInteriorRows = 9202;
constexpr int kFirstColumn = 0;  // first output element of the interior
constexpr int kLead = 0;  // elements loaded left of a segment's windows, so that loads and stores are aligned
constexpr int kLastColumn = 8688;  // first output of the last warpgroup, which may overlap the one before it
constexpr int kInteriorGroups = 18;  // warpgroups across the interior

__device__ constexpr int skew_of(int) { return 0; }  // all rows of the interior begin at kFirstColumn

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
}

// One plane of the image; load() returns one of its elements as float.
struct Plane {
    const Pixel* pixels;
};

__device__ __forceinline__ Plane plane_of(const Pixel* image, int plane) {
    return {image + plane * (kRows * kPitch)};
}

__device__ __forceinline__ float load(const Plane& plane, int row, int element) {
    return to_float(__ldg(plane.pixels + row * kPitch + element));
}

// Border `valid`: no window reaches outside the image.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, row, element);
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kLastColumn + kGroupColumns - kFirstColumn;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // above and below it
constexpr int kFramePixels = 18404;  // outputs of the frame of one plane

// Position of output n of a plane's frame: the rows above and below the interior come first, then the columns left and
// right of it.
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
#pragma unroll kFilterColumns < 8 ? 8 : 4  // rows of taps whose loads are in flight together
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

constexpr int kWarpColumns = kGroupColumns / 4;  // outputs of a warp in a row

__device__ __forceinline__ float sum_of_window(const Plane& plane, const Weights& weights, int f, int row,
                                               int element) {
    float sum = 0.0f;
#pragma unroll 1
    for (int r = 0; r < kFilterRows; ++r) {
#pragma unroll 4
        for (int s = 0; s < kFilterColumns; ++s) {
            const float pixel = pixel_at(plane, row + r - kBeforeRows, element + (s - kBeforeColumns) * kChannels);
            sum = fmaf(tap(weights, f, r, s), pixel, sum);
        }
    }
    return sum;
}

// True if a stored output is finite, and thus unaffected by pixels outside its window.
__device__ __forceinline__ bool is_settled(Result stored) {
    return (__float_as_uint(stored) & 0x7f800000u) != 0x7f800000u;
}

// A matrix product also multiplies pixels outside a window by weights of zero, so a NaN or an infinity there makes the
// sum NaN. If `check` is NaN in some thread, its warp recomputes the outputs of its strip of `rows` rows that are not
// finite, tap by tap. `first` is the offset of the strip's first output in the result.
// Two warps may store and repair the same output; each repairs after its own stores.

__device__ __forceinline__ void repair(const Pixel* __restrict__ image, Result* result, const Weights& weights,
                                       int first, int rows, float check) {
    if (!__any_sync(0xffffffffu, check != 0.0f)) {
        return;
    }
    __syncwarp();  // makes the stores of the warp's other threads visible
    constexpr int kResultPlane = kOutputRows * kResultPitch;
    const Plane plane = plane_of(image, first / kResultPlane);
    const int row = first % kResultPlane / kResultPitch, element = first % kResultPitch;
#pragma unroll 1
    for (int n = threadIdx.x % 32; n < rows * kWarpColumns; n += 32) {
        const int down = n / kWarpColumns, across = n % kWarpColumns;
        Result* output = result + first + down * kResultPitch + across;
        if (!is_settled(*output)) {
            *output = to_result(sum_of_window(plane, weights, 0, row + down, element + across));
        }
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// Makes writes to shared memory visible to wgmma; a barrier of the threads follows.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Matrix descriptor of B, in units of 16 bytes: address, leading and stride offsets between core matrices.
using SmemDescriptorB = unsigned long long;

__device__ __forceinline__ SmemDescriptorB smem_descriptor_b(const float* first) {
    const SmemDescriptorB address = __cvta_generic_to_shared(first);
    constexpr SmemDescriptorB kAcross = 8, kAlong = kAcross * 15;
    return (address & 0x3ffff) >> 4 | kAlong << 16 | kAcross << 32;
}

// Descriptor of the matrix `elements` after `matrix`.
__device__ __forceinline__ SmemDescriptorB behind(SmemDescriptorB matrix, int elements) {
    return matrix + elements / 4;
}

// sums = a * b, or sums += a * b if kAdd: 64x8 by 8x120 TF32 with float32 accumulators, in the register layout of
// wgmma.m64n120k8. The hardware reads the upper 19 bits of a float. Asynchronous: no access to sums between
// wgmma_fence() and wgmma_wait_all().
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&sums)[60], const float (&a)[4], SmemDescriptorB b) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %65, 0; "
        "wgmma.mma_async.sync.aligned.m64n120k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59"
        "}, { %60, %61, %62, %63 }, %64, add, 1, 1; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),
          "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
          "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]),
          "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]),
          "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "l"(b), "n"(kAdd ? 1 : 0));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all wgmma groups. The accumulators are operands, so that the compiler reads them only after the wait.
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[60]) {
    asm volatile(
        "wgmma.wait_group.sync.aligned 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),
          "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
          "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]),
          "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]),
          "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59])
        :
        : "memory");
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// a + b, in program order: a later instruction would need a move to the register that the next row reads.
__device__ __forceinline__ float add_in_order(float a, float b) {
    float sum;
    asm volatile("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
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

// wgmma truncates a float to tf32, its upper 19 bits. This addition makes it round to nearest, to 11 significant bits.
__device__ __forceinline__ float with_tf32_rounding(float value) {
    return __uint_as_float(__float_as_uint(value) + 0x1000u);
}

__device__ __forceinline__ float to_tf32(float value) {
    return __uint_as_float(__float_as_uint(with_tf32_rounding(value)) & 0xffffe000u);
}

// High and low parts of matrix B, in the order of its core matrices.
struct MatrixB {
    float high[kDepth * 8 * kMatrixRows];
    float low[kDepth * 8 * kMatrixRows];
};

// Splits the weights into tf32 parts and writes matrix B to shared memory, all threads of a block together.
__device__ __forceinline__ void split(const Weights& weights, MatrixB& matrix_b) {
    const int thread = threadIdx.y * (128 * kBlockGroups) + threadIdx.x;
    for (int i = thread; i < kDepth * 8 * kMatrixRows; i += 128 * kBlockGroups * kBlockStrips) {
        const int quad_lane = i % 4, column = i / 4 % (8 * kMatrixRows), part = i / (32 * kMatrixRows);
        const int tap_offset = quad_lane * kThreadPixels + part - kLead - column % 8;  // from the output's first tap
        const int s = tap_offset / kChannels;
        const bool is_tap = tap_offset >= 0 && tap_offset % kChannels == 0 && s < kFilterColumns;
        const float value = is_tap ? tap(weights, 0, column / 8, is_tap ? s : 0) : 0.0f;
        matrix_b.high[i] = to_tf32(value);
        const float rest = value - to_tf32(value);
        matrix_b.low[i] = rest == rest ? to_tf32(rest) : rest;  // a NaN weight stays NaN
    }
}

// A thread's pixels of two segments in one image row, in the image's element type.
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
// cp.async predicated by `wanted`, without a branch.
template <int kBytes>
__device__ __forceinline__ void cp_async_if(bool wanted, void* shared, const void* global) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)) : "memory");
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }"
                     ::"r"(target), "l"(global), "r"(static_cast<int>(wanted)), "n"(kBytes) : "memory");
    }
}

__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
#endif

constexpr int kRowPixels = 120 + kDepth;  // pixels of a row that a warp needs
constexpr int kStages = kPrefetch + 1;

// Multistage ring buffer of a strip's rows in shared memory. Each warp fills its own by cp.async, so that __syncwarp()
// is the only barrier.
struct Rows {
    const Pixel* __restrict__ source;  // source of the thread's first copy in the next row
    Pixel* copy_target;                // target of the thread's first copy, in the first stage
    const Pixel* pixels;               // the thread's pixels in the first stage
    int remaining;                     // rows to copy; then the last one again, cheaper than a branch
    int copy_offset, next;             // stage to copy to and stage to read next, as offsets in elements

    __device__ __forceinline__ void copy_row_async() {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < kRowPixels; i += 32 * kCopyVector) {
            const bool is_needed = i + lane * kCopyVector < kRowPixels;
            cp_async_if<kCopyVector * sizeof(Pixel)>(is_needed, copy_target + copy_offset + i, source + i);
        }
        cp_async_commit_group();
        source += --remaining > 0 ? kPitch : 0;
        copy_offset = copy_offset == (kStages - 1) * kRowPixels ? 0 : copy_offset + kRowPixels;
    }

    __device__ __forceinline__ void prologue() {
#pragma unroll
        for (int k = 0; k < kPrefetch; ++k) {
            copy_row_async();
        }
    }

    __device__ __forceinline__ Row read_next() {
        cp_async_wait_group<kPrefetch - 1>();
        __syncwarp();  // the row has arrived for all lanes, and all lanes have read the row before
        const Row row = read(pixels + next);
        next = next == (kStages - 1) * kRowPixels ? 0 : next + kRowPixels;
        return row;
    }
};

// A thread's fragments of matrix A, high and low parts. The terms of a sum may be in any order that both matrices
// share, so a thread's two pixels of an instruction are adjacent.
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
            segments.high[j / 2][j % 2 * 2 + i] = with_tf32_rounding(pixels[j]);
            segments.low[j / 2][j % 2 * 2 + i] = pixels[j] - to_tf32(pixels[j]);
        }
    }
    return segments;
}

// Issues the products of an image row with all rows of weights, the smallest first: tensor cores truncate a sum, and
// the error grows with its magnitude.
__device__ __forceinline__ void multiply(float (&products)[kProducts], const Segments& segments, SmemDescriptorB high,
                                         SmemDescriptorB low) {
    constexpr int kStep = 8 * 8 * kMatrixRows;  // elements of matrix B
    wgmma_fence();
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
    wgmma_commit_group();
}

// Adds the products of an image row to the output rows in progress: the oldest is then complete, and a new one starts.
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
            sums[j - 1][i] = add_in_order(sums[j][i], products[(kLast - j) * 4 + i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sums[kLast - 1][i] = products[i];
    }
}

// Stores two outputs of each segment; `check` is 0 while all outputs are finite, then NaN.
__device__ __forceinline__ void store(Result* __restrict__ target, const float (&outputs)[4], float& check) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        check = fmaf(outputs[i], 0.0f, check);
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        StoreVector* vector = reinterpret_cast<StoreVector*>(target + i / 2 * 64 + i % 2);
        *vector = pack(outputs + i);
    }
}

// Computes a strip of `rows` output rows; `target` is the thread's first output.
__device__ __forceinline__ void slide(Rows source, const Pixel* __restrict__ image, Result* result,
                                      const int* first_outputs, Result* target,
                                      const Weights& weights, const MatrixB& matrix_b, int rows) {
    float check = 0.0f;
    const SmemDescriptorB high = smem_descriptor_b(matrix_b.high), low = smem_descriptor_b(matrix_b.low);
    float sums[kLast][4] = {};  // accumulators of the output rows in progress
    source.prologue();
#pragma unroll 1
    for (int k = -kLast; k < rows; ++k) {
        const Segments segments = segments_of(source.read_next());
        float products[kProducts], complete[4];
        multiply(products, segments, high, low);
        source.copy_row_async();
        wgmma_wait_all(products);
        advance(sums, products, complete);
        if (k >= 0) {
            store(target, complete, check);
            target += kResultPitch;
        }
    }
    repair(image, result, weights, first_outputs[threadIdx.y * (4 * kBlockGroups) + threadIdx.x / 32], rows, check);
}

extern "C" __global__ void __launch_bounds__(128 * kBlockGroups * kBlockStrips, 1)
filter2d_warpgroup(const Pixel* __restrict__ image, Result* __restrict__ result,
                   const __grid_constant__ Weights weights) {
    constexpr int kResultPlane = kOutputRows * kResultPitch;
    // The frame's blocks are the slowest, so they start first and leave no tail at the end of the grid.
    if (blockIdx.x < kFrameBlocks) {
        const int n = (blockIdx.x * kBlockStrips + threadIdx.y) * (128 * kBlockGroups) + threadIdx.x;
        const int plane = n / kFramePixels;
        if (plane < 1) {
            compute_frame(plane_of(image, plane), result + plane * kResultPlane, weights, n % kFramePixels);
        }
        return;
    }
    const int block = blockIdx.x - kFrameBlocks;
    __shared__ __align__(128) MatrixB matrix_b;
    split(weights, matrix_b);
    fence_proxy_async();
    __syncthreads();
    // Broadcast from lane 0, so that the compiler knows the value to be uniform in a warp.
    const int block_group = __shfl_sync(0xffffffffu, threadIdx.y * kBlockGroups + threadIdx.x / 128, 0);
    const int group = block % kColumnBlocks * kBlockGroups + block_group % kBlockGroups;
    const int inside = (block / kColumnBlocks % kStripBlocks * kBlockStrips + block_group / kBlockGroups) * kThreadRows;
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
    __shared__ __align__(16) Pixel rings[kBlockGroups * kBlockStrips * 4][kStages * kRowPixels];
    Pixel* ring = rings[block_group * 4 + warp];
    const Rows source{first + lane * kCopyVector, ring + lane * kCopyVector,
                      ring + lane / 4 * 8 + lane % 4 * kThreadPixels, rows + kLast, 0, 0};
    Result* target = result + plane * kResultPlane + row * kResultPitch + element + lane / 4 * 8 + lane % 4 * 2;
    __shared__ int first_outputs[kBlockGroups * kBlockStrips * 4];  // per warp; in shared memory to save registers
    first_outputs[block_group * 4 + warp] = plane * kResultPlane + row * kResultPitch + element;
    slide(source, image, result, first_outputs, target, weights, matrix_b, rows);
}
