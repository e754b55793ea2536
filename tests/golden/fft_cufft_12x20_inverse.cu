// calls cufft c2r inverse, 12x20 points, 4096 at once: scaled -> signal

// unit scale
// warpsmith fft_cufft
// problem: fft size=12x20 batch=4096 kind=c2r
// config:  scaling=before threads=256 vector=2
//
// One vector of 2 floats per thread: scales the input of cuFFT.

constexpr long long kCount = 540672;  // float2 elements to scale
constexpr int kThreads = 256;
constexpr float kScale = 0.00416666667f;
constexpr int kRows = 12;
constexpr int kColumns = 11;
constexpr long long kColumnPitch = 1;  // complex numbers from one column to the next
constexpr long long kRowPitch = kColumns * kColumnPitch;

extern "C" __global__ void __launch_bounds__(kThreads) fft_cufft_scale(const float2* from, float2* to) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= kCount) {
        return;
    }
    float2 value = from[i];
    const int column = static_cast<int>(i / kColumnPitch % kColumns);
    // Columns that are their own mirror image are made Hermitian, as the spectrum of a real signal is.
    if (column == 0 || column == kColumns - 1) {
        const int row = static_cast<int>(i / kRowPitch % kRows);
        const float2 mirror = from[i + ((kRows - row) % kRows - row) * kRowPitch];
        value = make_float2(0.5f * (value.x + mirror.x), 0.5f * (value.y - mirror.y));
    }
    to[i] = make_float2(kScale * value.x, kScale * value.y);
}
