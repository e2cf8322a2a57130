package sysmem

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is how many bytes of memory the process may use at most: what the
// machine has, or less where a control group says so; 0 if that is not known.
func Memory() int64 {
	var total int64
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil { // sysinfo(2)
		total = int64(uint64(info.Totalram) * uint64(info.Unit))
	}
	return groupLimit("/", total)
}

// groupLimit is the least of total, if it is known, and the limits of the control groups of the process and of all above them,
// in the file system at root. In a container the path of its group may be that of the host, which is not there; the group
// itself is then at the top.
//
// Sources: cgroups(7); memory.max of version 2, memory.limit_in_bytes of version 1
// (https://docs.kernel.org/admin-guide/cgroup-v2.html).
func groupLimit(root string, total int64) int64 {
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it, what is at the top counts
	for line := range strings.Lines(string(groups) + "\n0::/\n0:memory:/\n") {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		top, name := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			top, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
			if !slices.Contains(strings.Split(fields[1], ","), "memory") {
				continue
			}
		}
		for group, above := filepath.Clean("/"+fields[2]), ""; group != above; group = filepath.Dir(group) {
			text, _ := os.ReadFile(filepath.Join(root, top, group, name))
			limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
			if err == nil && limit > 0 && (total == 0 || limit < total) {
				total = limit
			}
			above = group
		}
	}
	return total
}
