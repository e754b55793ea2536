// warpsmith conv2d_fft
// problem: conv2d pass=fprop input=32x64x56x56 weight=64x64x3x3 precision=ieee padding=1x1 bias=yes relu=yes
// config:  first.ahead=0 first.blocks=0 first.first=y first.gaps=25 first.loads=plain first.min_blocks=3 first.packing=pair first.shares=1 first.signal=direct first.spectrum=mirrored first.stores=plain first.threads=256 first.tiles=1 first.transforms=2 first.twiddles=powers first.x_radices=6x10 first.y_radices=6x10 product.block_columns=16 product.block_rows=4 product.columns=4 product.lanes=8 product.min_blocks=0 product.multiplies=4 product.products=2 product.rows=8 product.splits=1 product.stages=3 product.terms=8 result.ahead=0 result.blocks=0 result.first=x result.gaps=25 result.loads=plain result.min_blocks=1 result.packing=pair result.shares=1 result.signal=direct result.spectrum=mirrored result.stores=plain result.threads=512 result.tiles=1 result.transforms=4 result.twiddles=powers result.x_radices=6x10 result.y_radices=6x10 second.ahead=0 second.blocks=0 second.first=y second.gaps=25 second.loads=plain second.min_blocks=3 second.packing=pair second.shares=1 second.signal=direct second.spectrum=mirrored second.stores=plain second.threads=256 second.tiles=1 second.transforms=2 second.twiddles=powers second.x_radices=6x10 second.y_radices=6x10
//
// The bias: one number a filter, added to all of a plane by its frequency 0.
// The ReLU, 4 numbers a thread, in place.
constexpr int kThreads = 256;

constexpr int kPlanes = 2048;  // images by filters
constexpr int kFilters = 64;
constexpr float kPoints = 3600.0f;  // by which the transform back divides

extern "C" __global__ void __launch_bounds__(kThreads) add_bias(const float* __restrict__ b, float2* __restrict__ spectra) {
    const int plane = blockIdx.x * kThreads + threadIdx.x;
    if (plane < kPlanes) {
        spectra[plane].x += kPoints * __ldg(b + plane % kFilters);
    }
}

constexpr int kCount = 1605632;  // of float4

// That of a NaN is a NaN, as in PyTorch; fmaxf would make it 0.
__device__ __forceinline__ float relu_of(float value) { return value < 0.0f ? 0.0f : value; }

extern "C" __global__ void __launch_bounds__(kThreads) apply_relu(float4* __restrict__ y) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < kCount) {
        float4 value = y[i];
        value.x = relu_of(value.x);
        value.y = relu_of(value.y);
        value.z = relu_of(value.z);
        value.w = relu_of(value.w);
        y[i] = value;
    }
}
