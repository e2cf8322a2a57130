#define HALF
#define FLOAT16
#include "attention.cu"
