/// Nothing to call: the library is loaded before a program (LD_PRELOAD) and stands in for a system that gives no more threads.
///
/// THREAD_LIMIT_FILE names a file of 8 bytes, how many threads the program may still make, which may change at any moment; below
/// 0 is any number. Then pthread_create fails with EAGAIN. (RLIMIT_NPROC binds no root, and counts what else a user runs.)
