//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package safefile

import (
	"context"
	"os"
	"time"
)

// renamesOpen says that a file can be renamed and removed while it is open.
const renamesOpen = false

// leftOverAfter is the age from which a temporary file is taken for left over: Windows does not remove it while it is open,
// and between closing and renaming there is no work.
const leftOverAfter = time.Hour

// lockFolder excludes no other writer: temporary files in use are told from left-over ones by age alone.
func lockFolder(context.Context, *time.Duration, string) (unlock func(), locked bool) {
	return func() {}, true
}

func lockFile(*os.File) {}

// isLeftOver reports that a temporary file has not been written to for long.
func isLeftOver(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > leftOverAfter
}
