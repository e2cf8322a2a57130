// Package shareddata finds the models and test data that lie outside the repository:
// recorded models, the archives of ONNX backend tests, planning instances. They are
// too large to be part of it, and tests do without them where they are absent.
package shareddata

import (
	"os"
	"path/filepath"
	"testing"
)

// Root is the folder named by the environment variable BERTH_SHARED, or the folder
// "shared" beside the repository. A relative name counts from the repository's root,
// whichever package the test belongs to. It need not exist.
func Root() string {
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = filepath.Join("..", "shared")
	}
	if filepath.IsAbs(root) {
		return root
	}
	return filepath.Join(moduleRoot(), root)
}

// moduleRoot is the folder at or above the working folder that has the go.mod.
func moduleRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// Path returns the path of a file or folder below [Root], such as "models". If it is
// not there, the test is skipped with a line that says what is missing.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	name := filepath.Join(parts...)
	path := filepath.Join(Root(), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not in %s: set BERTH_SHARED to the folder that holds it", name, Root())
	}
	return path
}
