// Package safefile writes files that are complete or not there at all.
//
// A file is written under a temporary name in the folder of its target, brought to the disk, and renamed:
//
//	fill ──▶ .berth-1x2y3z.tmp ──fsync──▶ rename to the target ──fsync of the folder
//
// A temporary file is renamed without the disk.
//
// Until the rename the target is what it was, also when the process is killed or the disk is full. Who has the old file
// open or mapped keeps it. An existing file keeps its permissions and, where the system allows it, its owner and group; a
// new one gets 0666 without the umask, or, where it is one of several, the permissions of the last of them, which refers to it, if
// that existed. Symbolic links are followed: the link stays, its target is replaced or created. Of a
// file with several hard links the name given is replaced, the others keep the old content. What is no regular file (a
// folder, device, pipe or socket) or is read-only is refused with a [*TargetError].
//
// Several files change together: all are complete under temporary names before the first is renamed, and renamed in the
// order given, each on the disk before the next. A file that others refer to comes first and has a name that depends on its
// content, so that no old file refers to it: then every moment shows the old files or the new ones. What the old files
// referred to is removed last.
//
// Writers of one folder exclude each other by a lock on the folder (flock) while they create, rename and remove names, not
// while they write content; a lock on each temporary file tells those in use from those that a killed process left behind,
// which the next writer removes. Where a file system has no such locks, nothing of others is removed.
package safefile

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// File is a file to write: Fill writes its content. A temporary one is not brought to the disk: it need not outlive the system. One that is
// named by the program, not by its user, is written in the place of a symbolic link: where that leads, nobody said that something be written.
type File struct {
	Path      string
	Fill      func(io.Writer) error
	Temporary bool
	Named     bool
}

// step is called before each change of the file system with its name and path. Tests let it fail or end the process.
var step = func(op, path string) error { return nil }

// Check reports what would keep [Write] from writing path as a [*TargetError], or the error of the file system. Long work
// asks before it starts. Nothing is left behind.
func Check(path string) error {
	t, err := resolve(path)
	if err != nil {
		return err
	}
	p := &pending{target: t}
	ctx := context.Background()
	defer group{p}.release(ctx)
	left := lockWait
	p.file, err = p.create(ctx, &left)
	return err
}

// Write replaces or creates one file. Errors are [*TargetError], those of fill, and those of the file system, which name path.
func Write(path string, fill func(io.Writer) error) error {
	return WriteAll(context.Background(), nil, File{Path: path, Fill: fill})
}

// WriteAll replaces or creates files, all or none; see the package documentation for what a crash can leave. When all have
// their names it removes the files that obsolete lists, as far as the system lets it. alone says that no other writer of the
// first file's folder is between its renames. obsolete may be nil.
//
// Where the context ends before the first rename nothing changes, and the error is the context's; later it has no effect.
func WriteAll(ctx context.Context, obsolete func(alone bool) []string, files ...File) error {
	all := make(group, len(files))
	for i, f := range files {
		t, err := f.target()
		if err != nil {
			return err
		}
		all[i] = &pending{target: t, brief: f.Temporary}
	}
	for _, p := range all {
		p.like = all[len(all)-1].old
	}
	defer all.release(ctx)
	left := lockWait
	for i, f := range files {
		if err := all[i].write(ctx, &left, f.Fill); err != nil {
			return all[i].named(err)
		}
	}
	return all.commit(ctx, &left, obsolete)
}

// lockWait is how long a writer waits in all for others to create or rename their files before it goes on without a lock.
var lockWait = 5 * time.Second

// pending is a target and its content under a temporary name.
type pending struct {
	target
	file    *os.File // the temporary file, locked while it is open; nil before there is one
	renamed bool
	brief   bool // not brought to the disk
}

// named makes an error of the file system name the target.
func (p *pending) named(err error) error {
	if p.file == nil {
		return err
	}
	return p.target.named(p.file.Name(), err)
}

// write fills the temporary file and brings it to the disk.
func (p *pending) write(ctx context.Context, left *time.Duration, fill func(io.Writer) error) (err error) {
	if p.file, err = p.create(ctx, left); err != nil {
		return err
	}
	if err := step("write", p.path); err != nil {
		return err
	}
	var out io.Writer = p.file
	if !p.brief {
		out = &pacedWriter{file: p.file}
	}
	w := bufio.NewWriterSize(out, bufferSize)
	if err := fill(&endedWriter{ctx, w}); err != nil {
		return err
	}
	if err := w.Flush(); err != nil || p.brief {
		return err
	}
	if err := step("sync", p.path); err != nil {
		return err
	}
	return p.sync(ctx)
}

// sync brings the temporary file to the disk. The system can not be asked to stop that, so it is left alone with it where the
// context ends: the file has no name then, and is given up.
func (p *pending) sync(ctx context.Context) error {
	if ctx.Done() == nil {
		return p.file.Sync()
	}
	done := make(chan error, 1)
	go func() { done <- p.file.Sync() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	bufferSize = 64 << 10
	pieceSize  = 1 << 20 // bytes written between two looks at the context
)

// endedWriter ends long writes with a context.
type endedWriter struct {
	ctx context.Context
	out io.Writer
}

func (w *endedWriter) Write(b []byte) (n int, err error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return n, err
		}
		k, err := w.out.Write(b[n:min(n+pieceSize, len(b))])
		if n += k; err != nil || n == len(b) {
			return n, err
		}
	}
}

// pacedWriter has the system bring what is written to the disk piece by piece, while the next one is made: at the end little is
// left for fsync, which nothing ends, and which is waited for also when the process ends.
//
//	made      ███████████████▒▒▒
//	on disk   ██████▒▒▒▒▒▒▒▒▒     ▒ under way: the last two pieces
type pacedWriter struct {
	file    *os.File
	written int64 // bytes
	started int64 // of them, those that were given to the disk
}

// syncPiece is how many bytes are given to the disk at once.
const syncPiece = 8 << 20

func (w *pacedWriter) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	w.written += int64(n)
	if w.written-w.started >= syncPiece {
		startWriting(w.file, w.started, w.written-w.started)
		awaitWriting(w.file, max(0, w.started-syncPiece), min(w.started, syncPiece))
		w.started = w.written
	}
	return n, err
}

// rename gives the temporary file its name, and brings the name to the disk.
func (p *pending) rename() error {
	if err := step("rename", p.path); err != nil {
		return err
	}
	if !renamesOpen {
		if err := p.file.Close(); err != nil {
			return err
		}
	}
	if err := os.Rename(p.file.Name(), p.path); err != nil {
		return err
	}
	p.renamed = true
	unfinished.Delete(p.file)
	if p.brief {
		return nil
	}
	return syncFolder(p.folder())
}

// group is the files that change together.
type group []*pending

// commit renames all files and removes what they make obsolete.
func (g group) commit(ctx context.Context, left *time.Duration, obsolete func(alone bool) []string) error {
	unlock, locked := lockFolder(ctx, left, g[0].folder())
	defer unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	renaming.RLock()
	defer renaming.RUnlock()
	for i, p := range g {
		if err := p.rename(); err != nil {
			if i < len(g)-1 || !p.renamed { // else the files are new; only their names may not be on the disk
				g.undo()
			}
			return p.named(err)
		}
	}
	if obsolete == nil {
		return nil
	}
	for _, path := range obsolete(locked) {
		if err := step("remove", path); err != nil {
			return err
		}
		os.Remove(path) // on failure (a mapped file on some systems) the file only occupies disk space
	}
	return nil
}

// undo removes files that were not there before, unless an old one was replaced: that may refer to them.
func (g group) undo() {
	if slices.ContainsFunc(g, func(p *pending) bool { return p.renamed && !p.isNew() }) {
		return
	}
	for _, p := range g {
		if p.renamed {
			os.Remove(p.path)
		}
	}
}

// release closes the temporary files and removes those that have not got their names.
func (g group) release(ctx context.Context) {
	for _, p := range g {
		switch {
		case p.file == nil:
		case p.renamed:
			p.file.Close()
		default:
			discard(ctx, p.file)
			unfinished.Delete(p.file)
		}
	}
}

// syncFolder brings the names in a folder to the disk. Not every system and file system can do that.
func syncFolder(dir string) error {
	if err := step("sync folder", dir); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil
	}
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
