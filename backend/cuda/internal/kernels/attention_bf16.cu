#define HALF
#define BFLOAT16
#include "attention.cu"
