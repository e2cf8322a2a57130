// Package device is the border between what runs on a GPU and the GPU: memory, copies, modules of PTX, launches, graphs, events. The
// driver is one side of it, the interpreter of PTX another. It knows nothing of ONNX.
package device

import (
	"context"
	"time"
)

// Pointer is an address in the device's memory; 0 is none.
type Pointer uint64

// Device is one GPU, or what stands for one. Work is done in the order in which it is asked for; copies, launches and graphs may
// return before it is done, and Wait of an event says when it is. Methods may be called from any goroutine: those that ask for work (copies,
// Zero, Launch, Capture, After, Record of an event, Run of a graph) one at a time, the others at any time.
// An error after which nothing can be asked of the device any more is a [DeviceLostError]; what the device has too little memory for is a
// [MemoryError].
type Device interface {
	// Info says what the device is.
	Info() Info
	// Memory says how many bytes are free, and how many there are.
	Memory() (free, total int64, err error)
	// Alloc gives memory, aligned to 256 bytes.
	Alloc(bytes int64) (Pointer, error)
	// Free gives memory back that no work in progress uses. It may wait for all other work that is in progress.
	Free(p Pointer) error
	// AllocHost gives memory of the host that the device copies from and to directly (pinned memory). It is the program's: it can be read and
	// written as long as it is reachable, also when the device is lost or closed.
	AllocHost(bytes int64) ([]byte, error)
	// FreeHost gives it back.
	FreeHost(b []byte) error
	// CopyIn copies from the host. Bytes that are not of AllocHost have been read when it returns.
	CopyIn(to Pointer, from []byte) error
	// CopyOut copies to the host; the bytes are there when it is done.
	CopyOut(to []byte, from Pointer) error
	// Copy copies inside the device, between ranges that do not overlap.
	Copy(to, from Pointer, bytes int64) error
	// Zero has all bytes of a range be 0.
	Zero(p Pointer, bytes int64) error
	// Load compiles a module of PTX for the device.
	Load(ptx string) (Module, error)
	// Launch starts a kernel. A failing one is a [KernelError], here or at a later call.
	Launch(l *Launch) error
	// Capture calls ask, which asks for copies and launches; they are not done but become a graph. What it copies from and to on the
	// host is memory of AllocHost, and is read and written when the graph runs.
	Capture(ask func() error) (Graph, error)
	// After says what the next piece of work of a graph waits for: earlier ones, by their numbers in the order in which they were asked
	// for. It is called before every piece or before none; then each waits for the one before it.
	After(pieces []int) error
	// NewEvent makes a mark in the order of work, which has a time if isTimed.
	NewEvent(isTimed bool) (Event, error)
	// Close gives everything back when the calls in progress have returned. What is called later is a [DeviceLostError].
	Close() error
}

// Info describes a device.
type Info struct {
	Name           string
	Major, Minor   int // compute capability: 8 and 6 for sm_86
	Processors     int // streaming multiprocessors
	ClockKHz       int // at most, of the multiprocessors
	MemoryClockKHz int
	MemoryBusBits  int
}

// Work is what kernels have done, where a device counts that.
type Work struct {
	Operations   int64 // on floats; a fused multiply-add is two
	Instructions int64 // of warps
	Traffic      int64 // bytes of the pieces of 32 that warps have read and written in memory
}

// Module is compiled PTX.
type Module interface {
	// Kernel finds a kernel by its name.
	Kernel(name string) (Kernel, error)
	// Unload gives the module back.
	Unload() error
}

// Kernel is a function of a module that can be launched on the device that loaded it.
type Kernel interface{ Name() string }

// Launch is a kernel with its grid and arguments.
type Launch struct {
	Kernel      Kernel
	Grid, Block [3]int
	Args        []byte          // the arguments one after another, each at a multiple of its size
	Context     context.Context // ends a kernel early where that is possible; nil: none does; a graph has its own
	Windows     []Window        // the memory that the kernel touches; what lies outside is an error where that is checked
	Fresh       []Window        // where values begin with the launch: what it leaves out there has none, where that is checked
}

// Window is a range of memory that a kernel may touch.
type Window struct {
	Name      string
	Base      Pointer
	Bytes     int64
	IsRead    bool
	IsWritten bool
	Commutes  bool // it does not matter in which order kernels touch it that say so
	Arg       int  // one more than where, in Args, its address is; 0: addresses of any origin may lie in it
}

// Graph is work that is asked for at once.
type Graph interface {
	// Run does the work of the graph, behind what was asked for before. ctx ends kernels early where that is possible.
	Run(ctx context.Context) error
	// Close gives the graph back.
	Close() error
}

// Event is a mark in the order of work.
type Event interface {
	// Record marks the end of what has been asked for.
	Record() error
	// Wait returns when the work before the mark is done, or with the error of ctx; the work then goes on, and nothing waits for it.
	Wait(ctx context.Context) error
	// Since is the time between two timed marks, the work before which is done.
	Since(earlier Event) (time.Duration, error)
	// Close gives the event back, that nobody is waiting for. The work before the mark need not be done.
	Close() error
}
