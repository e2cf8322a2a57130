#define HALF
#define BFLOAT16
#include "recurrent.cu"
