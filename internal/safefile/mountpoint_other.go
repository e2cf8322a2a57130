//go:build !linux

package safefile

// isMountPoint is false: only Linux mounts single files and says so.
func isMountPoint(string) bool { return false }
