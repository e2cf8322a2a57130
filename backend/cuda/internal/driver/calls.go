//go:build (linux || windows) && (amd64 || arm64) && !nocuda

package driver

import (
	"runtime"
	"slices"
	"sync"

	"github.com/ebitengine/purego"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// Results of the driver that have a meaning here: https://docs.nvidia.com/cuda/archive/12.1.1/cuda-driver-api/group__CUDA__TYPES.html
const (
	success     = 0
	outOfMemory = 2
	noDevice    = 100
	notReady    = 600
)

// lasting are the results after which a context is of no use: every later call gives one of them, too. The documentation says so of
// those from 226 on but 709, and of newer drivers' than the one that kernels need; the others leave no GPU or no context to ask.
var lasting = map[int32]string{
	4:   "CUDA_ERROR_DEINITIALIZED",
	201: "CUDA_ERROR_INVALID_CONTEXT",
	214: "CUDA_ERROR_ECC_UNCORRECTABLE",
	220: "CUDA_ERROR_NVLINK_UNCORRECTABLE",
	226: "CUDA_ERROR_CONTAINED",
	700: "CUDA_ERROR_ILLEGAL_ADDRESS",
	702: "CUDA_ERROR_LAUNCH_TIMEOUT",
	709: "CUDA_ERROR_CONTEXT_IS_DESTROYED",
	710: "CUDA_ERROR_ASSERT",
	714: "CUDA_ERROR_HARDWARE_STACK_ERROR",
	715: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	716: "CUDA_ERROR_MISALIGNED_ADDRESS",
	717: "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	718: "CUDA_ERROR_INVALID_PC",
	719: "CUDA_ERROR_LAUNCH_FAILED",
	721: "CUDA_ERROR_TENSOR_MEMORY_LEAK",
	810: "CUDA_ERROR_MPS_CLIENT_TERMINATED",
	911: "CUDA_ERROR_EXTERNAL_DEVICE",
}

// calls are the functions of libcuda that are used. Their suffixes are those of the header of CUDA 12; without one, a name is a
// superseded function with other types.
type calls struct {
	init               func(flags uint32) int32
	driverGetVersion   func(version *int32) int32
	getErrorString     func(code int32, text *uintptr) int32
	deviceGetCount     func(count *int32) int32
	deviceGet          func(dev *int32, index int32) int32
	deviceGetName      func(name *byte, size int32, dev int32) int32
	deviceGetAttribute func(value *int32, attribute int32, dev int32) int32
	retain             func(ctx *uintptr, dev int32) int32
	release            func(dev int32) int32
	setCurrent         func(ctx uintptr) int32
	memGetInfo         func(free, total *uint64) int32
	memAlloc           func(p *uint64, bytes uint64) int32
	memFree            func(p uint64) int32
	hostRegister       func(p *byte, bytes uint64, flags uint32) int32
	hostUnregister     func(p *byte) int32
	copyIn             func(to uint64, from *byte, bytes uint64, stream uintptr) int32
	copyOut            func(to *byte, from, bytes uint64, stream uintptr) int32
	copyInside         func(to, from, bytes uint64, stream uintptr) int32
	set8               func(p uint64, value uint8, bytes uint64, stream uintptr) int32
	streamCreate       func(stream *uintptr, flags uint32) int32
	streamDestroy      func(stream uintptr) int32
	beginCapture       func(stream uintptr, mode int32) int32
	endCapture         func(stream uintptr, graph *uintptr) int32
	captureInfo        func(stream uintptr, status *int32, id *uint64, graph *uintptr, nodes **uintptr, count *uint64) int32
	captureAfter       func(stream uintptr, nodes *uintptr, count uint64, flags uint32) int32
	moduleLoad         func(module *uintptr, image *byte, count uint32, options, values *uintptr) int32
	moduleGetFunction  func(fn *uintptr, module uintptr, name string) int32
	moduleUnload       func(module uintptr) int32
	launch             func(fn uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, params, extra *uintptr) int32
	graphInstantiate   func(exec *uintptr, graph uintptr, flags uint64) int32
	graphLaunch        func(exec, stream uintptr) int32
	graphExecDestroy   func(exec uintptr) int32
	graphDestroy       func(graph uintptr) int32
	eventCreate        func(event *uintptr, flags uint32) int32
	eventRecord        func(event, stream uintptr) int32
	eventQuery         func(event uintptr) int32
	eventElapsed       func(ms *float32, from, to uintptr) int32
	eventDestroy       func(event uintptr) int32
}

// names are the driver's names of the calls.
func (c *calls) names() map[string]any {
	return map[string]any{
		"cuInit": &c.init, "cuDriverGetVersion": &c.driverGetVersion, "cuGetErrorString": &c.getErrorString,
		"cuDeviceGetCount": &c.deviceGetCount, "cuDeviceGet": &c.deviceGet, "cuDeviceGetName": &c.deviceGetName,
		"cuDeviceGetAttribute":     &c.deviceGetAttribute,
		"cuDevicePrimaryCtxRetain": &c.retain, "cuDevicePrimaryCtxRelease_v2": &c.release, "cuCtxSetCurrent": &c.setCurrent,
		"cuMemGetInfo_v2": &c.memGetInfo, "cuMemAlloc_v2": &c.memAlloc, "cuMemFree_v2": &c.memFree,
		"cuMemHostRegister_v2": &c.hostRegister, "cuMemHostUnregister": &c.hostUnregister,
		"cuMemcpyHtoDAsync_v2": &c.copyIn, "cuMemcpyDtoHAsync_v2": &c.copyOut, "cuMemcpyDtoDAsync_v2": &c.copyInside,
		"cuMemsetD8Async": &c.set8,
		"cuStreamCreate":  &c.streamCreate, "cuStreamDestroy_v2": &c.streamDestroy,
		"cuStreamBeginCapture_v2": &c.beginCapture, "cuStreamEndCapture": &c.endCapture,
		"cuStreamGetCaptureInfo_v2": &c.captureInfo, "cuStreamUpdateCaptureDependencies": &c.captureAfter,
		"cuModuleLoadDataEx": &c.moduleLoad, "cuModuleGetFunction": &c.moduleGetFunction, "cuModuleUnload": &c.moduleUnload,
		"cuLaunchKernel":              &c.launch,
		"cuGraphInstantiateWithFlags": &c.graphInstantiate, "cuGraphLaunch": &c.graphLaunch,
		"cuGraphExecDestroy": &c.graphExecDestroy, "cuGraphDestroy": &c.graphDestroy,
		"cuEventCreate": &c.eventCreate, "cuEventRecord": &c.eventRecord, "cuEventQuery": &c.eventQuery,
		"cuEventElapsedTime": &c.eventElapsed, "cuEventDestroy_v2": &c.eventDestroy,
	}
}

// bound are the libraries that were opened, by name: *calls. A library stays open.
var bound sync.Map

// bind opens a library, once, and finds all calls.
func bind(library string) (*calls, error) {
	if known, ok := bound.Load(library); ok {
		return known.(*calls), nil
	}
	c, err := open(library)
	if err == nil {
		bound.Store(library, c)
	}
	return c, err
}

// open is bind for a library that is not bound. A driver that is too old is told by its version, also where it lacks a call.
func open(library string) (*calls, error) {
	handle, err := load(library)
	if err != nil {
		return nil, &device.NoDriverError{Library: library, Err: err}
	}
	c := &calls{}
	missing := []string{}
	for name, fn := range c.names() {
		at, err := symbol(handle, name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		purego.RegisterFunc(fn, at)
	}
	have := int32(0)
	if c.driverGetVersion != nil {
		if code := c.driverGetVersion(&have); code != success {
			return nil, &device.CallError{Call: "cuDriverGetVersion", Code: code, Text: "the version of the driver is not known"}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, &device.OldDriverError{Have: int(have), Need: needed, Missing: missing[0]}
	}
	if have < needed {
		return nil, &device.OldDriverError{Have: int(have), Need: needed}
	}
	return c, nil
}

// failure is the error of a call's result; nil for success.
func (c *calls) failure(call string, code int32) error {
	if code == success {
		return nil
	}
	var at uintptr
	text := "no description"
	if c.getErrorString(code, &at) == success && at != 0 {
		text = stringAt(at)
	}
	return &device.CallError{Call: call, Code: code, Text: text}
}

// on makes a call with a context current on the thread.
func (c *calls) on(ctx uintptr, call string, f func() int32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.failure("cuCtxSetCurrent", c.setCurrent(ctx)); err != nil {
		return err
	}
	return c.failure(call, f())
}
