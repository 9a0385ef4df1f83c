#pragma once
// hiredis 0.14 knows neither TLS nor an interruptible wait. gaplessd carries the bytes itself
// and borrows two parts that stand alone: the command formatter and the reply reader.
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
