package sysmem

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// PeakResident is the largest resident size of the process so far, in bytes; 0 if it is not known. What getrusage(2) calls
// that may be of the process that started this one: exec keeps it. Source: proc(5).
func PeakResident() int64 { return statusBytes("VmHWM:") }

// ResidentNow is the resident size of the process, in bytes; 0 if it is not known.
func ResidentNow() int64 { return statusBytes("VmRSS:") }

func statusBytes(field string) int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), field); ok {
			var kib int64
			if _, err := fmt.Sscanf(text, "%d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
