//go:build !unix

package main

import "runtime"

// peakRSS is what the Go runtime took from the system, where the system's own
// figure is not available.
func peakRSS() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}

// residentNow is the same: there is no other figure.
func residentNow() int64 { return peakRSS() }
