package safefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriting begins to bring a part of a file to the disk. Neither it nor awaitWriting makes anything durable, which is fsync's
// part, and errors of the disk are told there.
func startWriting(f *os.File, from, n int64) {
	unix.SyncFileRange(int(f.Fd()), from, n, unix.SYNC_FILE_RANGE_WRITE)
}

// awaitWriting waits until what was begun is done.
func awaitWriting(f *os.File, from, n int64) {
	if n > 0 { // 0 is all of the file
		unix.SyncFileRange(int(f.Fd()), from, n, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
	}
}
