#define HALF
#define FLOAT16
#include "gemm.cu"
