// warpsmith conv2d_dense
// problem: conv2d pass=dgrad input=24x888x1x1 weight=222x888x1x1 precision=ieee dtype=bfloat16 layout=nhwc bias=yes
//          relu=yes
// config:  rows=2 slices=32 threads=256
//
// A layer whose filters cover the image, as a matrix product. A thread has a vector of columns in kRows rows of the
// result and adds up every kSlices-th term; shared memory adds up the sums of all slices in order.

constexpr int kRows = 24;  // images
constexpr int kColumns = 888;  // pixels of all channels of x
constexpr int kTerms = 222;  // filters
constexpr int kVector = 8;  // columns of a thread
constexpr int kThreadRows = 2;
constexpr int kSlices = 32;
constexpr int kThreads = 256;
constexpr int kAcross = kThreads / kSlices;  // threads side by side
constexpr int kColumnBlocks = 14;

using Element = unsigned short;  // bits of a bfloat16

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ float load(const Element* from) { return bfloat_to_float(__ldg(from)); }

__device__ __forceinline__ Element rounded(float value) { return float_to_bfloat(value); }

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float sum) { return sum < 0.0f ? 0.0f : sum; }
using Vector = uint4;  // kVector adjacent channels as stored in memory

__device__ __forceinline__ void unpack(uint4 vector, float* pixels) {
    pixels[0] = __uint_as_float(vector.x << 16);
    pixels[1] = __uint_as_float(vector.x & 0xffff0000u);
    pixels[2] = __uint_as_float(vector.y << 16);
    pixels[3] = __uint_as_float(vector.y & 0xffff0000u);
    pixels[4] = __uint_as_float(vector.z << 16);
    pixels[5] = __uint_as_float(vector.z & 0xffff0000u);
    pixels[6] = __uint_as_float(vector.w << 16);
    pixels[7] = __uint_as_float(vector.w & 0xffff0000u);
}

__device__ __forceinline__ Vector read(const Element* from) {
    return __ldg(reinterpret_cast<const Vector*>(from));
}

__device__ __forceinline__ unsigned floats_to_bfloat2(float low, float high) {
    return float_to_bfloat(low) | static_cast<unsigned>(float_to_bfloat(high)) << 16;
}

__device__ __forceinline__ uint4 pack(const float* sums) {
    return make_uint4(floats_to_bfloat2(sums[0], sums[1]),
                      floats_to_bfloat2(sums[2], sums[3]),
                      floats_to_bfloat2(sums[4], sums[5]),
                      floats_to_bfloat2(sums[6], sums[7]));
}

__device__ __forceinline__ void write(const float* sums, Element* to) {
    *reinterpret_cast<Vector*>(to) = pack(sums);
}

// Epilogue of one row's vector.
__device__ __forceinline__ void store(float* sums, int row, int column, const Element* __restrict__ b,
                                      Element* __restrict__ dx) {
    if (row >= kRows || column >= kColumns) {
        return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
        sums[i] = relu(sums[i] + load(b + column + i));
    }
    write(sums, dx + row * kColumns + column);
}

// Adds up every kSlices-th term from `first` on, kAhead of them: all loads come first and are in flight together.
template <int kAhead>
__device__ __forceinline__ void add(int first, const Element* numbers, const Element* const (&factors)[kThreadRows],
                                    float (&sums)[kThreadRows][kVector]) {
    Vector vectors[kAhead];
    float weights[kAhead][kThreadRows];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
        const int term = first + i * kSlices;
        vectors[i] = read(numbers + term * kColumns);
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) {
            weights[i][r] = load(factors[r] + term);
        }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
        float own[kVector];
        unpack(vectors[i], own);
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) {
#pragma unroll
            for (int j = 0; j < kVector; ++j) {
                sums[r][j] = fmaf(weights[i][r], own[j], sums[r][j]);
            }
        }
    }
}

// One block at least: for more, ptxas saves registers and has fewer loads in flight.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
conv2d_dense(const Element* __restrict__ dy,
             const Element* __restrict__ w,
             const Element* __restrict__ b,
             Element* __restrict__ dx) {
    const int across = threadIdx.x % kAcross, slice = threadIdx.x / kAcross;
    const int first_row = blockIdx.x / kColumnBlocks * kThreadRows;
    const int first_column = blockIdx.x % kColumnBlocks * (kAcross * kVector);
    const int column = first_column + across * kVector;
    // Beyond the last row or column, threads repeat it and store nothing.
    const Element* const numbers = w + min(column, kColumns - kVector);
    const Element* factors[kThreadRows];
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
        factors[r] = dy + min(first_row + r, kRows - 1) * 222;
    }
    float sums[kThreadRows][kVector] = {};
    add<6>(slice, numbers, factors, sums);
    if (slice < kTerms % kSlices) {
        add<1>(kTerms / kSlices * kSlices + slice, numbers, factors, sums);
    }
    __shared__ float parts[kSlices][kThreadRows][kAcross * kVector];
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
            parts[slice][r][across * kVector + i] = sums[r][i];
        }
    }
    __syncthreads();
    for (int vector = threadIdx.x; vector < kThreadRows * kAcross; vector += kThreads) {
        const int r = vector / kAcross, place = vector % kAcross * kVector;
        float totals[kVector] = {};
#pragma unroll 8
        for (int part = 0; part < kSlices; ++part) {
#pragma unroll
            for (int i = 0; i < kVector; ++i) {
                totals[i] += parts[part][r][place + i];
            }
        }
        store(totals, first_row + r, first_column + place, b, dx);
    }
}
