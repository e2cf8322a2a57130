package onnxwire

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharedDir returns a folder of the model collection, or skips the test.
func sharedDir(t testing.TB, name string) string {
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no %s here: set BERTH_SHARED to the folder with the model collection", name)
	}
	return dir
}

// modelPaths lists the model files of the collection in a fixed order.
func modelPaths(t testing.TB) []string {
	var paths []string
	err := filepath.WalkDir(sharedDir(t, "models"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".onnx") {
			paths = append(paths, path)
		}
		return err
	})
	require.NoError(t, err)
	return paths
}

// checkRoundTrip parses data, writes it, parses that and writes it again.
func checkRoundTrip[T any, P message[T]](t *testing.T, name string, data []byte, read func([]byte) (P, error)) []byte {
	first, err := read(data)
	require.NoError(t, err, name)
	written, err := Marshal(any(first).(Message))
	require.NoError(t, err, name)
	second, err := read(written)
	require.NoError(t, err, name)
	require.True(t, equal(first, second), "%s: reading back what was written gives another message", name)
	again, err := Marshal(any(second).(Message))
	require.NoError(t, err, name)
	require.True(t, bytes.Equal(written, again), "%s: the second writing differs from the first", name)
	return written
}

func TestModelsRoundTrip(t *testing.T) {
	paths := modelPaths(t)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			written := checkRoundTrip(t, path, data, Parse)
			if !bytes.Equal(data, written) {
				t.Logf("%d bytes became %d", len(data), len(written))
			}
		})
	}
}

func TestTestDataRoundTrip(t *testing.T) {
	count := 0
	err := filepath.WalkDir(sharedDir(t, "models"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".pb") {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			checkRoundTrip(t, path, data, ParseTensor)
			count++
		}
		return err
	})
	require.NoError(t, err)
	assert.NotZero(t, count)
}

func TestConformanceArchivesRoundTrip(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(sharedDir(t, "onnx-conformance"), "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			same, all := roundTripArchive(t, archive)
			t.Logf("%d of %d files come back byte for byte", same, all)
			assert.NotZero(t, all)
		})
	}
}

// roundTripArchive checks every model and every test value of a conformance archive. The type of a test value is that of
// the model's input or output of the same number.
func roundTripArchive(t *testing.T, archive string) (same, all int) {
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if err == io.EOF {
			return same, all
		}
		require.NoError(t, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(files)
		require.NoError(t, err)
		var written []byte
		switch filepath.Ext(header.Name) {
		case ".onnx":
			written = checkRoundTrip(t, header.Name, data, Parse)
		case ".pb":
			written = roundTripValue(t, header.Name, data)
		default:
			continue
		}
		all++
		if bytes.Equal(data, written) {
			same++
		}
	}
}

// roundTripValue reads a test value as whichever message fits it.
func roundTripValue(t *testing.T, name string, data []byte) []byte {
	if _, err := ParseTensor(data); err == nil {
		return checkRoundTrip(t, name, data, ParseTensor)
	}
	if _, err := ParseSequence(data); err == nil {
		return checkRoundTrip(t, name, data, ParseSequence)
	}
	return checkRoundTrip(t, name, data, ParseOptional)
}
