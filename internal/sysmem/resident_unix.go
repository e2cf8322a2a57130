//go:build unix && !linux

package sysmem

import (
	"runtime"
	"syscall"
)

// PeakResident is the largest resident size of the process so far, in bytes.
func PeakResident() int64 {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(ru.Maxrss)
	}
	return int64(ru.Maxrss) * 1024
}

// ResidentNow is the same: there is no other figure.
func ResidentNow() int64 { return PeakResident() }
