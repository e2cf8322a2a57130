#define HALF
#define FLOAT16
#include "rows.cu"
