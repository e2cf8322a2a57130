//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package safefile

import (
	"os"
	"syscall"
	"time"
)

// renamesOpen says that a file can be renamed and removed while it is open, and so keeps its lock.
const renamesOpen = true

// lockWait is how long a writer waits for another one to create or rename its files before it goes on without the lock.
var lockWait = 5 * time.Second

// lockFolder excludes other writers of a folder until unlock is called. It fails where a folder can not be read or locked
// (NFS), or another program keeps it locked.
func lockFolder(dir string) (unlock func(), locked bool) {
	d, err := os.Open(dir)
	if err != nil {
		return func() {}, false
	}
	end := time.Now().Add(lockWait)
	for err = flock(d); err == syscall.EWOULDBLOCK && time.Now().Before(end); err = flock(d) {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		d.Close()
		return func() {}, false
	}
	return func() { d.Close() }, true
}

// lockFile says that a temporary file is in use until it is closed, also by the end of the process.
func lockFile(f *os.File) { _ = flock(f) }

// isLeftOver reports that the process that made a temporary file has ended: no process has it locked.
func isLeftOver(path string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return flock(f) == nil
}

// flock takes a lock that belongs to the open file, or fails at once.
func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EINTR {
			return err
		}
	}
}
