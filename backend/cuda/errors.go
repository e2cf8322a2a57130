package cuda

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// Errors of compiling and of sessions, all pointers. What a kernel reports while it runs is a [KernelError].
type (
	// NoDriverError says that the NVIDIA driver is not there, or cannot be loaded. Its fields:
	//
	//	Library string // that was looked for
	//	Err     error  // of the system's loader; nil where the program has no binding to the driver
	NoDriverError = device.NoDriverError

	// OldDriverError says that the driver cannot run the kernels. Its fields:
	//
	//	Have    int    // version of CUDA that the driver is for, 12010 for 12.1
	//	Need    int    // version that the kernels need
	//	Missing string // a function that the driver lacks; "" if only the version is too low
	OldDriverError = device.OldDriverError

	// NoDeviceError says that there is no GPU of a number. Its fields:
	//
	//	Index   int      // that was asked for
	//	Devices []string // the names of those that there are, by their numbers
	NoDeviceError = device.NoDeviceError

	// OldDeviceError says that the GPU cannot run the kernels. Its fields:
	//
	//	Device string // its name
	//	Major  int    // of its compute capability, which has to be 7 or more
	//	Minor  int
	OldDeviceError = device.OldDeviceError

	// MemoryError says that the GPU has too little memory, or that a limit (berth.WithDeviceMemory) allows too little, or that there is too
	// little pinned memory of the host. Its fields:
	//
	//	What      string // what the memory is for; "" where it is only known how much
	//	Want      int64  // bytes that are needed; 0 where the driver does not tell, as of modules and graphs
	//	Free      int64  // bytes of the GPU that are free; 0 for memory of the host
	//	Total     int64  // bytes that it has; 0 for memory of the host
	//	Host      bool   // it is pinned memory of the host that is lacking
	//	Limit     int64  // of what the process may take on the GPU; 0 if that is not what is exceeded
	//	Used      int64  // of the limit
	//	Weights   int64  // what a program needs that is refused before anything is uploaded: its weights
	//	Arena     int64  // and the arena of a session; with the weights, this is Want
	//	Workspace int64  // of kernels, a part of the arena
	MemoryError = device.MemoryError

	// DeviceLostError says that a fault has made the GPU unusable to what was made before: sessions, programs and tensors. Programs that are
	// compiled later open it again. Its fields:
	//
	//	Device string // its name
	//	Err    error  // what the driver said first
	DeviceLostError = device.DeviceLostError

	// KernelError says that a kernel failed. Its fields:
	//
	//	Kernel string // its name; where a graph failed, those of its first and last
	//	Err    error  // the cause: on cuda-sim with line, block and thread, on a GPU what the driver says
	KernelError = device.KernelError
)
