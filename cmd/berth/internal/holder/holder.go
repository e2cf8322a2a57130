// Package holder has large files closed after the end of a command that was interrupted and has removed them.
//
// What a removed file occupies, on the disk and in memory, the system takes back when the last process closes it: on ext4 that
// takes 65 to 200 ms per GB, and a process does not end before. So another process has the files open too, and waits for the end of the first:
//
//	command   open ── remove ── start ───── end
//	holder                        └─ reads until the end of its input ── ends: disk and memory are taken back
//
// Where it can not be started (Windows, a system without a file of the program), the command closes the files itself, and takes as long.
package holder

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// argument is the only one of the process that holds files.
const argument = "hold-removed-files"

var (
	mu    sync.Mutex
	files []*os.File // not to be collected, which would close them
	input *os.File   // of the process; it ends with this one
)

// Keep leaves a file open until the process ends.
func Keep(f *os.File) {
	mu.Lock()
	defer mu.Unlock()
	files = append(files, f)
}

// Start starts the process, if there are files to hold. The caller ends right after.
func Start() {
	mu.Lock()
	defer mu.Unlock()
	if len(files) == 0 {
		return
	}
	program, err := os.Executable()
	if runtime.GOOS == "linux" {
		program = "/proc/self/exe" // also where the file was replaced meanwhile
	} else if err != nil {
		return
	}
	read, write, err := os.Pipe()
	if err != nil {
		return
	}
	input = write
	c := exec.Command(program, argument)
	c.Stdin, c.ExtraFiles = read, files
	_ = c.Start()
	read.Close()
}

// Serve holds files until the process that started this one has ended, and reports true, in a process that [Start] started. In any other
// it returns false at once.
func Serve() bool {
	if len(os.Args) != 2 || os.Args[1] != argument {
		return false
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}
