#define HALF
#define BFLOAT16
#include "gemm.cu"
