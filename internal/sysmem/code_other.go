//go:build !linux

package sysmem

// DropCode does nothing where the system does not say what is mapped.
func DropCode() {}
