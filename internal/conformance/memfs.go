package conformance

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// memFS is the unpacked content of an archive.
type memFS struct {
	files map[string][]byte
	dirs  map[string]map[string]bool // folder → names in it; true for folders
}

func newMemFS() memFS {
	return memFS{map[string][]byte{}, map[string]map[string]bool{".": {}}}
}

func (m memFS) add(name string, data []byte) {
	m.files[name] = data
	isDir := false
	for name != "." {
		dir := path.Dir(name)
		if m.dirs[dir] == nil {
			m.dirs[dir] = map[string]bool{}
		}
		m.dirs[dir][path.Base(name)] = isDir
		name, isDir = dir, true
	}
}

// Open implements [fs.FS].
func (m memFS) Open(name string) (fs.File, error) {
	if data, ok := m.files[name]; ok {
		return &memFile{memInfo{path.Base(name), int64(len(data)), false}, bytes.NewReader(data)}, nil
	}
	if _, ok := m.dirs[name]; ok {
		return &memFile{memInfo{path.Base(name), 0, true}, nil}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadFile implements [fs.ReadFileFS]; the bytes are shared and must not be changed.
func (m memFS) ReadFile(name string) ([]byte, error) {
	if data, ok := m.files[name]; ok {
		return data, nil
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements [fs.ReadDirFS].
func (m memFS) ReadDir(name string) ([]fs.DirEntry, error) {
	list, ok := m.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	out := make([]fs.DirEntry, 0, len(list))
	for base, isDir := range list {
		out = append(out, fs.FileInfoToDirEntry(memInfo{base, int64(len(m.files[path.Join(name, base)])), isDir}))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

type memFile struct {
	info memInfo
	r    *bytes.Reader
}

func (f *memFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *memFile) Close() error               { return nil }
func (f *memFile) Read(b []byte) (int, error) {
	if f.r == nil {
		return 0, io.EOF
	}
	return f.r.Read(b)
}

type memInfo struct {
	name string
	size int64
	dir  bool
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
