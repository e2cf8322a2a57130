#define HALF
#define FLOAT16
#include "conv.cu"
