//go:build amd64 || arm64

package holder

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// sleeping is how long the other process waits for this one to end, which takes a millisecond or two.
var sleeping = unix.Timespec{Nsec: 50e6}

// Start starts the process that holds memory and files. The caller ends right after.
func Start() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old) != nil { // no handler of this process may run in the other
		return
	}
	hold(&sleeping)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
}

// hold starts a process that shares the memory of this one, closes the standard streams, sleeps and ends. It returns its number, or an
// error as negative.
//
//go:noescape
func hold(sleep *unix.Timespec) int
