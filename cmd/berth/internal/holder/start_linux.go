//go:build amd64 || arm64

package holder

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/berth-onnx/berth/internal/sysmem"
)

// sleeping is how long the other process waits for this one to end, which takes a millisecond or two.
var sleeping = unix.Timespec{Nsec: 50e6}

const (
	// worth is the resident memory from which giving it back takes long, in bytes.
	worth = 256 << 20
	// keptFrom is the first number that a file gets which stays open.
	keptFrom = 1000
)

// Start starts the process that holds memory and files, if they are large. The caller ends right after.
func Start() {
	mu.Lock()
	defer mu.Unlock()
	if len(files) == 0 && sysmem.ResidentNow() < worth {
		return
	}
	for _, f := range files {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, keptFrom) // what can not be held is closed with this process
	}
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

// hold starts a process that shares the memory of this one, closes the standard streams and all other files below keptFrom, sleeps and ends. It returns its number, or an
// error as negative.
//
//go:noescape
func hold(sleep *unix.Timespec) int
