#pragma once
// Only the reply reader (read.h) is used. hiredis 0.14 has no TLS, and a wait of it cannot be interrupted;
// gaplessd therefore reads, writes and formats commands itself.
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
