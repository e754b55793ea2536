/* Makes one of the system calls of a process fail: an LD_PRELOAD library for loop_syscalls.py.

   `calls_arm(first, last, number, kinds)` counts from then on the calls of the kinds, and lets those from `first` to
   `last` fail with the error `number`. `calls_count()` says how many there were. Another process, also one that this one
   starts, is not armed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { READS = 1, WRITES = 2, MAKES = 4, MAPS = 8, REMOVES = 16 };

static atomic_long count, first = 0, last = -1;
static atomic_int number, kinds;

void calls_arm(long from, long to, int error, int which) {
    count = 0;
    number = error;
    kinds = which;
    first = from;
    last = to;
}

long calls_count(void) { return count; }

static int fails(int kind) {
    if (last < 0 || !(kinds & kind)) return 0;
    long mine = ++count;
    if (mine < first || mine > last) return 0;
    errno = number;
    return 1;
}

#define REAL(name, result, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define WRAP(kind, failed, name, result, types, names) \
    result name types { \
        static result(*real) types; \
        if (!real) real = (result(*) types)dlsym(RTLD_NEXT, #name); \
        return fails(kind) ? failed : real names; \
    }

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name, int, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return fails(flags & (O_WRONLY | O_RDWR | O_CREAT) ? MAKES : READS) ? -1 : real(path, flags, mode); \
    }

#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(name, int, int, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return fails(flags & (O_WRONLY | O_RDWR | O_CREAT) ? MAKES : READS) ? -1 : real(folder, path, flags, mode); \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

WRAP(READS, -1, read, ssize_t, (int file, void *to, size_t size), (file, to, size))
WRAP(READS, -1, pread, ssize_t, (int file, void *to, size_t size, off_t at), (file, to, size, at))
WRAP(READS, -1, pread64, ssize_t, (int file, void *to, size_t size, off64_t at), (file, to, size, at))
WRAP(WRITES, -1, write, ssize_t, (int file, const void *from, size_t size), (file, from, size))
WRAP(WRITES, -1, pwrite, ssize_t, (int file, const void *from, size_t size, off_t at), (file, from, size, at))
WRAP(WRITES, -1, pwrite64, ssize_t, (int file, const void *from, size_t size, off64_t at), (file, from, size, at))
WRAP(WRITES, -1, fsync, int, (int file), (file))
WRAP(WRITES, -1, fdatasync, int, (int file), (file))
WRAP(WRITES, -1, ftruncate, int, (int file, off_t size), (file, size))
WRAP(WRITES, -1, ftruncate64, int, (int file, off64_t size), (file, size))
WRAP(MAKES, -1, rename, int, (const char *from, const char *to), (from, to))
WRAP(REMOVES, -1, unlink, int, (const char *path), (path))
WRAP(MAKES, -1, mkdir, int, (const char *path, mode_t mode), (path, mode))
WRAP(REMOVES, -1, rmdir, int, (const char *path), (path))
WRAP(REMOVES, -1, fchmod, int, (int file, mode_t mode), (file, mode))
WRAP(REMOVES, -1, chmod, int, (const char *path, mode_t mode), (path, mode))
WRAP(MAKES, -1, pipe2, int, (int ends[2], int flags), (ends, flags))
/* Of files alone: CPython 3.12 waits for ever for a thread that gets no memory for its first frame. */
#define MAPS_FILE(name, offset) \
    void *name(void *at, size_t size, int rights, int flags, int file, offset start) { \
        REAL(name, void *, void *, size_t, int, int, int, offset); \
        return file >= 0 && fails(MAPS) ? MAP_FAILED : real(at, size, rights, flags, file, start); \
    }

MAPS_FILE(mmap, off_t)
MAPS_FILE(mmap64, off64_t)
WRAP(MAPS, -1, fork, pid_t, (void), ())

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *value) {
    REAL(pthread_create, int, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return fails(MAPS) ? EAGAIN : real(thread, attributes, start, value);
}
