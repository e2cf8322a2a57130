//go:build !linux

package sysmem

// discard does nothing: only Linux says that pages of a file are dropped at once and
// come back unchanged.
func discard([]byte) {}

// prefault does nothing: pages come when they are touched.
func prefault([]byte) {}

// largePages does nothing, likewise.
func largePages([]byte) {}
