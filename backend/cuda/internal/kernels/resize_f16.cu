#define HALF
#define FLOAT16
#include "resize.cu"
