// A libcuda that records its calls. Memory of the device is memory of the host; a call fails if it is told to.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char record[1 << 16];
static size_t used;
static char failing[64];
static int code, version = 12010, devices = 2, capturing;

#define NOTE(...) (used += snprintf(record + used, sizeof record - used, __VA_ARGS__))
#define CALL(name, ...) do { NOTE(#name " " __VA_ARGS__); NOTE("\n"); if (!strcmp(failing, #name)) return code; } while (0)

const char *stub_record(void) { return record; }
void stub_reset(const char *fail, int with, int v, int n) {
  used = 0, record[0] = 0, code = with, version = v, devices = n, capturing = 0;
  snprintf(failing, sizeof failing, "%s", fail);
}

int cuDriverGetVersion(int *v) { *v = version; CALL(cuDriverGetVersion); return 0; }
int cuInit(unsigned flags) { CALL(cuInit, "%u", flags); return 0; }
int cuGetErrorString(int c, const char **text) { *text = c == 2 ? "out of memory" : c == 700 ? "an illegal memory access was encountered" : "some error"; return 0; }
int cuDeviceGetCount(int *n) { *n = devices; CALL(cuDeviceGetCount); return 0; }
int cuDeviceGet(int *d, int i) { *d = 40 + i; CALL(cuDeviceGet, "%d", i); return 0; }
int cuDeviceGetName(char *name, int n, int d) { snprintf(name, n, "Stub %d", d); CALL(cuDeviceGetName, "%d", d); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 8 ? 49152 : a; (void)d; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)0x77; CALL(cuDevicePrimaryCtxRetain, "%d", d); return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { CALL(cuDevicePrimaryCtxRelease_v2, "%d", d); return 0; }
int cuCtxSetCurrent(void *c) { return c == (void *)0x77 ? 0 : 201; }
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = 1000, *t = 5000; CALL(cuMemGetInfo_v2); return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { CALL(cuMemAlloc_v2, "%zu", n); *p = (uint64_t)malloc(n); return 0; }
int cuMemFree_v2(uint64_t p) { CALL(cuMemFree_v2); free((void *)p); return 0; }
int cuMemAllocHost_v2(void **p, size_t n) { CALL(cuMemAllocHost_v2, "%zu", n); *p = malloc(n); return 0; }
int cuMemFreeHost(void *p) { CALL(cuMemFreeHost); free(p); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) { CALL(cuMemcpyHtoDAsync_v2, "%zu stream %p", n, s); if (!capturing) memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) { CALL(cuMemcpyDtoHAsync_v2, "%zu stream %p", n, s); if (!capturing) memcpy(to, (void *)from, n); return 0; }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) { CALL(cuMemcpyDtoDAsync_v2, "%zu stream %p", n, s); if (!capturing) memcpy((void *)to, (void *)from, n); return 0; }
int cuStreamCreate(void **s, unsigned flags) { *s = (void *)0x55; CALL(cuStreamCreate, "%u", flags); return 0; }
int cuStreamDestroy_v2(void *s) { CALL(cuStreamDestroy_v2, "%p", s); return 0; }
int cuStreamSynchronize(void *s) { CALL(cuStreamSynchronize, "%p", s); return 0; }
int cuStreamBeginCapture_v2(void *s, int mode) { CALL(cuStreamBeginCapture_v2, "%p %d", s, mode); capturing = 1; return 0; }
int cuStreamEndCapture(void *s, void **g) { *g = (void *)0x66; capturing = 0; CALL(cuStreamEndCapture, "%p", s); return 0; }
int cuModuleLoadDataEx(void **m, const void *image, unsigned n, const int *options, void **values) {
  *m = (void *)0x33;
  if (!strcmp(failing, "cuModuleLoadDataEx")) snprintf(values[0], (size_t)values[1], "line 3: what is this?");
  CALL(cuModuleLoadDataEx, "%s, %u options %d %d", (const char *)image, n, options[0], options[1]);
  return 0;
}
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = (void *)0x44; CALL(cuModuleGetFunction, "%p %s", m, name); return 0; }
int cuModuleUnload(void *m) { CALL(cuModuleUnload, "%p", m); return 0; }
int cuFuncSetAttribute(void *f, int a, int v) { CALL(cuFuncSetAttribute, "%p %d %d", f, a, v); return 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **params, void **extra) {
  NOTE("args");
  for (size_t i = 0; i < *(size_t *)extra[3]; i++) NOTE(" %02x", ((unsigned char *)extra[1])[i]);
  NOTE(" as %d %d %d\n", (int)(intptr_t)extra[0], (int)(intptr_t)extra[2], (int)(intptr_t)extra[4]);
  CALL(cuLaunchKernel, "%p grid %u %u %u block %u %u %u shared %u stream %p params %d", f, gx, gy, gz, bx, by, bz, shared, s, params != 0);
  return 0;
}
int cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long flags) { *e = (void *)0x99; CALL(cuGraphInstantiateWithFlags, "%p %llu", g, flags); return 0; }
int cuGraphLaunch(void *e, void *s) { CALL(cuGraphLaunch, "%p %p", e, s); return 0; }
int cuGraphExecDestroy(void *e) { CALL(cuGraphExecDestroy, "%p", e); return 0; }
int cuGraphDestroy(void *g) { CALL(cuGraphDestroy, "%p", g); return 0; }
int cuEventCreate(void **e, unsigned flags) { *e = (void *)0x22; CALL(cuEventCreate, "%u", flags); return 0; }
int cuEventRecord(void *e, void *s) { CALL(cuEventRecord, "%p %p", e, s); return 0; }
int cuEventSynchronize(void *e) { CALL(cuEventSynchronize, "%p", e); return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 1.5f; CALL(cuEventElapsedTime, "%p %p", a, b); return 0; }
#ifndef WITHOUT_EVENTS
int cuEventDestroy_v2(void *e) { CALL(cuEventDestroy_v2, "%p", e); return 0; }
#endif
