package device

import (
	"errors"
	"fmt"
	"strings"
)

// NoDriverError says that the NVIDIA driver is not there, or cannot be loaded.
type NoDriverError struct {
	Library string
	Err     error // nil where the program has no binding to it
}

// Error names the library and what to do.
func (e *NoDriverError) Error() string {
	if e.Err == nil {
		return "this program has no binding to the NVIDIA driver: programs have one on Linux and Windows, amd64 and arm64, without the build tag nocuda; cuda-sim runs everywhere"
	}
	return fmt.Sprintf("no NVIDIA driver: load %s: %v; install the driver, or use the backend cuda-sim or cpu", e.Library, e.Err)
}

// Unwrap gives the loader's error.
func (e *NoDriverError) Unwrap() error { return e.Err }

// OldDriverError says that the driver cannot run the kernels.
type OldDriverError struct {
	Have    int    // version of CUDA as the driver counts, 12010 for 12.1
	Need    int    // version that the kernels need
	Missing string // a function that the driver lacks; empty if only the version is too low
}

// Error names both versions and what to do.
func (e *OldDriverError) Error() string {
	missing := ""
	if e.Missing != "" {
		missing = ", which has no " + e.Missing
	}
	return fmt.Sprintf("the NVIDIA driver is for CUDA %s%s; version %s or later is needed (driver 530)", version(e.Have), missing, version(e.Need))
}

func version(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// NoDeviceError says that there is no device of a number.
type NoDeviceError struct {
	Index   int
	Devices []string // the names of those that there are, by their numbers
}

// Error names the number and how many there are.
func (e *NoDeviceError) Error() string {
	if len(e.Devices) == 0 {
		return "the NVIDIA driver finds no GPU (is CUDA_VISIBLE_DEVICES empty?); use the backend cuda-sim or cpu"
	}
	list := make([]string, len(e.Devices))
	for i, name := range e.Devices {
		list[i] = fmt.Sprintf("%d: %s", i, name)
	}
	return fmt.Sprintf("there is no GPU %d: the driver finds %s", e.Index, strings.Join(list, ", "))
}

// OldDeviceError says that a GPU cannot run the kernels.
type OldDeviceError struct {
	Device       string
	Major, Minor int // compute capability
}

// Error names the GPU, what it is, and what to do.
func (e *OldDeviceError) Error() string {
	return fmt.Sprintf("%s has compute capability %d.%d; the kernels need 7.0 (Volta) or later; choose another GPU with CUDA_VISIBLE_DEVICES, or the backend cpu", e.Device, e.Major, e.Minor)
}

// MemoryError says that the device has too little memory, or the host too little that the device can copy from and to, or that a program
// may not take as much as it needs.
type MemoryError struct {
	What        string // what the memory is for; "" where it is only known how much
	Want        int64  // bytes that are needed; 0 where the driver does not tell, as of modules and graphs
	Free, Total int64  // of the device; 0 for memory of the host
	Host        bool   // it is memory of the host that is lacking
	Limit       int64  // of what the process may take on the device (WithDeviceMemory); 0 if that is not what is exceeded
	Used        int64  // of it

	// What a program needs, where it is refused before anything is uploaded. Their sum is Want, but for Workspace, which is in the arena.
	Weights, Arena, Workspace int64
}

// Error names how much is needed and how much there is.
func (e *MemoryError) Error() string {
	if e.Host {
		return fmt.Sprintf("out of pinned memory of the host: %d bytes for copies to and from the device are needed; end other programs, or raise the limit of locked memory", e.Want)
	}
	what := ""
	switch {
	case e.Weights+e.Arena > 0:
		what = fmt.Sprintf(" for a program: weights of %d, an arena of %d with %d of workspace in it", e.Weights, e.Arena, e.Workspace)
	case e.What != "":
		what = " for " + e.What
	}
	if e.Limit > 0 {
		return fmt.Sprintf("the limit of device memory is %d bytes, of which %d are in use: %d are needed%s; close what is not needed, or raise the limit (WithDeviceMemory, --device-memory of the command)",
			e.Limit, e.Used, e.Want, what)
	}
	if e.Want == 0 {
		return fmt.Sprintf("out of device memory%s; %d of %d bytes are free: close what is not needed, or end other programs on the GPU", what, e.Free, e.Total)
	}
	return fmt.Sprintf("out of device memory: %d bytes are needed%s, %d of %d are free", e.Want, what, e.Free, e.Total)
}

// IsFull says that others may give back what is lacking.
func (e *MemoryError) IsFull() bool { return e.Host || e.Want <= max(e.Total, e.Limit) }

// KernelError says that a launch failed.
type KernelError struct {
	Kernel string
	Err    error
}

// Error names the kernel and the cause.
func (e *KernelError) Error() string { return fmt.Sprintf("kernel %s failed: %v", e.Kernel, e.Err) }

// Unwrap gives the cause.
func (e *KernelError) Unwrap() error { return e.Err }

// DeviceLostError says that a fault has made the device unusable to what was made before, sessions, programs and tensors. Programs that are
// compiled later open it again.
type DeviceLostError struct {
	Device string
	Err    error // what the driver said first
}

// Error names the device, the cause and what to do.
func (e *DeviceLostError) Error() string {
	return fmt.Sprintf("%s is lost, by a fault of this or another run: %v; close sessions and tensors and compile the programs again, and restart the process if that fails",
		e.Device, e.Err)
}

// IsLost says that programs of the device are of no use any more.
func (*DeviceLostError) IsLost() bool { return true }

// Join is errors.Join, but that what follows the loss of a device is left out: all calls behind it fail for the same reason.
func Join(err, next error) error {
	if lost := (*DeviceLostError)(nil); errors.As(err, &lost) {
		return err
	}
	return errors.Join(err, next)
}

// Unwrap gives what the driver said.
func (e *DeviceLostError) Unwrap() error { return e.Err }

// PieceError is an error of a piece of work of a graph, where the device knows which.
type PieceError struct {
	Piece int // in the order in which they were asked for
	Err   error
}

// Error is that of the piece.
func (e *PieceError) Error() string { return e.Err.Error() }

// Unwrap gives it.
func (e *PieceError) Unwrap() error { return e.Err }

// CallError is what a call of the driver returned.
type CallError struct {
	Call string // cuMemAlloc_v2
	Code int32
	Text string // the driver's words
}

// Error names call, code and the driver's words.
func (e *CallError) Error() string { return fmt.Sprintf("%s gives %d: %s", e.Call, e.Code, e.Text) }
