//go:build !linux && !darwin && !windows

package sysmem

// Memory is how many bytes of memory the machine has; here that is not known.
func Memory() int64 { return 0 }
