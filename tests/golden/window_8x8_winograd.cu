// warpsmith filter2d_window
// problem: filter2d image=1080x1920 filter=8x8 planes=1 dtype=float32 border=nearest convolve=yes accuracy=normwise
// config:  block_columns=64 block_strips=1 columns=4 load=cached load_vector=4 method=winograd min_blocks=0 order=taps path=global prefetch=0 rows=64 store=plain store_vector=4 tail=whole unroll=2 weights=argument
//
// A window that slides down in registers. Each thread owns kThreadColumns adjacent elements and walks down
// kThreadRows output rows. Every input row is read once and added into the outputs in progress; the output
// that it completes is stored. The outputs around, whose windows need care, are computed one by one.

constexpr int kRows = 1080;  // of one plane of the image
constexpr int kColumns = 1920;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 1920;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 8;
constexpr int kFilterColumns = 8;
constexpr int kOutputRows = kRows;
constexpr int kOutputColumns = kColumns;
constexpr int kResultPitch = 1920;
constexpr int kBeforeRows = 3;  // of a window, above its output pixel
constexpr int kBeforeColumns = 3;  // and left of it

using Pixel = float;
using Result = float;

constexpr int kThreadColumns = 4;  // outputs a thread, across
constexpr int kThreadRows = 64;  // and down
constexpr int kUnroll = 2;  // input rows in one turn of the loop
constexpr int kInProgress = kFilterRows - 1 + kUnroll;  // output rows that a turn adds to
constexpr int kPairs = kThreadColumns / 2;  // of adjacent outputs, which are computed together
constexpr int kLoadVector = 4;  // elements in one load
constexpr int kStoreVector = 4;  // and in one store
constexpr int kLoads = 3;  // loads that cover a thread's part of a row
constexpr int kPixels = kLoads * kLoadVector;
constexpr int kBlockColumns = 64;  // threads across a block
constexpr int kBlockStrips = 1;  // and down
constexpr int kColumnBlocks = 8;  // blocks across the interior
constexpr int kStripBlocks = 17;  // and down
constexpr int kFrameBlocks = 374;  // blocks for the outputs around it, in all planes
constexpr int kFirstRow = 3;  // of the interior
constexpr int kInteriorRows = 1072;
constexpr int kFirstColumn = 4;  // of the interior, in elements, where a row is not skewed
constexpr int kInteriorThreads = 478;  // across it

// Elements read left of a row's first tap so that loads are aligned.
__device__ constexpr int lead_of(int) { return 1; }

// Elements that a row of outputs is moved right so that stores are aligned.
__device__ constexpr int skew_of(int) { return 0; }

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

// The filter turned by 180 degrees: a convolution.
__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][kFilterRows - 1 - r][kFilterColumns - 1 - s];
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
constexpr int kInteriorColumns = kInteriorThreads * kThreadColumns;
constexpr int kFrameRowPixels = (kOutputRows - kInteriorRows) * kRowOutputs;  // of whole rows, above and below
constexpr int kFramePixels = 23936;  // of one plane

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
using Sums = float[kFilters][kInProgress][4 * kPairs];

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

// The factors of the products of a filter row and a pair: combinations of taps, made at each call.
struct Products {
    float factors[kFilters][kFilterRows][11];
};

// Adds the product of each pair's x and `factor` to one of the pair's sums.
__device__ __forceinline__ void add_product(float* sums, const float (&x)[kPairs], float factor) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        sums[4 * i] = fmaf(factor, x[i], sums[4 * i]);
    }
}

// Adds kTogether rows, of which row k of a turn is the first, to the outputs in progress: filter rows `first` to
// `last` - 1, since the others lie outside the strip. A factor is read once for all the rows.
template <int kTogether>
__device__ __forceinline__ void add_rows(Sums& sums, const Row (&parts)[kTogether], const Products& products, int k, int first, int last) {
    float pixels[kTogether][kPixels];
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            unpack(parts[u].vectors[i], pixels[u] + i * kLoadVector);
        }
    }
    {
        float x[kTogether][4][kPairs];
#pragma unroll
        for (int u = 0; u < kTogether; ++u) {
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                const float* from = pixels[u] + lead_of(k + u) + 2 * i + 0;
                x[u][0][i] = from[0] - from[2];
                x[u][1][i] = from[1] + from[2];
                x[u][2][i] = from[2] - from[1];
                x[u][3][i] = from[3] - from[1];
            }
        }
#pragma unroll
        for (int r = kFilterRows - 1; r >= 0; --r) {
            if (r < first || r >= last) {
                continue;
            }
#pragma unroll
            for (int f = 0; f < kFilters; ++f) {
                const float* given = products.factors[f][kFilterRows - 1 - r] + 0;
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 0, x[u][0], given[0]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 1, x[u][1], given[1]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 2, x[u][2], given[2]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 3, x[u][3], given[3]);
                }
            }
        }
    }
    {
        float x[kTogether][4][kPairs];
#pragma unroll
        for (int u = 0; u < kTogether; ++u) {
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                const float* from = pixels[u] + lead_of(k + u) + 2 * i + 3;
                x[u][0][i] = from[0] - from[2];
                x[u][1][i] = from[1] + from[2];
                x[u][2][i] = from[2] - from[1];
                x[u][3][i] = from[3] - from[1];
            }
        }
#pragma unroll
        for (int r = kFilterRows - 1; r >= 0; --r) {
            if (r < first || r >= last) {
                continue;
            }
#pragma unroll
            for (int f = 0; f < kFilters; ++f) {
                const float* given = products.factors[f][kFilterRows - 1 - r] + 4;
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 0, x[u][0], given[0]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 1, x[u][1], given[1]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 2, x[u][2], given[2]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 3, x[u][3], given[3]);
                }
            }
        }
    }
    {
        float x[kTogether][3][kPairs];
#pragma unroll
        for (int u = 0; u < kTogether; ++u) {
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                const float* from = pixels[u] + lead_of(k + u) + 2 * i + 6;
                x[u][0][i] = from[0] - from[1];
                x[u][1][i] = from[1];
                x[u][2][i] = from[2] - from[1];
            }
        }
#pragma unroll
        for (int r = kFilterRows - 1; r >= 0; --r) {
            if (r < first || r >= last) {
                continue;
            }
#pragma unroll
            for (int f = 0; f < kFilters; ++f) {
                const float* given = products.factors[f][kFilterRows - 1 - r] + 8;
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 0, x[u][0], given[0]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 1, x[u][1], given[1]);
                }
#pragma unroll
                for (int u = 0; u < kTogether; ++u) {
                    add_product(sums[f][k + u - r] + 3, x[u][2], given[2]);
                }
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
            for (int c = 0; c < 4 * kPairs; ++c) {
                sums[f][j][c] = j + rows < kInProgress ? sums[f][j + rows][c] : 0.0f;
            }
        }
    }
}

// Walks down a strip of `rows` output rows, of which `target` is the first.
__device__ __forceinline__ void slide(Rows source, Result* __restrict__ target, const Products& products, int rows) {
    constexpr int kLast = kFilterRows - 1;  // a window's last row completes it
    Sums sums = {};

    // The rows above the first complete window.
#pragma unroll
    for (int k = 0; k < kLast; ++k) {
        const Row parts[1] = { source.read(k, k) };
        add_rows(sums, parts, products, k, 0, k + 1);
    }

    int done = 0;
#pragma unroll 1
    for (; done < rows; done += kUnroll) {
        Row parts[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            parts[u] = source.read(kLast + done + u, kLast + u);
        }
        add_rows(sums, parts, products, kLast, 0, kFilterRows);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            store_row(target + (done + u) * kResultPitch, sums, u);
}
        advance(sums, kUnroll);
    }
}

extern "C" __global__ void __launch_bounds__(kBlockColumns * kBlockStrips)
filter2d_window(const Pixel* __restrict__ image, Result* __restrict__ result, const __grid_constant__ Weights weights, const __grid_constant__ Products products) {
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
    const int rows = min(kThreadRows, kInteriorRows - inside);
    const int row = kFirstRow + inside;
    const int element = kFirstColumn + thread * kThreadColumns;
    Result* target = result + plane * kResultPlane + row * kResultPitch + element;
    const Pixel* first = pixels.pixels + (row - kBeforeRows) * kPitch + element - kBeforeColumns * kChannels;
    slide({first}, target, products, rows);
}
