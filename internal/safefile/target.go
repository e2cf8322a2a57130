package safefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// TargetError says why a path is not written to, before anything is.
type TargetError struct {
	Path   string // links followed
	Reason string // what is there or missing, and the remedy
	Err    error  // the underlying error; [fs.ErrPermission] for a read-only file; nil where a path names no regular file
}

// Error prints path, reason and the underlying error of the system.
func (e *TargetError) Error() string {
	if pe := (*fs.PathError)(nil); errors.As(e.Err, &pe) && !errors.Is(pe, fs.ErrNotExist) {
		return e.Path + " " + e.Reason + ": " + pe.Err.Error()
	}
	return e.Path + " " + e.Reason
}

// Unwrap returns the underlying error.
func (e *TargetError) Unwrap() error { return e.Err }

// refuseKind is the error for a path that names something else than a file.
func refuseKind(path string, mode fs.FileMode) error {
	kind := "not a regular file"
	switch {
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return &TargetError{Path: path, Reason: fmt.Sprintf("is %s and can not be replaced by a file; give the name of a file", kind)}
}

// target is a place to write to, links followed.
type target struct {
	path string
	old  fs.FileInfo // of the file that is there; nil if there is none
	link bool        // a link is there, in whose place the file is written
	like fs.FileInfo // of the file whose permissions a new one gets; nil if there is none
}

func (t target) isNew() bool { return t.old == nil && !t.link }

// maxLinks is how many symbolic links are followed in a row; systems give up at about as many.
const maxLinks = 40

// target is where a file is written to.
func (f File) target() (target, error) {
	if f.Named {
		if info, err := os.Lstat(f.Path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return target{path: f.Path, link: true}, nil
		}
	}
	return resolve(f.Path)
}

// resolve follows symbolic links to a regular file that may be written to, or to the place for a new one.
func resolve(path string) (target, error) {
	if path == "" {
		return target{}, &TargetError{Path: `""`, Reason: "is no name of a file; give one"}
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return target{}, refuseKind(strconv.Quote(path), fs.ModeDir)
	}
	there, err := os.Stat(path)
	if err == nil && !there.Mode().IsRegular() {
		return target{}, refuseKind(path, there.Mode())
	}
	at := path
	for range maxLinks {
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && there == nil:
			return target{path: at}, nil
		case errors.Is(err, syscall.ENOTDIR):
			return target{}, &TargetError{Path: at, Reason: fmt.Sprintf("can not be written: %s is no folder; give another name", filepath.Dir(at))}
		case err != nil:
			return target{}, err
		case info.Mode()&fs.ModeSymlink == 0:
			return existing(at, info)
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

// existing is the target for a file that is there. Its folder alone decides whether it can be renamed over; a file that may
// not be written to is refused all the same, as every other program would.
func existing(path string, info fs.FileInfo) (target, error) {
	if !info.Mode().IsRegular() {
		return target{}, refuseKind(path, info.Mode())
	}
	err := fs.ErrPermission
	if info.Mode()&0o222 != 0 { // what root may open is read-only all the same
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			f.Close()
		}
	}
	if err == nil && isMountPoint(path) {
		return target{}, &TargetError{path, "is mounted by itself and can not be replaced; mount its folder", nil}
	}
	if err != nil {
		return target{}, &TargetError{path, "is read-only; make it writable, or write to another name", err}
	}
	return target{path: path, old: info}, nil
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

// create makes a locked temporary file in the folder of the target, with the permissions that the target is to have.
func (t target) create(ctx context.Context, left *time.Duration) (*os.File, error) {
	unlock, locked := lockFolder(ctx, left, t.folder())
	defer unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if locked {
		removeLeftOver(t.folder())
	}
	if err := step("create", t.path); err != nil {
		return nil, err
	}
	renaming.RLock()
	defer renaming.RUnlock()
	mode, like := fs.FileMode(0o666), t.old
	if like == nil {
		like = t.like
	}
	if like != nil {
		mode = like.Mode().Perm()
	}
	before, after, _ := strings.Cut(Pattern, "*")
	for {
		tmp := t.folder() + before + strconv.FormatUint(rand.Uint64(), 36) + after
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return nil, t.refuseFolder(err)
		}
		lockFile(f)
		unfinished.Store(f, true)
		if like == nil {
			return f, nil
		}
		keepOwner(f, like)
		if err := f.Chmod(mode); err != nil {
			unfinished.Delete(f)
			return nil, errors.Join(t.named(tmp, err), f.Close(), os.Remove(tmp))
		}
		return f, nil
	}
}

// refuseFolder is the error for a folder that is missing or takes no new file.
func (t target) refuseFolder(err error) error {
	reason := "can not be written: its folder takes no new file"
	if errors.Is(err, fs.ErrNotExist) {
		reason = fmt.Sprintf("can not be written: there is no folder %s; create it, or give another name", filepath.Clean(t.folder()))
	}
	return &TargetError{t.path, reason, err}
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
