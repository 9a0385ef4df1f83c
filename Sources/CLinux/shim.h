#pragma once
// What Swift's Glibc module leaves out.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <netinet/tcp.h>
#include <time.h>

// glibc declares these only under _GNU_SOURCE, which Swift's importer does not set.
extern int ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
extern int pthread_setname_np(pthread_t thread, const char *name);
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int first);
extern char *strptime(const char *text, const char *format, struct tm *parts);
extern int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags);

// Receives a datagram of a socket with SO_PASSCRED, and the process that sent it: 0 if the kernel does not name it (unix(7)).
// glibc declares struct ucred and SCM_CREDENTIALS (2) only under _GNU_SOURCE.
static inline ssize_t gapless_receive(int descriptor, void *bytes, size_t size, pid_t *sender) {
    struct { pid_t pid; uid_t uid; gid_t gid; } who = {0, 0, 0};
    union { char bytes[CMSG_SPACE(sizeof who)]; struct cmsghdr alignment; } control;
    struct iovec part = {bytes, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t count = recvmsg(descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *sender = 0;
    if (count < 0) return count;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != 2) continue;
        __builtin_memcpy(&who, CMSG_DATA(head), sizeof who);
        *sender = who.pid;
    }
    return count;
}
