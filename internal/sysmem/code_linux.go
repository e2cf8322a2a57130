package sysmem

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DropCode gives back the pages of the program's own files, code and constants, that the process has mapped so far: the
// kernel maps 16 pages at each fault, so that the initialization of all packages, a function here and a function there,
// leaves most of the program resident. What is needed again is mapped again from the page cache. Mappings that can be
// written, or in which something was (relocations, breakpoints), stay as they are.
func DropCode() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	smaps := make([]byte, mostSmaps)
	n, _ := io.ReadFull(f, smaps)
	for rest := string(smaps[:n]); rest != ""; {
		var m codeMapping
		if m, rest = nextMapping(rest); m.isClean {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.past-m.from, unix.MADV_DONTNEED) // advice: nothing is lost without it
		}
	}
}

// mostSmaps is how many bytes of the list are read: the program's own files are at its beginning. Pages behind the end of a
// shorter list are never touched.
const mostSmaps = 128 << 10

// codeMapping is an entry of /proc/PID/smaps. It is clean if it is a file's, can not be written, and has no page of its own.
type codeMapping struct {
	from, past uintptr
	isClean    bool
}

// nextMapping reads the first entry: a line with addresses, rights, offset, device, inode and path, then one for each
// figure (proc_pid_smaps(5)).
func nextMapping(smaps string) (m codeMapping, rest string) {
	head, rest, _ := strings.Cut(smaps, "\n")
	hasOwn := true
	for rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if figure, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			hasOwn = strings.TrimSpace(figure) != "0 kB"
		}
	}
	fields := strings.Fields(head)
	if len(fields) < 6 || fields[1] != "r-xp" && fields[1] != "r--p" || fields[4] == "0" {
		return m, rest
	}
	from, past, _ := strings.Cut(fields[0], "-")
	lo, errLo := strconv.ParseUint(from, 16, 64)
	hi, errHi := strconv.ParseUint(past, 16, 64)
	return codeMapping{uintptr(lo), uintptr(hi), !hasOwn && errLo == nil && errHi == nil && lo < hi}, rest
}
