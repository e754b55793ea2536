// warpsmith conv2d_fft
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  basis=60x60 first.ahead=0 first.blocks=0 first.first=y first.gaps=25 first.loads=plain first.min_blocks=3
//          first.packing=pair first.shares=1 first.signal=direct first.spectrum=mirrored first.stores=plain
//          first.threads=256 first.tiles=1 first.transforms=2 first.twiddles=powers first.x_radices=6x10
//          first.y_radices=6x10 product.block_columns=16 product.block_rows=4 product.columns=4 product.lanes=8
//          product.min_blocks=0 product.multiplies=4 product.products=2 product.rows=8 product.splits=1
//          product.stages=3 product.terms=8 result.ahead=0 result.blocks=0 result.first=x result.gaps=25
//          result.loads=plain result.min_blocks=1 result.packing=pair result.shares=1 result.signal=direct
//          result.spectrum=mirrored result.stores=plain result.threads=512 result.tiles=1 result.transforms=4
//          result.twiddles=powers result.x_radices=6x10 result.y_radices=6x10 second.ahead=0 second.blocks=0
//          second.first=y second.gaps=25 second.loads=plain second.min_blocks=3 second.packing=pair second.shares=1
//          second.signal=direct second.spectrum=mirrored second.stores=plain second.threads=256 second.tiles=1
//          second.transforms=2 second.twiddles=powers second.x_radices=6x10 second.y_radices=6x10
//
// Bias: adds the filter's bias, times the number of points, to frequency 0 of each plane before the inverse FFT; one
// thread per plane.
// ReLU of y in place, 4 elements per thread.
constexpr int kThreads = 256;

constexpr int kPlanes = 2048;  // images times filters
constexpr int kFilters = 64;
constexpr float kPoints = 3600.0f;  // points of a transform; the inverse FFT divides by them

extern "C" __global__ void __launch_bounds__(kThreads)
add_bias(const float* __restrict__ b, float2* __restrict__ spectra) {
    const int plane = blockIdx.x * kThreads + threadIdx.x;
    if (plane < kPlanes) {
        spectra[plane].x += kPoints * __ldg(b + plane % kFilters);
    }
}

constexpr int kCount = 1605632;  // float4 vectors of y

// relu(NaN) is NaN, as in PyTorch; fmaxf would return 0.
__device__ __forceinline__ float relu(float value) { return value < 0.0f ? 0.0f : value; }

extern "C" __global__ void __launch_bounds__(kThreads)
apply_relu(float4* __restrict__ y) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < kCount) {
        float4 value = y[i];
        value.x = relu(value.x);
        value.y = relu(value.y);
        value.z = relu(value.z);
        value.w = relu(value.w);
        y[i] = value;
    }
}
