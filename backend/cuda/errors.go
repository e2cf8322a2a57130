package cuda

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// Errors of compiling and of sessions. What a kernel reports while it runs is a [KernelError].
type (
	// NoDriverError says that the NVIDIA driver is not there, or cannot be loaded.
	NoDriverError = device.NoDriverError
	// OldDriverError says that the driver cannot run the kernels.
	OldDriverError = device.OldDriverError
	// NoDeviceError says that there is no GPU of a number.
	NoDeviceError = device.NoDeviceError
	// OldDeviceError says that the GPU cannot run the kernels.
	OldDeviceError = device.OldDeviceError
	// MemoryError says that the GPU has too little memory.
	MemoryError = device.MemoryError
	// DeviceLostError says that a fault has made the GPU unusable to what was made before.
	DeviceLostError = device.DeviceLostError
	// KernelError says that a kernel failed.
	KernelError = device.KernelError
)
