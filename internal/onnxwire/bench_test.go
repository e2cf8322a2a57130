package onnxwire

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkParse parses each model of the collection from memory.
func BenchmarkParse(b *testing.B) {
	for _, path := range modelPaths(b) {
		data, err := os.ReadFile(path)
		require.NoError(b, err)
		b.Run(filepath.Base(filepath.Dir(path)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// largestModel returns the path of the largest model of the collection.
func largestModel(b *testing.B) string {
	var largest string
	var size int64
	for _, path := range modelPaths(b) {
		info, err := os.Stat(path)
		require.NoError(b, err)
		if info.Size() > size {
			largest, size = path, info.Size()
		}
	}
	b.Logf("%s, %d bytes", filepath.Base(filepath.Dir(largest)), size)
	return largest
}

// BenchmarkOpen maps, parses and unmaps the largest model.
func BenchmarkOpen(b *testing.B) {
	path := largestModel(b)
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkMarshal(b *testing.B) {
	f, err := Open(largestModel(b))
	require.NoError(b, err)
	defer f.Close()
	b.SetBytes(int64(f.Size()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Marshal(f.Model); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWriteTo measures what streaming costs apart from the writer's own work.
func BenchmarkWriteTo(b *testing.B) {
	f, err := Open(largestModel(b))
	require.NoError(b, err)
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := WriteTo(b.Context(), io.Discard, f.Model); err != nil {
			b.Fatal(err)
		}
	}
}
