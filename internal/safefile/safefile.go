// Package safefile writes files that are complete or not there at all.
//
// A file is written under a temporary name in the folder of its target, brought to the disk, and renamed:
//
//	fill ──▶ .berth-1x2y3z.tmp ──fsync──▶ rename to the target ──fsync of the folder
//
// Until the rename the target is what it was, also when the process is killed or the disk is full. Who has the old file
// open or mapped keeps it. An existing file keeps its permissions, a new one gets 0666 without the umask. Symbolic links
// are followed: the link stays, its target is replaced. What is no regular file (a folder, device, pipe or socket) is
// refused with a [*KindError].
//
// Several files change together as far as a file system allows: all are complete under temporary names before the first is
// renamed, and renamed in the order given. A crash between two renames leaves the first ones new and the rest old, so
// files that others refer to come first and have names that no old file refers to.
package safefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Pattern matches the names of temporary files, for [filepath.Match]. A process that is killed may leave one behind.
const Pattern = ".berth-*.tmp"

// KindError says that a path names something that is not a regular file and so is not replaced.
type KindError struct {
	Path string // links followed
	Mode fs.FileMode
}

// Error names the path, what is there, and the remedy.
func (e *KindError) Error() string {
	kind := "not a regular file"
	switch {
	case e.Mode.IsDir():
		kind = "a folder"
	case e.Mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case e.Mode&fs.ModeDevice != 0:
		kind = "a device"
	case e.Mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Sprintf("%s is %s and can not be replaced by a file; give the name of a file", e.Path, kind)
}

// File is a file to write: Fill writes its content.
type File struct {
	Path string
	Fill func(io.Writer) error
}

// rename is [os.Rename], except in tests that end the process there.
var rename = os.Rename

// Check reports what would keep [Write] from writing path: a [*KindError], or the error of the file system where the
// folder is missing or takes no new file. Long work asks before it starts. Nothing is left behind.
func Check(path string) error {
	t, err := resolve(path)
	if err != nil {
		return err
	}
	f, err := t.create()
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Write replaces or creates one file. Errors are [*KindError], those of fill, and those of the file system, which name path.
func Write(path string, fill func(io.Writer) error) error { return WriteAll(File{path, fill}) }

// WriteAll replaces or creates files, all or none; see the package documentation for what a crash can leave.
func WriteAll(files ...File) error {
	var all group
	complete := false
	defer func() {
		if !complete {
			all.undo()
		}
	}()
	for _, f := range files {
		t, err := resolve(f.Path)
		if err != nil {
			return err
		}
		p := &pending{target: t}
		all = append(all, p)
		if err := p.write(f.Fill); err != nil {
			return t.named(p.tmp, err)
		}
	}
	for _, p := range all {
		if err := rename(p.tmp, p.path); err != nil {
			return p.named(p.tmp, err)
		}
		p.renamed = true
	}
	complete = true
	return all.syncFolders()
}

// target is a place to write to, links followed.
type target struct {
	path  string
	mode  fs.FileMode // permissions of the file that is there
	isNew bool        // there is none
}

// maxLinks is how many symbolic links are followed in a row; systems give up at about as many.
const maxLinks = 40

// resolve follows symbolic links to a regular file or to the place for a new one.
func resolve(path string) (target, error) {
	if path == "" || os.IsPathSeparator(path[len(path)-1]) {
		return target{}, &KindError{Path: strconv.Quote(path), Mode: fs.ModeDir}
	}
	at := path
	for range maxLinks {
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target{path: at, isNew: true}, nil
		case err != nil:
			return target{}, err
		case info.Mode().IsRegular():
			return target{path: at, mode: info.Mode().Perm()}, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return target{}, &KindError{Path: at, Mode: info.Mode()}
		}
		next, err := os.Readlink(at)
		if err != nil {
			return target{}, err
		}
		if !filepath.IsAbs(next) { // relative to the link's folder; not cleaned, since ".." may follow a link
			next = filepath.Dir(at) + string(filepath.Separator) + next
		}
		at = next
	}
	return target{}, &fs.PathError{Op: "write", Path: path, Err: errors.New("too many symbolic links")}
}

// folder is the folder of the target; [filepath.Dir] would resolve ".." without following links.
func (t target) folder() string {
	i := len(t.path)
	for i > 0 && !os.IsPathSeparator(t.path[i-1]) {
		i--
	}
	if i == 0 {
		return "." + string(filepath.Separator)
	}
	return t.path[:i]
}

// create makes a temporary file in the folder of the target, with the permissions that the target is to have.
func (t target) create() (*os.File, error) {
	mode := fs.FileMode(0o666)
	if !t.isNew {
		mode = t.mode
	}
	before, after, _ := strings.Cut(Pattern, "*")
	for {
		tmp := t.folder() + before + strconv.FormatUint(rand.Uint64(), 36) + after
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return nil, t.named(tmp, err)
		case t.isNew:
			return f, nil
		}
		if err := f.Chmod(t.mode); err != nil {
			return nil, errors.Join(t.named(tmp, err), f.Close(), os.Remove(tmp))
		}
		return f, nil
	}
}

// named makes an error of the file system that names a temporary file name the target.
func (t target) named(tmp string, err error) error {
	if pe, ok := err.(*fs.PathError); ok && pe.Path == tmp {
		return &fs.PathError{Op: pe.Op, Path: t.path, Err: pe.Err}
	}
	if le, ok := err.(*os.LinkError); ok {
		return &fs.PathError{Op: le.Op, Path: t.path, Err: le.Err}
	}
	return err
}

// pending is a target and its content under a temporary name.
type pending struct {
	target
	tmp     string // "" before there is one
	renamed bool
}

// write fills the temporary file and brings it to the disk.
func (p *pending) write(fill func(io.Writer) error) error {
	f, err := p.create()
	if err != nil {
		return err
	}
	p.tmp = f.Name()
	w := bufio.NewWriterSize(f, 64<<10)
	err = fill(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// group is the files that change together.
type group []*pending

// undo removes temporary files, and new files unless an old one was replaced: that may refer to them.
func (g group) undo() {
	replaced := slices.ContainsFunc(g, func(p *pending) bool { return p.renamed && !p.isNew })
	for _, p := range g {
		switch {
		case !p.renamed && p.tmp != "":
			os.Remove(p.tmp)
		case p.renamed && !replaced:
			os.Remove(p.path)
		}
	}
}

// syncFolders brings the new names to the disk. Not every system and file system can do that for a folder.
func (g group) syncFolders() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	done := map[string]bool{}
	for _, p := range g {
		dir := p.folder()
		if done[dir] {
			continue
		}
		done[dir] = true
		if err := syncFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) { // may be written to but not read
		return nil
	} else if err != nil {
		return err
	}
	err = d.Sync()
	d.Close()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
