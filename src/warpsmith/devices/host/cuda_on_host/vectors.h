// Vector types, with the alignments of the CUDA programming guide (built-in vector types): the size of the vector for 2
// and 4 elements up to 16 bytes, else the element's own.
#pragma once

#define WARPSMITH_HOST_VECTOR_1(name, T)                                                                               \
    struct name {                                                                                                      \
        T x;                                                                                                           \
    };                                                                                                                 \
    inline name make_##name(T x) { return {x}; }
#define WARPSMITH_HOST_VECTOR_2(name, T)                                                                               \
    struct __align__(2 * sizeof(T)) name {                                                                             \
        T x, y;                                                                                                        \
    };                                                                                                                 \
    inline name make_##name(T x, T y) { return {x, y}; }
#define WARPSMITH_HOST_VECTOR_3(name, T)                                                                               \
    struct name {                                                                                                      \
        T x, y, z;                                                                                                     \
    };                                                                                                                 \
    inline name make_##name(T x, T y, T z) { return {x, y, z}; }
#define WARPSMITH_HOST_VECTOR_4(name, T)                                                                               \
    struct __align__(4 * sizeof(T)) name {                                                                             \
        T x, y, z, w;                                                                                                  \
    };                                                                                                                 \
    inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }
#define WARPSMITH_HOST_VECTORS(name, T)                                                                                \
    WARPSMITH_HOST_VECTOR_1(name##1, T)                                                                                \
    WARPSMITH_HOST_VECTOR_2(name##2, T)                                                                                \
    WARPSMITH_HOST_VECTOR_3(name##3, T)                                                                                \
    WARPSMITH_HOST_VECTOR_4(name##4, T)

WARPSMITH_HOST_VECTORS(float, float)
WARPSMITH_HOST_VECTORS(int, int)
WARPSMITH_HOST_VECTORS(uint, unsigned int)
WARPSMITH_HOST_VECTORS(short, short)
WARPSMITH_HOST_VECTORS(ushort, unsigned short)
WARPSMITH_HOST_VECTORS(char, signed char)
WARPSMITH_HOST_VECTORS(uchar, unsigned char)
WARPSMITH_HOST_VECTOR_2(double2, double)
WARPSMITH_HOST_VECTOR_2(longlong2, long long)
WARPSMITH_HOST_VECTOR_2(ulonglong2, unsigned long long)

static_assert(alignof(float4) == 16 && alignof(float3) == 4 && alignof(uchar4) == 4 && alignof(double2) == 16);

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
