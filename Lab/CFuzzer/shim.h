#include <stddef.h>
#include <stdint.h>

// The entry of libFuzzer without its own main (compiler-rt, FuzzerInterface.h).
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*target)(const uint8_t *data, size_t size));
