package conformance

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// MaxArchive is the most that the files of an archive may take in memory, in
// bytes; larger ones must be unpacked first.
const MaxArchive = 4 << 30

// Open finds the cases at a path, sorted by name (those of a folder before those
// of archives in it): see the package comment for what a path may be. It fails if
// there is none.
func Open(name string) ([]*Case, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	var cases []*Case
	switch {
	case info.IsDir():
		cases, err = openFolder(name)
	case isArchive(name):
		cases, err = openArchive(name)
	case strings.HasSuffix(name, ".onnx"):
		dir := filepath.Dir(name)
		cases, err = fileCase(dir, filepath.Base(name), name)
	default:
		err = fmt.Errorf("%s is no folder, .tar.gz or .onnx file", name)
	}
	if err == nil && len(cases) == 0 {
		err = fmt.Errorf("%s holds no model.onnx with test_data_set_* folders beside it", name)
	}
	return cases, err
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

func openArchive(name string) ([]*Case, error) {
	files, err := readArchive(name)
	if err != nil {
		return nil, err
	}
	return find(files, name, "")
}

// openFolder finds the cases of a folder, then those of the archives in it.
func openFolder(dir string) ([]*Case, error) {
	cases, err := find(os.DirFS(dir), dir, dir)
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.IsDir() || !isArchive(e.Name()) {
			continue
		}
		more, err := openArchive(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	return cases, nil
}

// fileCase makes the case of one model file: its folder's, or a light model.
func fileCase(dir, base, source string) ([]*Case, error) {
	cases, err := find(os.DirFS(dir), source, dir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(cases, func(c *Case) bool { return c.dir != dir || c.model != base }), nil
}

// find walks files for cases. dir is the folder on disk that files is rooted
// at, "" if there is none.
func find(files fs.FS, source, dir string) ([]*Case, error) {
	var out []*Case
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(name) != ".onnx" {
			return err
		}
		folder := path.Dir(name)
		sub, err := fs.Sub(files, folder)
		if err != nil {
			return err
		}
		c := &Case{Source: source, files: sub, model: path.Base(name)}
		if dir != "" {
			c.dir = filepath.Join(dir, filepath.FromSlash(folder))
		}
		switch {
		case isLight(sub, c.model):
			c.Name, c.light = strings.TrimSuffix(c.model, ".onnx"), true
		case hasSets(c):
			c.Name = caseName(folder, dir, source)
		default:
			return nil
		}
		out = append(out, c)
		return nil
	})
	slices.SortFunc(out, func(a, b *Case) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

func isLight(files fs.FS, model string) bool {
	_, err := fs.Stat(files, strings.TrimSuffix(model, ".onnx")+"_output_0.pb")
	return err == nil
}

func hasSets(c *Case) bool {
	names, err := c.SetNames()
	return err == nil && len(names) > 0
}

// caseName is the name of the folder the model lies in.
func caseName(folder, dir, source string) string {
	switch {
	case folder != ".":
		return path.Base(folder)
	case dir != "":
		if abs, err := filepath.Abs(dir); err == nil {
			return filepath.Base(abs)
		}
	}
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(source), ".gz"), ".tar")
}

// readArchive unpacks a .tar.gz into memory.
func readArchive(name string) (memFS, error) {
	f, err := OpenRegular(name)
	if err != nil {
		return memFS{}, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return memFS{}, fmt.Errorf("%s: %w", name, err)
	}
	out := newMemFS()
	left := int64(MaxArchive)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return memFS{}, fmt.Errorf("%s: %w", name, err)
		}
		clean := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || !fs.ValidPath(clean) {
			continue
		}
		if left -= h.Size; left < 0 {
			return memFS{}, fmt.Errorf("%s holds more than %d bytes: unpack it and give the folder", name, int64(MaxArchive))
		}
		data := make([]byte, 0, min(h.Size, 1<<20))
		if data, err = appendAll(data, r, h.Size); err != nil {
			return memFS{}, fmt.Errorf("%s: %s: %w", name, clean, err)
		}
		out.add(clean, data)
	}
}

// appendAll reads size bytes, growing the buffer only as they arrive.
func appendAll(data []byte, r io.Reader, size int64) ([]byte, error) {
	for int64(len(data)) < size {
		data = slices.Grow(data, int(min(size-int64(len(data)), int64(len(data))+4096)))
		n, err := r.Read(data[len(data):min(int64(cap(data)), size)])
		data = data[:len(data)+n]
		if err != nil && int64(len(data)) < size {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return data, nil
}
