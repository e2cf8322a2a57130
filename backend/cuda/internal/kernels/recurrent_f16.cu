#define HALF
#define FLOAT16
#include "recurrent.cu"
