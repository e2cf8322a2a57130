package sysmem

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Memory is how many bytes of memory the machine has; 0 if that is not known.
//
// Source: GetPhysicallyInstalledSystemMemory of the Windows API, which answers in
// kilobytes.
func Memory() int64 {
	var kilobytes uint64
	ask := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetPhysicallyInstalledSystemMemory")
	if ask.Find() != nil {
		return 0
	}
	if ok, _, _ := ask.Call(uintptr(unsafe.Pointer(&kilobytes))); ok == 0 {
		return 0
	}
	return int64(kilobytes) << 10
}
