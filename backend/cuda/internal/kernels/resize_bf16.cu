#define HALF
#define BFLOAT16
#include "resize.cu"
