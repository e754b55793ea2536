// calls cufft c2r inverse, 12x20 points, 4096 at once: scaled -> signal

// unit scale
// warpsmith fft_cufft
// problem: fft size=12x20 batch=4096 kind=c2r
// config:  scaling=before threads=256 vector=2
//
// One number a thread: scales what cuFFT is to read.

constexpr long long kCount = 540672;  // of float2
constexpr int kThreads = 256;
constexpr float kScale = 0.00416666667f;
constexpr int kRows = 12;
constexpr int kColumns = 11;
constexpr long long kColumnPitch = 1;  // in complex numbers, as all places here
constexpr long long kRowPitch = kColumns * kColumnPitch;

extern "C" __global__ void __launch_bounds__(kThreads) fft_cufft_scale(const float2* from, float2* to) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= kCount) {
        return;
    }
    float2 value = from[i];
    const int column = static_cast<int>(i / kColumnPitch % kColumns);
    // Columns that are their own mirror image: what a real signal does not have is left out.
    if (column == 0 || column == kColumns - 1) {
        const int row = static_cast<int>(i / kRowPitch % kRows);
        const float2 mirror = from[i + ((kRows - row) % kRows - row) * kRowPitch];
        value = make_float2(0.5f * (value.x + mirror.x), 0.5f * (value.y - mirror.y));
    }
    to[i] = make_float2(kScale * value.x, kScale * value.y);
}
