// warpsmith filter2d_window
// problem: filter2d image=480x644 filter=2x7 planes=1 dtype=float32 border=valid accuracy=normwise weights=sha256:bf9bb7b732db8325
// config:  block_columns=64 block_strips=2 columns=2 load=cached load_vector=2 method=winograd min_blocks=0 order=rows path=global prefetch=0 rows=24 store=plain store_vector=2 tail=whole unroll=1 weights=literal
//
// A window that slides down in registers. Each thread owns kThreadColumns adjacent elements and walks down
// kThreadRows output rows. Every input row is read once and added into the outputs in progress; the output
// that it completes is stored. The outputs around, whose windows need care, are computed one by one.

constexpr int kRows = 480;  // of one plane of the image
constexpr int kColumns = 644;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 644;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 2;
constexpr int kFilterColumns = 7;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 638;
constexpr int kBeforeRows = 0;  // of a window, above its output pixel
constexpr int kBeforeColumns = 0;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kThreadColumns = 2;  // outputs a thread, across
constexpr int kThreadRows = 24;  // and down
constexpr int kUnroll = 1;  // input rows in one turn of the loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kPairs = kThreadColumns / 2;  // of adjacent outputs, which are computed together
constexpr int kLoadVector = 2;  // elements in one load
constexpr int kStoreVector = 2;  // and in one store
constexpr int kLoads = 4;  // loads that cover a thread's part of a row
constexpr int kPixels = kLoads * kLoadVector;
constexpr int kBlockColumns = 64;  // threads across a block
constexpr int kBlockStrips = 2;  // and down
constexpr int kColumnBlocks = 5;  // blocks across the interior
constexpr int kStripBlocks = 10;  // and down
constexpr int kFrameBlocks = 0;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 0;  // of the interior
constexpr int kInteriorRows = 479;
constexpr int kFirstColumn = 0;  // of the interior, in elements, where a row is not skewed
constexpr int kInteriorThreads = 319;  // across it

// Elements read left of a row's first tap so that loads are aligned.
__device__ constexpr int lead_of(int) { return 0; }

// Elements that a row of outputs is moved right so that stores are aligned.
__device__ constexpr int skew_of(int) { return 0; }

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {};  // known when the kernel was generated: see tap()

// Zero taps vanish, since the compiler knows what a constant index finds.
__constant__ constexpr float kTaps[kFilters][kFilterRows][kFilterColumns] = {
    {
        { 1.0f, 6.0f, 15.0f, 20.0f, 15.0f, 6.0f, 1.0f },
        { 6.0f, 36.0f, 90.0f, 120.0f, 90.0f, 36.0f, 6.0f },
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

// No window reaches outside the image.
__device__ __forceinline__ float pixel_at(const Plane& plane, int row, int element) {
    return load(plane, row, element);
}

constexpr int kRowOutputs = kOutputColumns * kChannels;
constexpr int kInteriorColumns = kInteriorThreads * kThreadColumns;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 0;  // of one plane

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

static_assert(kFramePixels == 0, "the interior is all there is");

using Vector = float2;
using StoreVector = float2;
using Sums = float[kFilters][kInProgress][4 * kPairs];

__device__ __forceinline__ void unpack(float2 vector, float* pixels) {
    pixels[0] = vector.x;
    pixels[1] = vector.y;
}

__device__ __forceinline__ float2 pack(const float* sums) {
    return make_float2(sums[0], sums[1]);
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

// The outputs of a row, from the sums of its pairs.
struct Outputs {
    float values[kThreadColumns];
};

__device__ __forceinline__ Outputs outputs_of(const float* sums) {
    Outputs outputs;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        const float* pair = sums + 4 * i;
        outputs.values[2 * i] = pair[0] + (pair[1] + pair[2]);
        outputs.values[2 * i + 1] = pair[3] + (pair[1] - pair[2]);
    }
    return outputs;
}

// Stores row j of a turn, for each filter; `target` is where an unskewed row of the first filter would be stored.
__device__ __forceinline__ void store_row(Result* __restrict__ target, const Sums& sums, int j) {
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
        const Outputs outputs = outputs_of(sums[f][j]);
        StoreVector* vectors = reinterpret_cast<StoreVector*>(target + f * (kOutputRows * kResultPitch) + skew_of(j));
#pragma unroll
        for (int i = 0; i < kThreadColumns / kStoreVector; ++i) {
            vectors[i] = pack(outputs.values + i * kStoreVector);
        }
    }
}

// Adds the product of each pair's x and `factor` to one of the pair's sums.
__device__ __forceinline__ void add_product(float* sums, const float (&x)[kPairs], float factor) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        sums[4 * i] = fmaf(factor, x[i], sums[4 * i]);
    }
}

// Adds row k of a turn to the outputs in progress, from the oldest to the newest: filter rows `first` to `last` - 1,
// since the others lie outside the strip.
__device__ __forceinline__ void add_row(Sums& sums, const Row& part, const Weights&, int k, int first, int last) {
    float pixels[kPixels];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        unpack(part.vectors[i], pixels + i * kLoadVector);
    }
    {
        float x[4][kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            const float* from = pixels + lead_of(k) + 2 * i + 0;
            x[0][i] = from[0] - from[2];
            x[1][i] = from[1] + from[2];
            x[2][i] = from[2] - from[1];
            x[3][i] = from[3] - from[1];
        }
        if (first <= 1 && 1 < last) {
            add_product(sums[0][k - 1] + 0, x[0], 6.0f);
            add_product(sums[0][k - 1] + 1, x[1], 66.0f);
            add_product(sums[0][k - 1] + 2, x[2], 30.0f);
            add_product(sums[0][k - 1] + 3, x[3], 90.0f);
        }
        if (first <= 0 && 0 < last) {
            add_product(sums[0][k - 0] + 0, x[0], 1.0f);
            add_product(sums[0][k - 0] + 1, x[1], 11.0f);
            add_product(sums[0][k - 0] + 2, x[2], 5.0f);
            add_product(sums[0][k - 0] + 3, x[3], 15.0f);
        }
    }
    {
        float x[4][kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            const float* from = pixels + lead_of(k) + 2 * i + 3;
            x[0][i] = from[0] - from[2];
            x[1][i] = from[1] + from[2];
            x[2][i] = from[2] - from[1];
            x[3][i] = from[3] - from[1];
        }
        if (first <= 1 && 1 < last) {
            add_product(sums[0][k - 1] + 0, x[0], 120.0f);
            add_product(sums[0][k - 1] + 1, x[1], 123.0f);
            add_product(sums[0][k - 1] + 2, x[2], 33.0f);
            add_product(sums[0][k - 1] + 3, x[3], 36.0f);
        }
        if (first <= 0 && 0 < last) {
            add_product(sums[0][k - 0] + 0, x[0], 20.0f);
            add_product(sums[0][k - 0] + 1, x[1], 20.5f);
            add_product(sums[0][k - 0] + 2, x[2], 5.5f);
            add_product(sums[0][k - 0] + 3, x[3], 6.0f);
        }
    }
    {
        float x[2][kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            const float* from = pixels + lead_of(k) + 2 * i + 6;
            x[0][i] = from[0];
            x[1][i] = from[1];
        }
        if (first <= 1 && 1 < last) {
            add_product(sums[0][k - 1] + 0, x[0], 6.0f);
            add_product(sums[0][k - 1] + 3, x[1], 6.0f);
        }
        if (first <= 0 && 0 < last) {
            add_product(sums[0][k - 0] + 0, x[0], 1.0f);
            add_product(sums[0][k - 0] + 3, x[1], 1.0f);
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
            for (int c = 0; c < 4 * kPairs; ++c) {
                sums[f][j][c] = j + rows < kInProgress ? sums[f][j + rows][c] : 0.0f;
            }
        }
    }
}

// Walks down a strip of `rows` output rows, of which `target` is the first.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, const Weights& weights, int rows) {
    constexpr int kLast = kFilterRows - 1;  // a window's last row completes it
    Sums sums = {};

    // The rows above the first complete window.
#pragma unroll
    for (int k = 0; k < kLast; ++k) {
        add_row(sums, source.read(k, k), weights, k, 0, k + 1);
    }

    int done = 0;
#pragma unroll 1
    for (; done < rows; done += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            add_row(sums, source.read(kLast + done + u, kLast + u), weights, kLast + u, 0, kFilterRows);
            store_row(target + (done + u) * kResultPitch, sums, u);
}
        advance(sums, kUnroll);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips)
filter2d_window(const Pixel* __restrict__ image, Result* __restrict__ result) {
    const Weights weights{};
    constexpr int kResultPlane = kFilters * kOutputRows * kResultPitch;
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
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const int element = kFirstColumn + thread * kThreadColumns;
    Result* target = result + plane * kResultPlane + row * kResultPitch + element;
    const Pixel* first = pixels.pixels + (row - kBeforeRows) * kPitch + element - kBeforeColumns * kChannels;
    slide({first}, target, weights, rows);
}
