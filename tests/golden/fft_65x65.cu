// warpsmith filter2d_fft
// problem: filter2d image=9216x9216 filter=65x65 planes=1 dtype=float32 border=valid accuracy=imagewise
// config:  blocks=0 buffers=1 column_threads=256 columns=8 min_blocks=2 pairs=4 partners=adjacent path=global row_threads=128 rows=4 store=plain twiddles=powers weights=argument x_radices=8x8x16 y_radices=32x32
//
// Overlap-save: tiles of 1024 x 1024 pixels, 960 x 960 results.
// Two are one complex tile in global memory, 4 of them at a time: their rows are transformed,
// then columns, times the filter's spectrum, and columns backward, then rows backward. All keeps its place.

constexpr int kRows = 9216;  // of one plane of the image
constexpr int kColumns = 9216;
constexpr int kChannels = 1;  // elements of a pixel, side by side
constexpr int kPitch = 9216;  // elements from row to row
constexpr int kFilters = 1;
constexpr int kFilterRows = 65;
constexpr int kFilterColumns = 65;
constexpr int kOutputRows = kRows - kFilterRows + 1;
constexpr int kOutputColumns = kColumns - kFilterColumns + 1;
constexpr int kResultPitch = 9152;
constexpr int kBeforeRows = 0;  // of a window, above its output pixel
constexpr int kBeforeColumns = 0;  // and left of it

using Pixel = float;
using Result = float;

static_assert(kChannels == 1, "columns are elements");

constexpr int kTileRows = 1024;  // of pixels, and of frequencies
constexpr int kTileColumns = 1024;
constexpr int kTileValidRows = kTileRows - kFilterRows + 1;  // of results
constexpr int kTileValidColumns = kTileColumns - kFilterColumns + 1;
constexpr int kPixelRows = 1024;  // of a tile, that results need: the others are 0
constexpr int kPixelColumns = 1024;
constexpr int kTilesAcross = 10;  // a plane
constexpr int kTiles = 10 * kTilesAcross;  // of a plane
constexpr int kPairs = 50;  // likewise
constexpr int kChunk = 4;  // pairs that lie in the workspace at a time
constexpr int kLines = 4;  // rows of a block
constexpr int kSide = 8;  // columns of a block

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ Result to_result(float value) { return value; }

struct Weights {
    float taps[kFilters][kFilterRows][kFilterColumns];
};

__device__ __forceinline__ float tap(const Weights& weights, int f, int r, int s) {
    return weights.taps[f][r][s];
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

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 operator*(float s, float2 a) { return make_float2(s * a.x, s * a.y); }
__device__ __forceinline__ float2 turned_left(float2 a) { return make_float2(-a.y, a.x); }  // i a
__device__ __forceinline__ float2 turned_right(float2 a) { return make_float2(a.y, -a.x); }  // -i a
__device__ __forceinline__ float2 conjugate(float2 a) { return make_float2(a.x, -a.y); }
__device__ __forceinline__ float2 times(float2 a, float re, float im) {
    return make_float2(a.x * re - a.y * im, a.x * im + a.y * re);
}
__device__ __forceinline__ float2 times(float2 a, float2 b) { return times(a, b.x, b.y); }

__device__ __forceinline__ float2 swapped(float2 a) { return make_float2(a.y, a.x); }

// Transforms within a thread: frequency k ends in the place of element k.
__device__ __forceinline__ void dft2(float2& x0, float2& x1) {
    const float2 sum = x0 + x1;
    x1 = x0 - x1;
    x0 = sum;
}
__device__ __forceinline__ void dft4(float2& x0, float2& x1, float2& x2, float2& x3) {
    const float2 even = x0 + x2, odd = x1 + x3, across = x0 - x2;
    const float2 turned = turned_right(x1 - x3);
    x0 = even + odd;
    x2 = even - odd;
    x1 = across + turned;
    x3 = across - turned;
}
__device__ __forceinline__ void dft8(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7) {
    dft2(x0, x4);
    dft2(x1, x5);
    dft2(x2, x6);
    dft2(x3, x7);
    x5 = times(x5, 0.707106781f, -0.707106781f);
    x6 = turned_right(x6);
    x7 = times(x7, -0.707106781f, -0.707106781f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    const float2 y4 = x4, y1 = x1, y5 = x5, y2 = x2, y6 = x6, y3 = x3;
    x1 = y4;
    x2 = y1;
    x3 = y5;
    x4 = y2;
    x5 = y6;
    x6 = y3;
}
__device__ __forceinline__ void dft16(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15) {
    dft4(x0, x4, x8, x12);
    dft4(x1, x5, x9, x13);
    dft4(x2, x6, x10, x14);
    dft4(x3, x7, x11, x15);
    x5 = times(x5, 0.923879533f, -0.382683432f);
    x6 = times(x6, 0.707106781f, -0.707106781f);
    x7 = times(x7, 0.382683432f, -0.923879533f);
    x9 = times(x9, 0.707106781f, -0.707106781f);
    x10 = turned_right(x10);
    x11 = times(x11, -0.707106781f, -0.707106781f);
    x13 = times(x13, 0.382683432f, -0.923879533f);
    x14 = times(x14, -0.707106781f, -0.707106781f);
    x15 = times(x15, -0.923879533f, 0.382683432f);
    dft4(x0, x1, x2, x3);
    dft4(x4, x5, x6, x7);
    dft4(x8, x9, x10, x11);
    dft4(x12, x13, x14, x15);
    const float2 y4 = x4, y8 = x8, y12 = x12, y1 = x1, y9 = x9, y13 = x13, y2 = x2, y6 = x6, y14 = x14, y3 = x3, y7 = x7, y11 = x11;
    x1 = y4;
    x2 = y8;
    x3 = y12;
    x4 = y1;
    x6 = y9;
    x7 = y13;
    x8 = y2;
    x9 = y6;
    x11 = y14;
    x12 = y3;
    x13 = y7;
    x14 = y11;
}
__device__ __forceinline__ void dft32(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7, float2& x8, float2& x9, float2& x10, float2& x11, float2& x12, float2& x13, float2& x14, float2& x15, float2& x16, float2& x17, float2& x18, float2& x19, float2& x20, float2& x21, float2& x22, float2& x23, float2& x24, float2& x25, float2& x26, float2& x27, float2& x28, float2& x29, float2& x30, float2& x31) {
    dft4(x0, x8, x16, x24);
    dft4(x1, x9, x17, x25);
    dft4(x2, x10, x18, x26);
    dft4(x3, x11, x19, x27);
    dft4(x4, x12, x20, x28);
    dft4(x5, x13, x21, x29);
    dft4(x6, x14, x22, x30);
    dft4(x7, x15, x23, x31);
    x9 = times(x9, 0.98078528f, -0.195090322f);
    x10 = times(x10, 0.923879533f, -0.382683432f);
    x11 = times(x11, 0.831469612f, -0.555570233f);
    x12 = times(x12, 0.707106781f, -0.707106781f);
    x13 = times(x13, 0.555570233f, -0.831469612f);
    x14 = times(x14, 0.382683432f, -0.923879533f);
    x15 = times(x15, 0.195090322f, -0.98078528f);
    x17 = times(x17, 0.923879533f, -0.382683432f);
    x18 = times(x18, 0.707106781f, -0.707106781f);
    x19 = times(x19, 0.382683432f, -0.923879533f);
    x20 = turned_right(x20);
    x21 = times(x21, -0.382683432f, -0.923879533f);
    x22 = times(x22, -0.707106781f, -0.707106781f);
    x23 = times(x23, -0.923879533f, -0.382683432f);
    x25 = times(x25, 0.831469612f, -0.555570233f);
    x26 = times(x26, 0.382683432f, -0.923879533f);
    x27 = times(x27, -0.195090322f, -0.98078528f);
    x28 = times(x28, -0.707106781f, -0.707106781f);
    x29 = times(x29, -0.98078528f, -0.195090322f);
    x30 = times(x30, -0.923879533f, 0.382683432f);
    x31 = times(x31, -0.555570233f, 0.831469612f);
    dft8(x0, x1, x2, x3, x4, x5, x6, x7);
    dft8(x8, x9, x10, x11, x12, x13, x14, x15);
    dft8(x16, x17, x18, x19, x20, x21, x22, x23);
    dft8(x24, x25, x26, x27, x28, x29, x30, x31);
    const float2 y8 = x8, y16 = x16, y24 = x24, y1 = x1, y9 = x9, y17 = x17, y25 = x25, y2 = x2, y10 = x10, y18 = x18, y26 = x26, y3 = x3, y11 = x11, y19 = x19, y27 = x27, y4 = x4, y12 = x12, y20 = x20, y28 = x28, y5 = x5, y13 = x13, y21 = x21, y29 = x29, y6 = x6, y14 = x14, y22 = x22, y30 = x30, y7 = x7, y15 = x15, y23 = x23;
    x1 = y8;
    x2 = y16;
    x3 = y24;
    x4 = y1;
    x5 = y9;
    x6 = y17;
    x7 = y25;
    x8 = y2;
    x9 = y10;
    x10 = y18;
    x11 = y26;
    x12 = y3;
    x13 = y11;
    x14 = y19;
    x15 = y27;
    x16 = y4;
    x17 = y12;
    x18 = y20;
    x19 = y28;
    x20 = y5;
    x21 = y13;
    x22 = y21;
    x23 = y29;
    x24 = y6;
    x25 = y14;
    x26 = y22;
    x27 = y30;
    x28 = y7;
    x29 = y15;
    x30 = y23;
}

// number / kDivisor and what is left of it. Exact where their product is below 2^32: those of a tile are below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(-2 pi i k q / 1024) for k = 1, 2, 4, q = 0 to 127.
__device__ const float2 kTwiddles8x128[384] = {
{ 1.0f, 0.0f }, { 0.999981175f, -0.00613588465f }, { 0.999924702f, -0.0122715383f }, { 0.999830582f, -0.0184067299f },
{ 0.999698819f, -0.0245412285f }, { 0.999529418f, -0.0306748032f }, { 0.999322385f, -0.0368072229f }, { 0.999077728f, -0.0429382569f },
{ 0.998795456f, -0.0490676743f }, { 0.998475581f, -0.0551952443f }, { 0.998118113f, -0.0613207363f }, { 0.997723067f, -0.0674439196f },
{ 0.997290457f, -0.0735645636f }, { 0.996820299f, -0.079682438f }, { 0.996312612f, -0.0857973123f }, { 0.995767414f, -0.0919089565f },
{ 0.995184727f, -0.0980171403f }, { 0.994564571f, -0.104121634f }, { 0.99390697f, -0.110222207f }, { 0.993211949f, -0.116318631f },
{ 0.992479535f, -0.122410675f }, { 0.991709754f, -0.128498111f }, { 0.990902635f, -0.134580709f }, { 0.99005821f, -0.140658239f },
{ 0.98917651f, -0.146730474f }, { 0.988257568f, -0.152797185f }, { 0.987301418f, -0.158858143f }, { 0.986308097f, -0.16491312f },
{ 0.985277642f, -0.170961889f }, { 0.984210092f, -0.17700422f }, { 0.983105487f, -0.183039888f }, { 0.981963869f, -0.189068664f },
{ 0.98078528f, -0.195090322f }, { 0.979569766f, -0.201104635f }, { 0.978317371f, -0.207111376f }, { 0.977028143f, -0.21311032f },
{ 0.97570213f, -0.21910124f }, { 0.974339383f, -0.225083911f }, { 0.972939952f, -0.231058108f }, { 0.971503891f, -0.237023606f },
{ 0.970031253f, -0.24298018f }, { 0.968522094f, -0.248927606f }, { 0.966976471f, -0.25486566f }, { 0.965394442f, -0.260794118f },
{ 0.963776066f, -0.266712757f }, { 0.962121404f, -0.272621355f }, { 0.960430519f, -0.278519689f }, { 0.958703475f, -0.284407537f },
{ 0.956940336f, -0.290284677f }, { 0.955141168f, -0.296150888f }, { 0.95330604f, -0.302005949f }, { 0.951435021f, -0.30784964f },
{ 0.949528181f, -0.31368174f }, { 0.947585591f, -0.319502031f }, { 0.945607325f, -0.325310292f }, { 0.943593458f, -0.331106306f },
{ 0.941544065f, -0.336889853f }, { 0.939459224f, -0.342660717f }, { 0.937339012f, -0.34841868f }, { 0.93518351f, -0.354163525f },
{ 0.932992799f, -0.359895037f }, { 0.930766961f, -0.365612998f }, { 0.92850608f, -0.371317194f }, { 0.926210242f, -0.37700741f },
{ 0.923879533f, -0.382683432f }, { 0.921514039f, -0.388345047f }, { 0.919113852f, -0.39399204f }, { 0.91667906f, -0.3996242f },
{ 0.914209756f, -0.405241314f }, { 0.911706032f, -0.410843171f }, { 0.909167983f, -0.41642956f }, { 0.906595705f, -0.422000271f },
{ 0.903989293f, -0.427555093f }, { 0.901348847f, -0.433093819f }, { 0.898674466f, -0.438616239f }, { 0.89596625f, -0.444122145f },
{ 0.893224301f, -0.44961133f }, { 0.890448723f, -0.455083587f }, { 0.88763962f, -0.460538711f }, { 0.884797098f, -0.465976496f },
{ 0.881921264f, -0.471396737f }, { 0.879012226f, -0.47679923f }, { 0.876070094f, -0.482183772f }, { 0.873094978f, -0.48755016f },
{ 0.870086991f, -0.492898192f }, { 0.867046246f, -0.498227667f }, { 0.863972856f, -0.503538384f }, { 0.860866939f, -0.508830143f },
{ 0.85772861f, -0.514102744f }, { 0.854557988f, -0.51935599f }, { 0.851355193f, -0.524589683f }, { 0.848120345f, -0.529803625f },
{ 0.844853565f, -0.53499762f }, { 0.841554977f, -0.540171473f }, { 0.838224706f, -0.545324988f }, { 0.834862875f, -0.550457973f },
{ 0.831469612f, -0.555570233f }, { 0.828045045f, -0.560661576f }, { 0.824589303f, -0.565731811f }, { 0.821102515f, -0.570780746f },
{ 0.817584813f, -0.575808191f }, { 0.81403633f, -0.580813958f }, { 0.810457198f, -0.585797857f }, { 0.806847554f, -0.590759702f },
{ 0.803207531f, -0.595699304f }, { 0.799537269f, -0.600616479f }, { 0.795836905f, -0.605511041f }, { 0.792106577f, -0.610382806f },
{ 0.788346428f, -0.615231591f }, { 0.784556597f, -0.620057212f }, { 0.780737229f, -0.624859488f }, { 0.776888466f, -0.629638239f },
{ 0.773010453f, -0.634393284f }, { 0.769103338f, -0.639124445f }, { 0.765167266f, -0.643831543f }, { 0.761202385f, -0.648514401f },
{ 0.757208847f, -0.653172843f }, { 0.753186799f, -0.657806693f }, { 0.749136395f, -0.662415778f }, { 0.745057785f, -0.666999922f },
{ 0.740951125f, -0.671558955f }, { 0.736816569f, -0.676092704f }, { 0.732654272f, -0.680600998f }, { 0.72846439f, -0.685083668f },
{ 0.724247083f, -0.689540545f }, { 0.720002508f, -0.693971461f }, { 0.715730825f, -0.698376249f }, { 0.711432196f, -0.702754744f },
{ 1.0f, 0.0f }, { 0.999924702f, -0.0122715383f }, { 0.999698819f, -0.0245412285f }, { 0.999322385f, -0.0368072229f },
{ 0.998795456f, -0.0490676743f }, { 0.998118113f, -0.0613207363f }, { 0.997290457f, -0.0735645636f }, { 0.996312612f, -0.0857973123f },
{ 0.995184727f, -0.0980171403f }, { 0.99390697f, -0.110222207f }, { 0.992479535f, -0.122410675f }, { 0.990902635f, -0.134580709f },
{ 0.98917651f, -0.146730474f }, { 0.987301418f, -0.158858143f }, { 0.985277642f, -0.170961889f }, { 0.983105487f, -0.183039888f },
{ 0.98078528f, -0.195090322f }, { 0.978317371f, -0.207111376f }, { 0.97570213f, -0.21910124f }, { 0.972939952f, -0.231058108f },
{ 0.970031253f, -0.24298018f }, { 0.966976471f, -0.25486566f }, { 0.963776066f, -0.266712757f }, { 0.960430519f, -0.278519689f },
{ 0.956940336f, -0.290284677f }, { 0.95330604f, -0.302005949f }, { 0.949528181f, -0.31368174f }, { 0.945607325f, -0.325310292f },
{ 0.941544065f, -0.336889853f }, { 0.937339012f, -0.34841868f }, { 0.932992799f, -0.359895037f }, { 0.92850608f, -0.371317194f },
{ 0.923879533f, -0.382683432f }, { 0.919113852f, -0.39399204f }, { 0.914209756f, -0.405241314f }, { 0.909167983f, -0.41642956f },
{ 0.903989293f, -0.427555093f }, { 0.898674466f, -0.438616239f }, { 0.893224301f, -0.44961133f }, { 0.88763962f, -0.460538711f },
{ 0.881921264f, -0.471396737f }, { 0.876070094f, -0.482183772f }, { 0.870086991f, -0.492898192f }, { 0.863972856f, -0.503538384f },
{ 0.85772861f, -0.514102744f }, { 0.851355193f, -0.524589683f }, { 0.844853565f, -0.53499762f }, { 0.838224706f, -0.545324988f },
{ 0.831469612f, -0.555570233f }, { 0.824589303f, -0.565731811f }, { 0.817584813f, -0.575808191f }, { 0.810457198f, -0.585797857f },
{ 0.803207531f, -0.595699304f }, { 0.795836905f, -0.605511041f }, { 0.788346428f, -0.615231591f }, { 0.780737229f, -0.624859488f },
{ 0.773010453f, -0.634393284f }, { 0.765167266f, -0.643831543f }, { 0.757208847f, -0.653172843f }, { 0.749136395f, -0.662415778f },
{ 0.740951125f, -0.671558955f }, { 0.732654272f, -0.680600998f }, { 0.724247083f, -0.689540545f }, { 0.715730825f, -0.698376249f },
{ 0.707106781f, -0.707106781f }, { 0.698376249f, -0.715730825f }, { 0.689540545f, -0.724247083f }, { 0.680600998f, -0.732654272f },
{ 0.671558955f, -0.740951125f }, { 0.662415778f, -0.749136395f }, { 0.653172843f, -0.757208847f }, { 0.643831543f, -0.765167266f },
{ 0.634393284f, -0.773010453f }, { 0.624859488f, -0.780737229f }, { 0.615231591f, -0.788346428f }, { 0.605511041f, -0.795836905f },
{ 0.595699304f, -0.803207531f }, { 0.585797857f, -0.810457198f }, { 0.575808191f, -0.817584813f }, { 0.565731811f, -0.824589303f },
{ 0.555570233f, -0.831469612f }, { 0.545324988f, -0.838224706f }, { 0.53499762f, -0.844853565f }, { 0.524589683f, -0.851355193f },
{ 0.514102744f, -0.85772861f }, { 0.503538384f, -0.863972856f }, { 0.492898192f, -0.870086991f }, { 0.482183772f, -0.876070094f },
{ 0.471396737f, -0.881921264f }, { 0.460538711f, -0.88763962f }, { 0.44961133f, -0.893224301f }, { 0.438616239f, -0.898674466f },
{ 0.427555093f, -0.903989293f }, { 0.41642956f, -0.909167983f }, { 0.405241314f, -0.914209756f }, { 0.39399204f, -0.919113852f },
{ 0.382683432f, -0.923879533f }, { 0.371317194f, -0.92850608f }, { 0.359895037f, -0.932992799f }, { 0.34841868f, -0.937339012f },
{ 0.336889853f, -0.941544065f }, { 0.325310292f, -0.945607325f }, { 0.31368174f, -0.949528181f }, { 0.302005949f, -0.95330604f },
{ 0.290284677f, -0.956940336f }, { 0.278519689f, -0.960430519f }, { 0.266712757f, -0.963776066f }, { 0.25486566f, -0.966976471f },
{ 0.24298018f, -0.970031253f }, { 0.231058108f, -0.972939952f }, { 0.21910124f, -0.97570213f }, { 0.207111376f, -0.978317371f },
{ 0.195090322f, -0.98078528f }, { 0.183039888f, -0.983105487f }, { 0.170961889f, -0.985277642f }, { 0.158858143f, -0.987301418f },
{ 0.146730474f, -0.98917651f }, { 0.134580709f, -0.990902635f }, { 0.122410675f, -0.992479535f }, { 0.110222207f, -0.99390697f },
{ 0.0980171403f, -0.995184727f }, { 0.0857973123f, -0.996312612f }, { 0.0735645636f, -0.997290457f }, { 0.0613207363f, -0.998118113f },
{ 0.0490676743f, -0.998795456f }, { 0.0368072229f, -0.999322385f }, { 0.0245412285f, -0.999698819f }, { 0.0122715383f, -0.999924702f },
{ 1.0f, 0.0f }, { 0.999698819f, -0.0245412285f }, { 0.998795456f, -0.0490676743f }, { 0.997290457f, -0.0735645636f },
{ 0.995184727f, -0.0980171403f }, { 0.992479535f, -0.122410675f }, { 0.98917651f, -0.146730474f }, { 0.985277642f, -0.170961889f },
{ 0.98078528f, -0.195090322f }, { 0.97570213f, -0.21910124f }, { 0.970031253f, -0.24298018f }, { 0.963776066f, -0.266712757f },
{ 0.956940336f, -0.290284677f }, { 0.949528181f, -0.31368174f }, { 0.941544065f, -0.336889853f }, { 0.932992799f, -0.359895037f },
{ 0.923879533f, -0.382683432f }, { 0.914209756f, -0.405241314f }, { 0.903989293f, -0.427555093f }, { 0.893224301f, -0.44961133f },
{ 0.881921264f, -0.471396737f }, { 0.870086991f, -0.492898192f }, { 0.85772861f, -0.514102744f }, { 0.844853565f, -0.53499762f },
{ 0.831469612f, -0.555570233f }, { 0.817584813f, -0.575808191f }, { 0.803207531f, -0.595699304f }, { 0.788346428f, -0.615231591f },
{ 0.773010453f, -0.634393284f }, { 0.757208847f, -0.653172843f }, { 0.740951125f, -0.671558955f }, { 0.724247083f, -0.689540545f },
{ 0.707106781f, -0.707106781f }, { 0.689540545f, -0.724247083f }, { 0.671558955f, -0.740951125f }, { 0.653172843f, -0.757208847f },
{ 0.634393284f, -0.773010453f }, { 0.615231591f, -0.788346428f }, { 0.595699304f, -0.803207531f }, { 0.575808191f, -0.817584813f },
{ 0.555570233f, -0.831469612f }, { 0.53499762f, -0.844853565f }, { 0.514102744f, -0.85772861f }, { 0.492898192f, -0.870086991f },
{ 0.471396737f, -0.881921264f }, { 0.44961133f, -0.893224301f }, { 0.427555093f, -0.903989293f }, { 0.405241314f, -0.914209756f },
{ 0.382683432f, -0.923879533f }, { 0.359895037f, -0.932992799f }, { 0.336889853f, -0.941544065f }, { 0.31368174f, -0.949528181f },
{ 0.290284677f, -0.956940336f }, { 0.266712757f, -0.963776066f }, { 0.24298018f, -0.970031253f }, { 0.21910124f, -0.97570213f },
{ 0.195090322f, -0.98078528f }, { 0.170961889f, -0.985277642f }, { 0.146730474f, -0.98917651f }, { 0.122410675f, -0.992479535f },
{ 0.0980171403f, -0.995184727f }, { 0.0735645636f, -0.997290457f }, { 0.0490676743f, -0.998795456f }, { 0.0245412285f, -0.999698819f },
{ 0.0f, -1.0f }, { -0.0245412285f, -0.999698819f }, { -0.0490676743f, -0.998795456f }, { -0.0735645636f, -0.997290457f },
{ -0.0980171403f, -0.995184727f }, { -0.122410675f, -0.992479535f }, { -0.146730474f, -0.98917651f }, { -0.170961889f, -0.985277642f },
{ -0.195090322f, -0.98078528f }, { -0.21910124f, -0.97570213f }, { -0.24298018f, -0.970031253f }, { -0.266712757f, -0.963776066f },
{ -0.290284677f, -0.956940336f }, { -0.31368174f, -0.949528181f }, { -0.336889853f, -0.941544065f }, { -0.359895037f, -0.932992799f },
{ -0.382683432f, -0.923879533f }, { -0.405241314f, -0.914209756f }, { -0.427555093f, -0.903989293f }, { -0.44961133f, -0.893224301f },
{ -0.471396737f, -0.881921264f }, { -0.492898192f, -0.870086991f }, { -0.514102744f, -0.85772861f }, { -0.53499762f, -0.844853565f },
{ -0.555570233f, -0.831469612f }, { -0.575808191f, -0.817584813f }, { -0.595699304f, -0.803207531f }, { -0.615231591f, -0.788346428f },
{ -0.634393284f, -0.773010453f }, { -0.653172843f, -0.757208847f }, { -0.671558955f, -0.740951125f }, { -0.689540545f, -0.724247083f },
{ -0.707106781f, -0.707106781f }, { -0.724247083f, -0.689540545f }, { -0.740951125f, -0.671558955f }, { -0.757208847f, -0.653172843f },
{ -0.773010453f, -0.634393284f }, { -0.788346428f, -0.615231591f }, { -0.803207531f, -0.595699304f }, { -0.817584813f, -0.575808191f },
{ -0.831469612f, -0.555570233f }, { -0.844853565f, -0.53499762f }, { -0.85772861f, -0.514102744f }, { -0.870086991f, -0.492898192f },
{ -0.881921264f, -0.471396737f }, { -0.893224301f, -0.44961133f }, { -0.903989293f, -0.427555093f }, { -0.914209756f, -0.405241314f },
{ -0.923879533f, -0.382683432f }, { -0.932992799f, -0.359895037f }, { -0.941544065f, -0.336889853f }, { -0.949528181f, -0.31368174f },
{ -0.956940336f, -0.290284677f }, { -0.963776066f, -0.266712757f }, { -0.970031253f, -0.24298018f }, { -0.97570213f, -0.21910124f },
{ -0.98078528f, -0.195090322f }, { -0.985277642f, -0.170961889f }, { -0.98917651f, -0.146730474f }, { -0.992479535f, -0.122410675f },
{ -0.995184727f, -0.0980171403f }, { -0.997290457f, -0.0735645636f }, { -0.998795456f, -0.0490676743f }, { -0.999698819f, -0.0245412285f },
};

// exp(-2 pi i k q / 128) for k = 1, 2, 4, q = 0 to 15.
__device__ const float2 kTwiddles8x16[48] = {
{ 1.0f, 0.0f }, { 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f }, { 0.98917651f, -0.146730474f },
{ 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f }, { 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f },
{ 0.923879533f, -0.382683432f }, { 0.903989293f, -0.427555093f }, { 0.881921264f, -0.471396737f }, { 0.85772861f, -0.514102744f },
{ 0.831469612f, -0.555570233f }, { 0.803207531f, -0.595699304f }, { 0.773010453f, -0.634393284f }, { 0.740951125f, -0.671558955f },
{ 1.0f, 0.0f }, { 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f }, { 0.956940336f, -0.290284677f },
{ 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f }, { 0.831469612f, -0.555570233f }, { 0.773010453f, -0.634393284f },
{ 0.707106781f, -0.707106781f }, { 0.634393284f, -0.773010453f }, { 0.555570233f, -0.831469612f }, { 0.471396737f, -0.881921264f },
{ 0.382683432f, -0.923879533f }, { 0.290284677f, -0.956940336f }, { 0.195090322f, -0.98078528f }, { 0.0980171403f, -0.995184727f },
{ 1.0f, 0.0f }, { 0.98078528f, -0.195090322f }, { 0.923879533f, -0.382683432f }, { 0.831469612f, -0.555570233f },
{ 0.707106781f, -0.707106781f }, { 0.555570233f, -0.831469612f }, { 0.382683432f, -0.923879533f }, { 0.195090322f, -0.98078528f },
{ 0.0f, -1.0f }, { -0.195090322f, -0.98078528f }, { -0.382683432f, -0.923879533f }, { -0.555570233f, -0.831469612f },
{ -0.707106781f, -0.707106781f }, { -0.831469612f, -0.555570233f }, { -0.923879533f, -0.382683432f }, { -0.98078528f, -0.195090322f },
};

// exp(-2 pi i k q / 1024) for k = 1, 2, 4, 8, 16, q = 0 to 31.
__device__ const float2 kTwiddles32x32[160] = {
{ 1.0f, 0.0f }, { 0.999981175f, -0.00613588465f }, { 0.999924702f, -0.0122715383f }, { 0.999830582f, -0.0184067299f },
{ 0.999698819f, -0.0245412285f }, { 0.999529418f, -0.0306748032f }, { 0.999322385f, -0.0368072229f }, { 0.999077728f, -0.0429382569f },
{ 0.998795456f, -0.0490676743f }, { 0.998475581f, -0.0551952443f }, { 0.998118113f, -0.0613207363f }, { 0.997723067f, -0.0674439196f },
{ 0.997290457f, -0.0735645636f }, { 0.996820299f, -0.079682438f }, { 0.996312612f, -0.0857973123f }, { 0.995767414f, -0.0919089565f },
{ 0.995184727f, -0.0980171403f }, { 0.994564571f, -0.104121634f }, { 0.99390697f, -0.110222207f }, { 0.993211949f, -0.116318631f },
{ 0.992479535f, -0.122410675f }, { 0.991709754f, -0.128498111f }, { 0.990902635f, -0.134580709f }, { 0.99005821f, -0.140658239f },
{ 0.98917651f, -0.146730474f }, { 0.988257568f, -0.152797185f }, { 0.987301418f, -0.158858143f }, { 0.986308097f, -0.16491312f },
{ 0.985277642f, -0.170961889f }, { 0.984210092f, -0.17700422f }, { 0.983105487f, -0.183039888f }, { 0.981963869f, -0.189068664f },
{ 1.0f, 0.0f }, { 0.999924702f, -0.0122715383f }, { 0.999698819f, -0.0245412285f }, { 0.999322385f, -0.0368072229f },
{ 0.998795456f, -0.0490676743f }, { 0.998118113f, -0.0613207363f }, { 0.997290457f, -0.0735645636f }, { 0.996312612f, -0.0857973123f },
{ 0.995184727f, -0.0980171403f }, { 0.99390697f, -0.110222207f }, { 0.992479535f, -0.122410675f }, { 0.990902635f, -0.134580709f },
{ 0.98917651f, -0.146730474f }, { 0.987301418f, -0.158858143f }, { 0.985277642f, -0.170961889f }, { 0.983105487f, -0.183039888f },
{ 0.98078528f, -0.195090322f }, { 0.978317371f, -0.207111376f }, { 0.97570213f, -0.21910124f }, { 0.972939952f, -0.231058108f },
{ 0.970031253f, -0.24298018f }, { 0.966976471f, -0.25486566f }, { 0.963776066f, -0.266712757f }, { 0.960430519f, -0.278519689f },
{ 0.956940336f, -0.290284677f }, { 0.95330604f, -0.302005949f }, { 0.949528181f, -0.31368174f }, { 0.945607325f, -0.325310292f },
{ 0.941544065f, -0.336889853f }, { 0.937339012f, -0.34841868f }, { 0.932992799f, -0.359895037f }, { 0.92850608f, -0.371317194f },
{ 1.0f, 0.0f }, { 0.999698819f, -0.0245412285f }, { 0.998795456f, -0.0490676743f }, { 0.997290457f, -0.0735645636f },
{ 0.995184727f, -0.0980171403f }, { 0.992479535f, -0.122410675f }, { 0.98917651f, -0.146730474f }, { 0.985277642f, -0.170961889f },
{ 0.98078528f, -0.195090322f }, { 0.97570213f, -0.21910124f }, { 0.970031253f, -0.24298018f }, { 0.963776066f, -0.266712757f },
{ 0.956940336f, -0.290284677f }, { 0.949528181f, -0.31368174f }, { 0.941544065f, -0.336889853f }, { 0.932992799f, -0.359895037f },
{ 0.923879533f, -0.382683432f }, { 0.914209756f, -0.405241314f }, { 0.903989293f, -0.427555093f }, { 0.893224301f, -0.44961133f },
{ 0.881921264f, -0.471396737f }, { 0.870086991f, -0.492898192f }, { 0.85772861f, -0.514102744f }, { 0.844853565f, -0.53499762f },
{ 0.831469612f, -0.555570233f }, { 0.817584813f, -0.575808191f }, { 0.803207531f, -0.595699304f }, { 0.788346428f, -0.615231591f },
{ 0.773010453f, -0.634393284f }, { 0.757208847f, -0.653172843f }, { 0.740951125f, -0.671558955f }, { 0.724247083f, -0.689540545f },
{ 1.0f, 0.0f }, { 0.998795456f, -0.0490676743f }, { 0.995184727f, -0.0980171403f }, { 0.98917651f, -0.146730474f },
{ 0.98078528f, -0.195090322f }, { 0.970031253f, -0.24298018f }, { 0.956940336f, -0.290284677f }, { 0.941544065f, -0.336889853f },
{ 0.923879533f, -0.382683432f }, { 0.903989293f, -0.427555093f }, { 0.881921264f, -0.471396737f }, { 0.85772861f, -0.514102744f },
{ 0.831469612f, -0.555570233f }, { 0.803207531f, -0.595699304f }, { 0.773010453f, -0.634393284f }, { 0.740951125f, -0.671558955f },
{ 0.707106781f, -0.707106781f }, { 0.671558955f, -0.740951125f }, { 0.634393284f, -0.773010453f }, { 0.595699304f, -0.803207531f },
{ 0.555570233f, -0.831469612f }, { 0.514102744f, -0.85772861f }, { 0.471396737f, -0.881921264f }, { 0.427555093f, -0.903989293f },
{ 0.382683432f, -0.923879533f }, { 0.336889853f, -0.941544065f }, { 0.290284677f, -0.956940336f }, { 0.24298018f, -0.970031253f },
{ 0.195090322f, -0.98078528f }, { 0.146730474f, -0.98917651f }, { 0.0980171403f, -0.995184727f }, { 0.0490676743f, -0.998795456f },
{ 1.0f, 0.0f }, { 0.995184727f, -0.0980171403f }, { 0.98078528f, -0.195090322f }, { 0.956940336f, -0.290284677f },
{ 0.923879533f, -0.382683432f }, { 0.881921264f, -0.471396737f }, { 0.831469612f, -0.555570233f }, { 0.773010453f, -0.634393284f },
{ 0.707106781f, -0.707106781f }, { 0.634393284f, -0.773010453f }, { 0.555570233f, -0.831469612f }, { 0.471396737f, -0.881921264f },
{ 0.382683432f, -0.923879533f }, { 0.290284677f, -0.956940336f }, { 0.195090322f, -0.98078528f }, { 0.0980171403f, -0.995184727f },
{ 0.0f, -1.0f }, { -0.0980171403f, -0.995184727f }, { -0.195090322f, -0.98078528f }, { -0.290284677f, -0.956940336f },
{ -0.382683432f, -0.923879533f }, { -0.471396737f, -0.881921264f }, { -0.555570233f, -0.831469612f }, { -0.634393284f, -0.773010453f },
{ -0.707106781f, -0.707106781f }, { -0.773010453f, -0.634393284f }, { -0.831469612f, -0.555570233f }, { -0.881921264f, -0.471396737f },
{ -0.923879533f, -0.382683432f }, { -0.956940336f, -0.290284677f }, { -0.98078528f, -0.195090322f }, { -0.995184727f, -0.0980171403f },
};

// A tile of pixels, of which it may need fewer than it has, and of results. All are 0 where there is none.
struct Tile {
    Plane plane;
    Result* target;  // of the first result
    int row, column;  // of the first pixel in the image, may be negative
    int rows, columns;  // of results
};

struct Pair {
    Tile first, second;
};

__device__ __forceinline__ Tile tile_of(const Pixel* image, Result* result, int plane, int number) {
    if (number >= kTiles) {
        return {};
    }
    const int row = number / kTilesAcross * kTileValidRows, column = number % kTilesAcross * kTileValidColumns;
    const int rows = min(kTileValidRows, kOutputRows - row), columns = min(kTileValidColumns, kOutputColumns - column);
    const int first_row = (plane) * kOutputRows + row;
    return {plane_of(image, plane), result + first_row * kResultPitch + column, row - kBeforeRows,
            column - kBeforeColumns, rows, columns};
}

// The address `chunk` is as many bytes beyond the workspace as the chunk's number.
__device__ __forceinline__ int number_of(const float2* work, const void* chunk) {
    return static_cast<int>(static_cast<const char*>(chunk) - reinterpret_cast<const char*>(work));
}

// Where item `number` of a chunk lies in the workspace.
__device__ __forceinline__ float2* place_of(float2* work, int, int number) {
    return work + number * (kPixelRows * kTileColumns);
}

__device__ __forceinline__ Pair pair_of(const Pixel* image, Result* result, int item) {
    const int number = item % kPairs, plane = item / kPairs;
    return {tile_of(image, result, plane, 2 * number),
            tile_of(image, result, plane, 2 * number + 1)};
}

// Whether all pixels of some rows lie in the image, and results need these rows.
__device__ __forceinline__ bool is_inside(const Tile& tile, int row) {
    return tile.rows > 0 && row + kLines <= tile.rows + kFilterRows - 1 && tile.row + row >= 0 &&
           tile.row + row + kLines <= kRows && tile.column >= 0 && tile.column + kPixelColumns <= kColumns;
}

// Pixel (y, x) of the tile: 0 where no result needs it.
__device__ __forceinline__ float pixel_of(const Tile& tile, int y, int x) {
    const bool needed = y < tile.rows + kFilterRows - 1 && x < tile.columns + kFilterColumns - 1 && tile.rows > 0;
    return needed ? pixel_at(tile.plane, tile.row + y, tile.column + x) : 0.0f;
}

__device__ __forceinline__ void store(const Tile& tile, int y, int x, float value) {
    if (y < tile.rows && x < tile.columns) {
        tile.target[y * kResultPitch + x] = to_result(value);
    }
}

// The filters' rows, transformed: of kFilters * kFilterRows, a block has kLines.
extern "C" __global__ void __launch_bounds__(128, 1)
filter2d_fft_taps(float2* __restrict__ taps, const __grid_constant__ Weights weights) {
    extern __shared__ __align__(16) float2 tile[];
    const int first = blockIdx.x * kLines;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 512u; i += 128) {
        const int line = i / 128u, item = i % 128u;
        const int q = item;
        float2* const element = tile + line * 1101 + q % 16u + q / 16u * 17;
        float2 v[8];
        const int number = first + line;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int x = k * 128 + item;
            v[k] = make_float2(0.0f, 0.0f);
            if (number < kFilters * kFilterRows && x < kFilterColumns) {
                v[k].x = tap(weights, number / kFilterRows, number % kFilterRows, x);
            }
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x128[q];
        const float2 w2 = kTwiddles8x128[128 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x128[256 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 138] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 512u; i += 128) {
        const int line = i / 128u, item = i % 128u;
        const int p = item / 16u, q = item % 16u;
        float2* const element = tile + line * 1101 + p * 138 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 17];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x16[q];
        const float2 w2 = kTwiddles8x16[16 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x16[32 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 17] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 128) {
        const int line = i / 64u, item = i % 64u;
        const int p = item;
        float2* const element = tile + line * 1101 + p % 8u * 138 + p / 8u * 17;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 1];
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]);
        if (first + line < kFilters * kFilterRows) {
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                taps[(first + line) * kTileColumns + k * 64 + item] = v[k];
            }
        }
    }
}

// Their columns: the conjugate of the filters' transforms, since that of a correlation is the image's times it. Scaled,
// and where filter2d_fft_columns reads it.
extern "C" __global__ void __launch_bounds__(256, 1)
filter2d_fft_spectrum(float2* __restrict__ spectra, const float2* __restrict__ taps) {
    extern __shared__ __align__(16) float2 tile[];
    const int f = blockIdx.x / 128, column = blockIdx.x % 128 * kSide;
    const float2* const source = taps + f * (kFilterRows * kTileColumns) + column;
    float2* const target = spectra + (f * kTileColumns + column) * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 256) {
        const int line = i % 8u, item = i / 8u;
        const int q = item;
        float2* const element = tile + (q) * 8 + line;
        float2 v[32];
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            const int y = k * 32 + item;
            v[k] = y < kFilterRows ? __ldg(source + y * kTileColumns + line) : make_float2(0.0f, 0.0f);
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28], v[29], v[30], v[31]);
        const float2 w1 = kTwiddles32x32[q];
        const float2 w2 = kTwiddles32x32[32 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles32x32[64 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles32x32[96 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles32x32[128 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        const float2 w20 = times(w16, w4);
        const float2 w21 = times(w16, w5);
        const float2 w22 = times(w16, w6);
        const float2 w23 = times(w16, w7);
        const float2 w24 = times(w16, w8);
        const float2 w25 = times(w16, w9);
        const float2 w26 = times(w16, w10);
        const float2 w27 = times(w16, w11);
        const float2 w28 = times(w16, w12);
        const float2 w29 = times(w16, w13);
        const float2 w30 = times(w16, w14);
        const float2 w31 = times(w16, w15);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
        v[20] = times(v[20], w20);
        v[21] = times(v[21], w21);
        v[22] = times(v[22], w22);
        v[23] = times(v[23], w23);
        v[24] = times(v[24], w24);
        v[25] = times(v[25], w25);
        v[26] = times(v[26], w26);
        v[27] = times(v[27], w27);
        v[28] = times(v[28], w28);
        v[29] = times(v[29], w29);
        v[30] = times(v[30], w30);
        v[31] = times(v[31], w31);
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            element[k * 264] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 256) {
        const int line = i % 8u, item = i / 8u;
        const int p = item;
        float2* const element = tile + (p * 33) * 8 + line;
        float2 v[32];
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            v[k] = element[k * 8];
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28], v[29], v[30], v[31]);
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            target[k * 256 + i] = 9.53674316e-07f * conjugate(v[k]);
        }
    }
}

// Rows of a pair's tiles, from the image to the workspace.
template <bool kInside>
__device__ __forceinline__ void transform_rows(const Pair& pair, int first, float2* target, float2* tile) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 512u; i += 128) {
        const int line = i / 128u, item = i % 128u;
        const int q = item;
        float2* const element = tile + line * 1101 + q % 16u + q / 16u * 17;
        float2 v[8];
        const int y = first + line;
        if (kInside) {
            const Pixel* const one = pair.first.plane.pixels + (pair.first.row + y) * kPitch + pair.first.column + item;
            const Pixel* const other = pair.second.plane.pixels + (pair.second.row + y) * kPitch + pair.second.column + item;
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                v[k].x = to_float(__ldg(one + k * 128));
                v[k].y = to_float(__ldg(other + k * 128));
            }
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                v[k] = make_float2(0.0f, 0.0f);
                if (k * 128 < kPixelColumns) {
                    v[k].x = pixel_of(pair.first, y, k * 128 + item);
                    v[k].y = pixel_of(pair.second, y, k * 128 + item);
                }
            }
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x128[q];
        const float2 w2 = kTwiddles8x128[128 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x128[256 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 138] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 512u; i += 128) {
        const int line = i / 128u, item = i % 128u;
        const int p = item / 16u, q = item % 16u;
        float2* const element = tile + line * 1101 + p * 138 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 17];
        }
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        const float2 w1 = kTwiddles8x16[q];
        const float2 w2 = kTwiddles8x16[16 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x16[32 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 17] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 128) {
        const int line = i / 64u, item = i % 64u;
        const int p = item;
        float2* const element = tile + line * 1101 + p % 8u * 138 + p / 8u * 17;
        float2 v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = element[k * 1];
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            target[(first + line) * kTileColumns + k * 64 + item] = v[k];
        }
    }
}

// What block `block` has of that, for chunk `chunk`.
__device__ __forceinline__ void read_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                          float2* tile) {
    const int number = block / 256, first = block % 256 * kLines;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    float2* const target = place_of(work, chunk, number);
    if (is_inside(pair.first, first) && is_inside(pair.second, first)) {
        transform_rows<true>(pair, first, target, tile);
    } else {
        transform_rows<false>(pair, first, target, tile);
    }
}

extern "C" __global__ void __launch_bounds__(128)
filter2d_fft_rows(const Pixel* __restrict__ image, Result* __restrict__ result, float2* __restrict__ work,
                  const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    read_rows(image, result, work, number_of(work, chunk), blockIdx.x, tile);
}

// Columns forward, times the filter's spectrum, and backward: what block `block` has of chunk `chunk` in the workspace.
__device__ __forceinline__ void transform_columns(float2* work, const float2* __restrict__ spectra, int chunk, int block,
                                                  float2* tile) {
    const int number = block / 128, column = block % 128 * kSide;
    float2* const source = place_of(work, chunk, number) + column;
    const float2* const factors = spectra + column * kTileRows;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 256) {
        const int line = i % 8u, item = i / 8u;
        const int q = item;
        float2* const element = tile + (q) * 8 + line;
        float2 v[32];
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            const int y = k * 32 + item;
            v[k] = __ldcg(source + y * kTileColumns + line);
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28], v[29], v[30], v[31]);
        const float2 w1 = kTwiddles32x32[q];
        const float2 w2 = kTwiddles32x32[32 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles32x32[64 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles32x32[96 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles32x32[128 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        const float2 w20 = times(w16, w4);
        const float2 w21 = times(w16, w5);
        const float2 w22 = times(w16, w6);
        const float2 w23 = times(w16, w7);
        const float2 w24 = times(w16, w8);
        const float2 w25 = times(w16, w9);
        const float2 w26 = times(w16, w10);
        const float2 w27 = times(w16, w11);
        const float2 w28 = times(w16, w12);
        const float2 w29 = times(w16, w13);
        const float2 w30 = times(w16, w14);
        const float2 w31 = times(w16, w15);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
        v[20] = times(v[20], w20);
        v[21] = times(v[21], w21);
        v[22] = times(v[22], w22);
        v[23] = times(v[23], w23);
        v[24] = times(v[24], w24);
        v[25] = times(v[25], w25);
        v[26] = times(v[26], w26);
        v[27] = times(v[27], w27);
        v[28] = times(v[28], w28);
        v[29] = times(v[29], w29);
        v[30] = times(v[30], w30);
        v[31] = times(v[31], w31);
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            element[k * 264] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 256) {
        const int line = i % 8u, item = i / 8u;
        const int p = item;
        float2* const element = tile + (p * 33) * 8 + line;
        float2 v[32];
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            v[k] = element[k * 8];
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28], v[29], v[30], v[31]);
        // From here on real and imaginary parts are swapped, which makes a forward transform one backward.
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            v[k] = swapped(times(v[k], __ldg(factors + k * 256 + i)));
        }
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28], v[29], v[30], v[31]);
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            element[k * 8] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 256) {
        const int line = i % 8u, item = i / 8u;
        const int q = item;
        float2* const element = tile + (q) * 8 + line;
        float2 v[32];
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            v[k] = element[k * 264];
        }
        const float2 w1 = kTwiddles32x32[q];
        const float2 w2 = kTwiddles32x32[32 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles32x32[64 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        const float2 w8 = kTwiddles32x32[96 + q];
        const float2 w9 = times(w8, w1);
        const float2 w10 = times(w8, w2);
        const float2 w11 = times(w8, w3);
        const float2 w12 = times(w8, w4);
        const float2 w13 = times(w8, w5);
        const float2 w14 = times(w8, w6);
        const float2 w15 = times(w8, w7);
        const float2 w16 = kTwiddles32x32[128 + q];
        const float2 w17 = times(w16, w1);
        const float2 w18 = times(w16, w2);
        const float2 w19 = times(w16, w3);
        const float2 w20 = times(w16, w4);
        const float2 w21 = times(w16, w5);
        const float2 w22 = times(w16, w6);
        const float2 w23 = times(w16, w7);
        const float2 w24 = times(w16, w8);
        const float2 w25 = times(w16, w9);
        const float2 w26 = times(w16, w10);
        const float2 w27 = times(w16, w11);
        const float2 w28 = times(w16, w12);
        const float2 w29 = times(w16, w13);
        const float2 w30 = times(w16, w14);
        const float2 w31 = times(w16, w15);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        v[8] = times(v[8], w8);
        v[9] = times(v[9], w9);
        v[10] = times(v[10], w10);
        v[11] = times(v[11], w11);
        v[12] = times(v[12], w12);
        v[13] = times(v[13], w13);
        v[14] = times(v[14], w14);
        v[15] = times(v[15], w15);
        v[16] = times(v[16], w16);
        v[17] = times(v[17], w17);
        v[18] = times(v[18], w18);
        v[19] = times(v[19], w19);
        v[20] = times(v[20], w20);
        v[21] = times(v[21], w21);
        v[22] = times(v[22], w22);
        v[23] = times(v[23], w23);
        v[24] = times(v[24], w24);
        v[25] = times(v[25], w25);
        v[26] = times(v[26], w26);
        v[27] = times(v[27], w27);
        v[28] = times(v[28], w28);
        v[29] = times(v[29], w29);
        v[30] = times(v[30], w30);
        v[31] = times(v[31], w31);
        dft32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21], v[22], v[23], v[24], v[25], v[26], v[27], v[28], v[29], v[30], v[31]);
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            const int y = k * 32 + item;
            if (y < 960) {
                source[y * kTileColumns + line] = v[k];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
filter2d_fft_columns(float2* __restrict__ work, const float2* __restrict__ spectra) {
    extern __shared__ __align__(16) float2 tile[];
    transform_columns(work, spectra, 0, blockIdx.x, tile);
}

// Rows backward, from the workspace to the result: what block `block` has of them.
__device__ __forceinline__ void write_rows(const Pixel* image, Result* result, float2* work, int chunk, int block,
                                           float2* tile) {
    const int number = block / 240, first = block % 240 * kLines;
    const Pair pair = pair_of(image, result, chunk * kChunk + number);
    const float2* const source = place_of(work, chunk, number);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 256u; i += 128) {
        const int line = i / 64u, item = i % 64u;
        const int p = item;
        float2* const element = tile + line * 1101 + p % 8u * 138 + p / 8u * 17;
        float2 v[16];
        const int y = first + line;
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            v[k] = __ldcg(source + y * kTileColumns + k * 64 + item);
        }
        dft16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            element[k * 1] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 512u; i += 128) {
        const int line = i / 128u, item = i % 128u;
        const int p = item / 16u, q = item % 16u;
        float2* const element = tile + line * 1101 + p * 138 + q;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 17];
        }
        const float2 w1 = kTwiddles8x16[q];
        const float2 w2 = kTwiddles8x16[16 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x16[32 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            element[k * 17] = v[k];
        }
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 512u; i += 128) {
        const int line = i / 128u, item = i % 128u;
        const int q = item;
        float2* const element = tile + line * 1101 + q % 16u + q / 16u * 17;
        float2 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            v[k] = element[k * 138];
        }
        const float2 w1 = kTwiddles8x128[q];
        const float2 w2 = kTwiddles8x128[128 + q];
        const float2 w3 = times(w2, w1);
        const float2 w4 = kTwiddles8x128[256 + q];
        const float2 w5 = times(w4, w1);
        const float2 w6 = times(w4, w2);
        const float2 w7 = times(w4, w3);
        v[1] = times(v[1], w1);
        v[2] = times(v[2], w2);
        v[3] = times(v[3], w3);
        v[4] = times(v[4], w4);
        v[5] = times(v[5], w5);
        v[6] = times(v[6], w6);
        v[7] = times(v[7], w7);
        dft8(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (k * 128 < 960) {
                store(pair.first, first + line, k * 128 + item, v[k].y);
                store(pair.second, first + line, k * 128 + item, v[k].x);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128)
filter2d_fft_results(const Pixel* __restrict__ image, Result* __restrict__ result, float2* __restrict__ work,
                     const void* chunk) {
    extern __shared__ __align__(16) float2 tile[];
    write_rows(image, result, work, number_of(work, chunk), blockIdx.x, tile);
}
