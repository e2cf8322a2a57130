// Package driver is an NVIDIA GPU: libcuda, opened while running, without a C compiler at build time. Nothing but the driver needs
// to be installed.
//
// All calls that do work name one stream, so work is done in the order in which it is asked for. A context belongs to a thread of the
// system, and goroutines move between threads, so every call makes the context current on its thread first. It stays current there
// after the call, as the driver's runtime leaves its own; other bindings in the process do the same before their calls, or have to.
package driver

// needed is the CUDA version of the first driver that reads the PTX that berth is committed with: 12.1, PTX 8.1.
const needed = 12010

// oldest is the major compute capability of the first GPUs that have the instructions of the kernels.
const oldest = 7
