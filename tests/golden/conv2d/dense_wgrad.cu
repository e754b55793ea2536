// warpsmith conv2d_dense
// problem: conv2d pass=wgrad input=24x888x1x1 weight=222x888x1x1 precision=ieee
// config:  rows=4 slices=8 threads=256
//
// A layer whose filters cover the image, as a matrix product. A thread has a vector of columns in kRows rows of the
// result and adds up every kSlices-th term; shared memory adds up the sums of all slices in order.

constexpr int kRows = 222;  // filters
constexpr int kColumns = 888;  // pixels of all channels of x
constexpr int kVector = 4;  // columns of a thread
constexpr int kThreadRows = 4;
constexpr int kSlices = 8;
constexpr int kThreads = 256;
constexpr int kAcross = kThreads / kSlices;  // threads side by side
constexpr int kColumnBlocks = 7;

using Vector = float4;  // kVector adjacent channels as stored in memory

__device__ __forceinline__ void unpack(float4 vector, float* pixels) {
    pixels[0] = vector.x;
    pixels[1] = vector.y;
    pixels[2] = vector.z;
    pixels[3] = vector.w;
}

__device__ __forceinline__ Vector read(const float* from) {
    return __ldg(reinterpret_cast<const Vector*>(from));
}

__device__ __forceinline__ float4 pack(const float* sums) {
    return make_float4(sums[0], sums[1], sums[2], sums[3]);
}

__device__ __forceinline__ void write(const float* sums, float* to) {
    *reinterpret_cast<Vector*>(to) = pack(sums);
}

// Epilogue of one row's vector.
__device__ __forceinline__ void store(float* sums, int row, int column,
                                      float* __restrict__ dw) {
    if (row >= kRows || column >= kColumns) {
        return;
    }
    write(sums, dw + row * kColumns + column);
}

// Adds up every kSlices-th term from `first` on, kAhead of them: all loads come first and are in flight together.
template <int kAhead>
__device__ __forceinline__ void add(int first, const float* numbers, const float* const (&factors)[kThreadRows],
                                    float (&sums)[kThreadRows][kVector]) {
    Vector vectors[kAhead];
    float weights[kAhead][kThreadRows];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
        const int term = first + i * kSlices;
        vectors[i] = read(numbers + term * kColumns);
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) {
            weights[i][r] = __ldg(factors[r] + term * 222);
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
conv2d_dense(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw) {
    const int across = threadIdx.x % kAcross, slice = threadIdx.x / kAcross;
    const int first_row = blockIdx.x / kColumnBlocks * kThreadRows;
    const int first_column = blockIdx.x % kColumnBlocks * (kAcross * kVector);
    const int column = first_column + across * kVector;
    // Beyond the last row or column, threads repeat it and store nothing.
    const float* const numbers = x + min(column, kColumns - kVector);
    const float* factors[kThreadRows];
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
        factors[r] = dy + min(first_row + r, kRows - 1);
    }
    float sums[kThreadRows][kVector] = {};
    add<3>(slice, numbers, factors, sums);
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
        store(totals, first_row + r, first_column + place, dw);
    }
}
