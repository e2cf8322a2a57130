#define HALF
#define BFLOAT16
#include "conv.cu"
