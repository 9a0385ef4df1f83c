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
