// Replaces the clock of a program that loads this library with LD_PRELOAD.
//
// CLOCK_SHIFT_FILE names a file of 8 bytes: the seconds to add to the time of day. The number may change at any time.
// CLOCK_STILL_FILE names a file of 8 bytes: the time of day in microseconds since 1970, which then passes only with this number.
// Monotonic clocks stay unchanged. (libfaketime does not work with jemalloc, as in Debian's redis-server: it recurses forever.)
#define _GNU_SOURCE

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *shift;
static volatile const int64_t *still;

static const int64_t *map_file(const char *variable) {
    const char *path = getenv(variable);
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return NULL;
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return page == MAP_FAILED ? NULL : page;
}

// Runs before main, and without malloc: the allocator reads the time while it initialises.
__attribute__((constructor)) static void map_files(void) {
    shift = map_file("CLOCK_SHIFT_FILE");
    still = map_file("CLOCK_STILL_FILE");
}

static int64_t seconds(void) { return shift ? *shift : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return status;
    now->tv_sec += seconds();
    if (still) {
        int64_t time = *still;
        now->tv_sec = time / 1000000;
        now->tv_nsec = time % 1000000 * 1000;
    }
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
