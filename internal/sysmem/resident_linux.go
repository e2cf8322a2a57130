package sysmem

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// PeakResident is the largest resident size of the process so far, in bytes; 0 if it is not known. What getrusage(2) calls
// that may be of the process that started this one: exec keeps it. Source: proc(5).
func PeakResident() int64 { return statusBytes("VmHWM:") }

// statm is /proc/self/statm, which stays open, and what was read last of it: looks of runs, which allocate nothing, read it.
var statm struct {
	sync.Mutex
	file *os.File
	text [128]byte
}

// ResidentNow is the resident size of the process, in bytes; 0 if it is not known. It is the second number of statm, in pages.
func ResidentNow() (pages int64) {
	statm.Lock()
	defer statm.Unlock()
	if statm.file == nil {
		f, err := os.Open("/proc/self/statm")
		if err != nil {
			return 0
		}
		statm.file = f
	}
	n, _ := statm.file.ReadAt(statm.text[:], 0) // less than there is room for: io.EOF
	_, rest, _ := bytes.Cut(statm.text[:n], []byte(" "))
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		pages = pages*10 + int64(c-'0')
	}
	return pages * int64(os.Getpagesize())
}

// statusBytes is a field of /proc/self/status, which has lines of a name, a number and "kB".
func statusBytes(field string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\n"+field)
	number, _, _ := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
	kib, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
