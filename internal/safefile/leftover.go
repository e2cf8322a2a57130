package safefile

import (
	"os"
	"path/filepath"
)

// Pattern matches the names of temporary files, for [filepath.Match]. A process that is killed leaves them behind until the
// next writer of the folder.
const Pattern = ".berth-*.tmp"

// removeLeftOver removes the temporary files in a folder whose writers have ended. The caller has the folder locked: no
// writer is between creating its file and locking it.
func removeLeftOver(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if ours, _ := filepath.Match(Pattern, e.Name()); !ours || !e.Type().IsRegular() {
			continue
		}
		if path := filepath.Join(dir, e.Name()); isLeftOver(path) && step("remove", path) == nil {
			os.Remove(path)
		}
	}
}
