// warpsmith conv2d_fft_tiled
// problem: conv2d pass=wgrad input=128x3x128x128 weight=96x3x11x11 precision=ieee
// config:  basis=70x70 first.blocks=0 first.first=y first.gaps=25 first.loads=plain first.min_blocks=0
//          first.packing=half first.shares=1 first.signal=direct first.spectrum=staged first.stores=plain
//          first.threads=512 first.tiles=1 first.transforms=4 first.twiddles=powers first.x_radices=5x7
//          first.y_radices=7x10 product.block_columns=4 product.block_rows=8 product.columns=1 product.lanes=4
//          product.min_blocks=0 product.multiplies=4 product.products=1 product.rows=8 product.splits=1
//          product.stages=3 product.terms=8 result.ahead=0 result.blocks=0 result.first=x result.gaps=25
//          result.loads=plain result.min_blocks=0 result.packing=half result.shares=1 result.signal=direct
//          result.stores=plain result.threads=256 result.tiles=1 result.transforms=3 result.twiddles=powers
//          result.x_radices=5x7 result.y_radices=7x10 second.blocks=0 second.first=y second.gaps=25 second.loads=plain
//          second.min_blocks=0 second.packing=half second.shares=1 second.signal=direct second.spectrum=staged
//          second.stores=plain second.threads=512 second.tiles=1 second.transforms=4 second.twiddles=powers
//          second.x_radices=5x7 second.y_radices=7x10
//
// Sums the spectra of dw over the parts of the batch, in a fixed order, into those of the first part. One thread per
// complex number.
constexpr int kThreads = 256;
constexpr int kParts = 2;  // parts of the batch
constexpr long long kCount = 725760;  // complex numbers per part
constexpr long long kPartStride = 725760;  // complex numbers from one part to the next

extern "C" __global__ void __launch_bounds__(kThreads) add_parts(float2* __restrict__ spectra) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i < kCount) {
        float2 sum = spectra[i];
#pragma unroll 8
        for (int part = 1; part < kParts; ++part) {
            const float2 term = spectra[part * kPartStride + i];
            sum.x += term.x;
            sum.y += term.y;
        }
        spectra[i] = sum;
    }
}
