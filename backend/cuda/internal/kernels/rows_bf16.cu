#define HALF
#define BFLOAT16
#include "rows.cu"
