package conformance

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// MaxArchive is the most that the files of an archive may take in memory, in
// bytes; larger ones must be unpacked first.
const MaxArchive = 4 << 30

// Open is [OpenContext] without an end, within the default budget.
func Open(name string) ([]*Case, error) { return OpenContext(context.Background(), name) }

// OpenContext finds the cases at a path, sorted by name (those of a folder before those
// of archives in it): see the package comment for what a path may be. It fails if
// there is none. What archives hold is in memory, within the budget of the context.
func OpenContext(ctx context.Context, name string) ([]*Case, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	var cases []*Case
	switch {
	case info.IsDir():
		cases, err = openFolder(ctx, name)
	case isArchive(name):
		cases, err = openArchive(ctx, name)
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

func openArchive(ctx context.Context, name string) ([]*Case, error) {
	files, err := readArchive(ctx, name)
	if err != nil {
		return nil, err
	}
	return find(files, name, "")
}

// openFolder finds the cases of a folder, then those of the archives in it.
func openFolder(ctx context.Context, dir string) ([]*Case, error) {
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
		more, err := openArchive(ctx, filepath.Join(dir, e.Name()))
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

// nameBytes is about what the name of a file or folder takes beside its text.
const nameBytes = 512

// readArchive unpacks a .tar.gz into memory.
func readArchive(ctx context.Context, name string) (memFS, error) {
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
	left, memory := int64(MaxArchive), ndarray.BudgetOf(ctx)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		} else if err = cmp.Or(err, ctx.Err()); err != nil {
			return memFS{}, fmt.Errorf("%s: %w", name, err)
		}
		clean := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || !fs.ValidPath(clean) {
			continue
		}
		if left -= h.Size; left < 0 {
			return memFS{}, fmt.Errorf("%s holds more than %d bytes: unpack it and give the folder", name, int64(MaxArchive))
		}
		if err := memory.Ask(clean, h.Size+int64(len(clean))+nameBytes*int64(1+strings.Count(clean, "/"))); err != nil {
			return memFS{}, fmt.Errorf("%s: unpack it and give the folder: %w", name, err)
		}
		data := make([]byte, h.Size)
		if _, err = io.ReadFull(r, data); err != nil {
			return memFS{}, fmt.Errorf("%s: %s: %w", name, clean, err)
		}
		out.add(clean, data)
	}
}
