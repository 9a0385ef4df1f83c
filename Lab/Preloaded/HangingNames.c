// A resolver that hangs, for a program that loads this library with LD_PRELOAD.
//
// HANGING_NAMES_FILE names a file of 8 bytes: while the number is not 0, getaddrinfo(3) of a name does not return. Numeric
// addresses need no resolver. The number may change at any time.
#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t *hangs;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("HANGING_NAMES_FILE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof(*hangs), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) hangs = page;
    close(file);
}

int getaddrinfo(
    const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
    struct addrinfo **restrict list) {
    int (*look_up)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo numeric = {0};
    if (hints) numeric = *hints;
    numeric.ai_flags |= AI_NUMERICHOST;
    int status = look_up(node, service, &numeric, list);
    if (status != EAI_NONAME || (hints && hints->ai_flags & AI_NUMERICHOST)) return status;
    while (hangs && atomic_load(hangs)) usleep(10000);
    return look_up(node, service, hints, list);
}
