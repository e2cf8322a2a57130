//go:build !unix

package sysmem

import "runtime"

// PeakResident is what the Go runtime took from the system, where the system's own
// figure is not available.
func PeakResident() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}

// ResidentNow is the same: there is no other figure.
func ResidentNow() int64 { return PeakResident() }
