// calls cufft r2c forward, 12x20 points, 4096 at once: signal -> spectrum

// unit scale
// warpsmith fft_cufft
// problem: fft size=12x20 batch=4096 kind=r2c norm=ortho
// config:  scaling=after threads=256 vector=4
//
// One vector of 4 floats per thread: scales the output of cuFFT.

constexpr long long kCount = 270336;  // float4 elements to scale
constexpr int kThreads = 256;
constexpr float kScale = 0.0645497224f;

extern "C" __global__ void __launch_bounds__(kThreads) fft_cufft_scale(const float4* from, float4* to) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= kCount) {
        return;
    }
    const float4 value = from[i];
    to[i] = make_float4(kScale * value.x, kScale * value.y, kScale * value.z, kScale * value.w);
}
