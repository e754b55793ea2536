// Tensor maps of images, by which TMA copies the pixels that a filter tap reads: PTX manual, cp.async.bulk.tensor,
// im2col mode, with lines of 128 bytes of channels and the 128-byte swizzle.
#pragma once

// Layout written by descriptors.py. Rows come before columns.
struct TensorMap {
    uint64_t data;
    int images, rows, columns, channels;
    int first[2], extent[2], step[2];  // of the window: in pixels, in positions, in pixels per position
    int channels_of_copy, pixels_of_copy, bytes;
    int unused[17];
};
static_assert(sizeof(TensorMap) == 128, "as large as on a GPU");

inline void prefetch(const TensorMap &) {}

// Copies channels of the pixels at consecutive positions, starting at a position given by its pixel. The pixels read
// lie `rows_on` rows and `columns_on` columns further.
inline void tma_load_im2col(void *shared, const TensorMap &map, int channel, int column, int row, int image, int columns_on,
                           int rows_on, Mbarrier *barrier) {
    const int line = map.channels_of_copy * map.bytes;
    if (reinterpret_cast<uintptr_t>(shared) % 1024 != 0 || line != 128) {
        ::warpsmith_host::stop("tma_load_im2col: lines of 128 bytes are exchanged within 1024, where a copy begins");
    }
    if (columns_on < 0 || columns_on > 255 || rows_on < 0 || rows_on > 255) {
        ::warpsmith_host::stop("tma_load_im2col: offsets have 8 bits");
    }
    const int last_row = map.first[0] + (map.extent[0] - 1) * map.step[0];
    const int last_column = map.first[1] + (map.extent[1] - 1) * map.step[1];
    for (int pixel = 0; pixel < map.pixels_of_copy; ++pixel) {
        const int y = row + rows_on, x = column + columns_on;
        const bool is_pixel = image < map.images && y >= 0 && y < map.rows && x >= 0 && x < map.columns;
        const int64_t place = is_pixel ? (static_cast<int64_t>(image) * map.rows + y) * map.columns + x : 0;
        for (int byte = 0; byte < line; byte += 16) {
            char sixteen[16] = {};
            const int first = channel + byte / map.bytes, count = min(map.channels - first, 16 / map.bytes);
            if (is_pixel && count > 0) {
                memcpy(sixteen, reinterpret_cast<const char *>(map.data) + (place * map.channels + first) * map.bytes,
                       static_cast<size_t>(count * map.bytes));
            }
            const uintptr_t target = reinterpret_cast<uintptr_t>(shared) + static_cast<uintptr_t>(128 * pixel + byte);
            memcpy(reinterpret_cast<char *>(target ^ (target >> 7 & 7) << 4), sixteen, sizeof sixteen);
        }
        if ((column += map.step[1]) > last_column) {
            column = map.first[1];
            if ((row += map.step[0]) > last_row) {
                row = map.first[0];
                ++image;
            }
        }
    }
    barrier->bytes -= map.pixels_of_copy * line;
    ::warpsmith_host::end_phase_if_done(barrier);
}

inline bool is_elected() { return ::warpsmith_host::here.thread.x % 32 == 0; }
