/// Nothing to call: the library is loaded before a program (LD_PRELOAD) and takes the place of its clock.
///
/// CLOCK_SHIFT_FILE names a file of 8 bytes, the seconds to add to the time of day, which may change at any moment. Clocks
/// that only count on are left alone. (libfaketime cannot do it: with jemalloc, as in Debian's redis-server, it calls itself
/// without end.)
