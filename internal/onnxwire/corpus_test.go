package onnxwire

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modelPaths lists the model files of the collection in a fixed order.
func modelPaths(t testing.TB) []string {
	var paths []string
	err := filepath.WalkDir(shareddata.Path(t, "models"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".onnx") {
			paths = append(paths, path)
		}
		return err
	})
	require.NoError(t, err)
	return paths
}

// checkRoundTrip parses data, writes it, parses that and writes it again.
func checkRoundTrip[M Message](t *testing.T, name string, data []byte, read func([]byte) (M, error)) []byte {
	t.Helper()
	first, err := read(data)
	require.NoError(t, err, name)
	written, err := Marshal(first)
	require.NoError(t, err, name)
	second, err := read(written)
	require.NoError(t, err, name)
	require.True(t, equal(first, second), "%s: reading back what was written gives another message", name)
	again, err := Marshal(second)
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
			assert.True(t, bytes.Equal(data, written), "the file does not come back byte for byte")
		})
	}
}

func TestTestDataRoundTrip(t *testing.T) {
	count := 0
	err := filepath.WalkDir(shareddata.Path(t, "models"), func(path string, _ fs.DirEntry, err error) error {
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
	archives, err := filepath.Glob(filepath.Join(shareddata.Path(t, "onnx-conformance"), "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			same, all := roundTripArchive(t, archive)
			t.Logf("%d of %d files come back byte for byte", same, all)
			assert.NotZero(t, all)
			assert.Equal(t, all, same, "official serializers write fields in the order we do")
		})
	}
}

// roundTripArchive checks every model and every test value of a conformance archive.
func roundTripArchive(t *testing.T, archive string) (same, all int) {
	for dir, files := range readArchive(t, archive) {
		var model *Model
		for name, data := range files {
			if filepath.Ext(name) != ".onnx" {
				continue
			}
			var err error
			model, err = Parse(data)
			require.NoError(t, err, name)
		}
		for name, data := range files {
			name := dir + "/" + name
			var written []byte
			switch filepath.Ext(name) {
			case ".onnx":
				written = checkRoundTrip(t, name, data, Parse)
			case ".pb":
				written = checkRoundTrip(t, name, data, func(data []byte) (Message, error) {
					return ParseValue(t.Context(), data, valueKind(t, model, filepath.Base(name)))
				})
			default:
				continue
			}
			all++
			if bytes.Equal(data, written) {
				same++
			}
		}
	}
	return same, all
}

// readArchive returns the files of an archive by the folder of the test they belong to.
func readArchive(t *testing.T, archive string) map[string]map[string][]byte {
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := tar.NewReader(unzipped)
	tests := map[string]map[string][]byte{}
	for {
		header, err := files.Next()
		if err == io.EOF {
			return tests
		}
		require.NoError(t, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(files)
		require.NoError(t, err)
		dir, name, _ := strings.Cut(header.Name, "/test_data_set")
		if name == "" {
			dir, name = filepath.Split(header.Name)
			dir = strings.TrimSuffix(dir, "/")
		}
		if tests[dir] == nil {
			tests[dir] = map[string][]byte{}
		}
		tests[dir][name] = data
	}
}

// valueKind returns the kind of the model's input or output that a file such as input_0.pb is a value for.
func valueKind(t *testing.T, model *Model, name string) ElemKind {
	words := strings.Split(strings.TrimSuffix(name, ".pb"), "_")
	i, err := strconv.Atoi(words[len(words)-1])
	require.NoError(t, err, name)
	list := model.Graph.Inputs
	if words[len(words)-2] == "output" {
		list = model.Graph.Outputs
	}
	require.Less(t, i, len(list), name)
	typ := list[i].Type
	switch {
	case typ == nil:
	case typ.Sequence != nil:
		return ElemSequence
	case typ.Map != nil:
		return ElemMap
	case typ.Optional != nil:
		return ElemOptional
	case typ.SparseTensor != nil:
		return ElemSparseTensor
	}
	return ElemTensor
}
