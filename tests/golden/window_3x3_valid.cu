// warpsmith filter2d_window
// problem: filter2d image=9216x9216 filter=3x3 planes=1 dtype=float32 border=valid
// config:  block_columns=64 block_strips=2 columns=4 load=cached load_vector=4 method=direct min_blocks=0 order=rows path=global prefetch=1 rows=4 store=streaming store_vector=4 tail=whole unroll=4 weights=argument
//
// A window that slides down in registers. Each thread owns kThreadColumns adjacent elements and walks down
// kThreadRows output rows. Every input row is read once and added into the outputs in progress; the output
// that it completes is stored. The outputs around, whose windows need care, are computed one by one.

constexpr int kRows = 9216;  // of one plane of the image
constexpr int kColumns = 9216;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 9216;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 3;
constexpr int kFilterColumns = 3;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 9214;
constexpr int kBeforeRows = 0;  // of a window, above its output pixel
constexpr int kBeforeColumns = 0;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kThreadColumns = 4;  // outputs a thread, across
constexpr int kThreadRows = 4;  // and down
constexpr int kUnroll = 4;  // input rows in one turn of the loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kPrefetch = 1;  // rows that are read ahead
constexpr int kLoadVector = 4;  // elements in one load
constexpr int kStoreVector = 4;  // and in one store
constexpr int kLoads = 2;  // loads that cover a thread's part of a row
constexpr int kPixels = kLoads * kLoadVector;
constexpr int kBlockColumns = 64;  // threads across a block
constexpr int kBlockStrips = 2;  // and down
constexpr int kColumnBlocks = 36;  // blocks across the interior
constexpr int kStripBlocks = 1152;  // and down
constexpr int kFrameBlocks = 288;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 0;  // of the interior
constexpr int kInteriorRows = 9212;
constexpr int kFirstColumn = 0;  // of the interior, in elements, where a row is not skewed
constexpr int kInteriorThreads = 2303;  // across it

// Elements read left of a row's first tap so that loads are aligned.
__device__ constexpr int lead_of(int) { return 0; }

// Elements that a row of outputs is moved right so that stores are aligned, which repeats every 2 rows.
__device__ constexpr int skew_of(int row) { return (0 + row * 2) % 4; }

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

// No window reaches outside the image.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, row, element);
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorThreads * kThreadColumns;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 36852;  // of one plane

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

using Vector = float4;
using StoreVector = float4;
using Sums = float[kFilters][kInProgress][kThreadColumns];

__device__ __forceinline__ void unpack(float4 vector, float* pixels) {
    pixels[0] = vector.x;
    pixels[1] = vector.y;
    pixels[2] = vector.z;
    pixels[3] = vector.w;
}

__device__ __forceinline__ float4 pack(const float* sums) {
    return make_float4(sums[0], sums[1], sums[2], sums[3]);
}

// A thread's part of one row of the image, as it is stored.
struct Row {
    Vector vectors[kLoads];
};

// Straight from global memory; `first` is the first tap of the strip.
struct Rows {
    const Pixel* __restrict__ first;

    __device__ __forceinline__ Row read(int row, int k) const {
        Row part;
        const Vector* vectors = reinterpret_cast<const Vector*>(first + row * kPitch - lead_of(k));
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            part.vectors[i] = __ldg(vectors + i);
        }
        return part;
    }
};

// Stores row j of a turn, for each filter; `target` is where an unskewed row of the first filter would be stored.
__device__ __forceinline__ void store_row(Result* __restrict__ target, const Sums& sums, int j) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
        StoreVector* vectors = reinterpret_cast<StoreVector*>(target + f * (kOutputRows * kResultPitch) + skew_of(j));
#pragma unroll
        for (int i = 0; i < kThreadColumns / kStoreVector; ++i) {
            __stcs(vectors + i, pack(sums[f][j] + i * kStoreVector));
        }
    }
}

template <int kWidth>
__device__ __forceinline__ void add_tap(float (&sums)[kWidth], const float* pixels, float weight) {
#pragma unroll
    for (int c = 0; c < kWidth; ++c) {
        sums[c] = fmaf(weight, pixels[c], sums[c]);
    }
}

// Adds row k of a turn to the outputs in progress, from the oldest to the newest: filter rows `first` to `last` - 1,
// since the others lie outside the strip.
__device__ __forceinline__ void add_row(Sums& sums, const Row& part, const Weights& weights, int k, int first, int last) {
    float pixels[kPixels];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        unpack(part.vectors[i], pixels + i * kLoadVector);
    }

#pragma unroll
    for (int r = kFilterRows - 1; r >= 0; --r) {
        if (r < first || r >= last) {
            continue;
        }
#pragma unroll
        for (int f = 0; f < kFilters; ++f) {
#pragma unroll
            for (int s = 0; s < kFilterColumns; ++s) {
                const float* from = pixels + lead_of(k) + skew_of(k - r) + s * kChannels;
                add_tap(sums[f][k - r], from, tap(weights, f, r, s));
            }
        }
    }
}

// The window moves on by `rows`: what was in progress moves up, and new outputs start from nothing.
__device__ __forceinline__ void advance(Sums& sums, int rows) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
#pragma unroll
        for (int j = 0; j < kInProgress; ++j) {
#pragma unroll
            for (int c = 0; c < kThreadColumns; ++c) {
                sums[f][j][c] = j + rows < kInProgress ? sums[f][j + rows][c] : 0.0f;
            }
        }
    }
}

// Walks down a strip of `rows` output rows, of which `target` is the first.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, const Weights& weights, int rows) {
    constexpr int kLast = kFilterRows - 1;  // a window's last row completes it
    Sums sums = {};
    Row ahead[kPrefetch + 1];
#pragma unroll
    for (int k = 0; k < kPrefetch; ++k) {
        ahead[k] = source.read(k, k);
    }

    // The rows above the first complete window.
#pragma unroll
    for (int k = 0; k < kLast; ++k) {
        ahead[(k + kPrefetch) % (kPrefetch + 1)] = source.read(k + kPrefetch, k + kPrefetch);
        add_row(sums, ahead[(k) % (kPrefetch + 1)], weights, k, 0, k + 1);
    }

    int done = 0;
#pragma unroll 1
    for (; done < rows; done += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (done + u + kPrefetch < rows) {
                ahead[(kLast + u + kPrefetch) % (kPrefetch + 1)] =
                    source.read(kLast + done + u + kPrefetch, kLast + u + kPrefetch);
            }
            add_row(sums, ahead[(kLast + u) % (kPrefetch + 1)], weights, kLast + u, 0, kFilterRows);
            store_row(target + (done + u) * kResultPitch, sums, u);
}
        advance(sums, kUnroll);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips)
filter2d_window(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights) {
    constexpr int kResultPlane = kFilters * kOutputRows * kResultPitch;
    // The frame is the slow part, pixel by pixel: it goes first, so that nobody waits for it at the end.
    if (blockIdx.x < kFrameBlocks) {
        const int n = (blockIdx.x * kBlockStrips + threadIdx.y) * kBlockColumns + threadIdx.x;
        const int plane = n / kFramePixels;
        if (plane < 1) {
            compute_frame(plane_of(image, plane), result + plane * kResultPlane, weights, n % kFramePixels);
        }
        return;
    }
    const int block = blockIdx.x - kFrameBlocks;
    const int first_thread = block % kColumnBlocks * kBlockColumns;
    const int first_row = block / kColumnBlocks % kStripBlocks * (kBlockStrips * kThreadRows);
    const int plane = block / (kColumnBlocks * kStripBlocks);
    const Plane pixels = plane_of(image, plane);
    const int thread = first_thread + threadIdx.x;
    const int inside = first_row + threadIdx.y * kThreadRows;
    if (thread >= kInteriorThreads || inside >= kInteriorRows) {
        return;
    }
    constexpr int rows = kThreadRows;
    const int row = kFirstRow + inside;
    const int element = kFirstColumn + thread * kThreadColumns;
    Result* target = result + plane * kResultPlane + row * kResultPitch + element;
    const Pixel* first = pixels.pixels + (row - kBeforeRows) * kPitch + element - kBeforeColumns * kChannels;
    slide({first}, target, weights, rows);
}
