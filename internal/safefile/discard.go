package safefile

import (
	"context"
	"os"
	"path/filepath"
	"sync"
)

// largeFile is the size from which it takes long to give a removed file back: 65 to 200 ms per GB on ext4, for its pages and blocks. The
// system does it when the last one closes the file.
const largeFile = 16 << 20

// CloseRemoved closes a large file that was removed because a context has ended: nobody waits for it. A process that ends then would, and
// replaces this before it writes files.
var CloseRemoved = func(f *os.File) { go f.Close() }

// discard removes a file and closes it.
func discard(ctx context.Context, f *os.File) {
	if !renamesOpen {
		f.Close()
		os.Remove(f.Name())
		return
	}
	os.Remove(f.Name())
	if info, err := f.Stat(); err == nil && info.Size() >= largeFile && ctx.Err() != nil {
		CloseRemoved(f)
		return
	}
	f.Close()
}

var (
	unfinished sync.Map     // the temporary files, *os.File, that have no other name yet
	renaming   sync.RWMutex // read-locked while files are created and get their names
)

// Abandon removes the temporary files of all writers, for a process that ends while they write. Those that create or rename files already finish
// that, and no other begins: it blocks, until resume is called.
func Abandon() (resume func()) {
	renaming.Lock()
	unfinished.Range(func(f, _ any) bool {
		os.Remove(f.(*os.File).Name())
		return true
	})
	return renaming.Unlock
}

// RemoveFolder removes a folder and the files in it, as far as the system lets it. Where the context has ended, it does not wait for
// large files ([CloseRemoved]).
func RemoveFolder(ctx context.Context, dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if f, err := os.Open(filepath.Join(dir, e.Name())); err == nil {
			discard(ctx, f)
		}
	}
	os.RemoveAll(dir)
}
