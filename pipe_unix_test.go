//go:build unix

package berth_test

import "syscall"

func makePipe(path string) error { return syscall.Mkfifo(path, 0o644) }
