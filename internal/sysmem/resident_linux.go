package sysmem

import (
	"os"
	"strconv"
	"strings"
)

// PeakResident is the largest resident size of the process so far, in bytes; 0 if it is not known. What getrusage(2) calls
// that may be of the process that started this one: exec keeps it. Source: proc(5).
func PeakResident() int64 { return statusBytes("VmHWM:") }

// ResidentNow is the resident size of the process, in bytes; 0 if it is not known.
func ResidentNow() int64 { return statusBytes("VmRSS:") }

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
