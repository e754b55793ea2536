// Texture objects over pitch-linear memory. A handle is the address of a descriptor, which descriptors.py writes.
//
// Formulas: CUDA programming guide, texture fetching. Linear filtering uses weights with 8 fractional bits, as the
// hardware does, so that a kernel that needs more precision fails here too.
#pragma once

using cudaTextureObject_t = unsigned long long;

namespace warpsmith_host {

enum class Format : int32_t { signed_integer, unsigned_integer, floating };
enum class Address : int32_t { wrap, clamp, mirror, border };  // the values of cudaTextureAddressMode

struct Texture {
    uint64_t data;
    int32_t width, height;  // texels
    int32_t pitch;          // bytes from one row to the next
    int32_t channels;       // 1, 2 or 4
    int32_t bits;           // of one channel: 8, 16 or 32
    Format format;
    Address address[2];  // of x, of y
    int32_t linear;      // filter: 0 point, 1 linear
    int32_t normalized_coordinates;
    int32_t normalized_float;  // read integers as [0, 1] or [-1, 1]
    float border[4];
};

template <typename T, typename = void> struct Channels {  // a scalar
    using type = T;
    static constexpr int count = 1;
};
template <typename T> struct Channels<T, std::void_t<decltype(T::x)>> {
    using type = decltype(T::x);
    static constexpr int count = sizeof(T) / sizeof(type);
};

template <typename Stored> double channel_of(const char *texel, int channel) {
    Stored value;
    memcpy(&value, texel + channel * sizeof(Stored), sizeof(Stored));
    return static_cast<double>(value);
}

// One channel of one stored texel. A double represents every value of every format exactly.
inline double stored_channel(const Texture &texture, const char *texel, int channel) {
    if (texture.format == Format::floating && texture.bits == 16) {
        uint16_t bits;
        memcpy(&bits, texel + channel * sizeof bits, sizeof bits);
        return static_cast<double>(half_to_float(bits));
    }
    if (texture.format == Format::floating) return channel_of<float>(texel, channel);
    const bool is_signed = texture.format == Format::signed_integer;
    double value = 0;
    if (texture.bits == 8) value = is_signed ? channel_of<int8_t>(texel, channel) : channel_of<uint8_t>(texel, channel);
    if (texture.bits == 16) {
        value = is_signed ? channel_of<int16_t>(texel, channel) : channel_of<uint16_t>(texel, channel);
    }
    if (texture.bits == 32) {
        value = is_signed ? channel_of<int32_t>(texel, channel) : channel_of<uint32_t>(texel, channel);
    }
    if (!texture.normalized_float) return value;
    const double highest = ldexp(1.0, texture.bits - (is_signed ? 1 : 0)) - 1.0;
    return value / highest < -1.0 ? -1.0 : value / highest;
}

// Texel index of coordinate `i`; -1 for the border colour. Wrap and mirror exist only for normalized coordinates; with
// others the hardware clamps.
inline int64_t texel_index(int64_t i, int64_t size, Address mode, bool normalized) {
    if (i >= 0 && i < size) return i;
    if (mode == Address::border) return -1;
    if (mode == Address::wrap && normalized) return (i % size + size) % size;
    if (mode == Address::mirror && normalized) {
        const int64_t j = (i % (2 * size) + 2 * size) % (2 * size);
        return j < size ? j : 2 * size - 1 - j;
    }
    return i < 0 ? 0 : size - 1;
}

inline double channel_at(const Texture &texture, int64_t x, int64_t y, int channel) {
    if (channel >= texture.channels) return 0.0;
    const bool normalized = texture.normalized_coordinates;
    const int64_t column = texel_index(x, texture.width, texture.address[0], normalized);
    const int64_t row = texel_index(y, texture.height, texture.address[1], normalized);
    if (column < 0 || row < 0) return static_cast<double>(texture.border[channel]);
    const char *data = reinterpret_cast<const char *>(texture.data);
    const char *texel = data + row * texture.pitch + column * texture.channels * (texture.bits / 8);
    return stored_channel(texture, texel, channel);
}

// floor(a) as an index. Coordinates beyond +-2^40, and NaN, are clamped: all indices that far outside are equivalent.
inline int64_t whole(double a) {
    constexpr double far = 1099511627776.0;
    return static_cast<int64_t>(floor(a > -far ? (a < far ? a : far) : -far));
}

inline double filtered_channel(const Texture &texture, float x, float y, int channel) {
    double u = static_cast<double>(x), v = static_cast<double>(y);
    if (texture.normalized_coordinates) {
        u *= texture.width;
        v *= texture.height;
    }
    if (!texture.linear) return channel_at(texture, whole(u), whole(v), channel);
    // Units are 1/256 texel, from the centre of texel 0.
    const double fine_u = floor((u - 0.5) * 256.0 + 0.5), fine_v = floor((v - 0.5) * 256.0 + 0.5);
    const int64_t i = whole(fine_u / 256.0), j = whole(fine_v / 256.0);
    const double a = fine_u / 256.0 - static_cast<double>(i), b = fine_v / 256.0 - static_cast<double>(j);
    const auto row = [&](int64_t y) {
        return (1 - a) * channel_at(texture, i, y, channel) + a * channel_at(texture, i + 1, y, channel);
    };
    return (1 - b) * row(j) + b * row(j + 1);
}

template <typename T, typename Read> T gathered(Read read) {
    using Channel = typename Channels<T>::type;
    Channel values[Channels<T>::count];
    for (int c = 0; c < Channels<T>::count; ++c) values[c] = static_cast<Channel>(read(c));
    T result;
    memcpy(&result, values, sizeof(T));
    return result;
}

inline const Texture &texture_of(cudaTextureObject_t handle) { return *reinterpret_cast<const Texture *>(handle); }

}  // namespace warpsmith_host

template <typename T> T tex2D(cudaTextureObject_t handle, float x, float y) {
    const auto &texture = ::warpsmith_host::texture_of(handle);
    return ::warpsmith_host::gathered<T>([&](int c) { return filtered_channel(texture, x, y, c); });
}

// Texel `i` of the first row, unfiltered; 0 outside.
template <typename T> T tex1Dfetch(cudaTextureObject_t handle, int i) {
    const auto &texture = ::warpsmith_host::texture_of(handle);
    if (i < 0 || i >= texture.width) return T{};
    return ::warpsmith_host::gathered<T>([&](int c) { return channel_at(texture, i, 0, c); });
}
