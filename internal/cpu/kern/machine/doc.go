// Package machine is what all kernels build on: the levels of instructions of the
// processor, the worker pool, pieces of a workspace, errors about specifications and sizes.
//
// Best is the highest level of the machine, Active the one in use, Use switches
// (tests, benchmarks). The environment variable BERTH_CPU=generic|avx2|avx512
// lowers the level at start; StartError tells what was wrong with it. Plans and
// packed constants keep the level at which they were made.
//
// Parallel runs a Task's indices on one pool per process.
package machine
