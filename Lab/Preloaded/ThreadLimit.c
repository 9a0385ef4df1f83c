// Limits the threads of a program that loads this library with LD_PRELOAD, as a system without free threads would.
//
// THREAD_LIMIT_FILE names a file of 8 bytes: how many threads the program may still start. The number may change at any time; a
// negative number removes the limit. At 0, pthread_create fails with EAGAIN. (RLIMIT_NPROC does not apply to root, and counts
// the other processes of a user.)
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t *left;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("THREAD_LIMIT_FILE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) left = page;
    close(file);
}

static int may_start(void) {
    if (!left) return 1;
    int64_t now = atomic_load(left);
    while (now > 0) {
        if (atomic_compare_exchange_weak(left, &now, now - 1)) return 1;
    }
    return now < 0;
}

int pthread_create(
    pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*body)(void *), void *restrict context) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    return may_start() ? create(thread, attributes, body, context) : EAGAIN;
}
