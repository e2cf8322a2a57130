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

// hierarchy is where the control groups of one version are mounted, and the group at its top.
type hierarchy struct {
	at, top string
	limits  []string // names of files
}

var (
	limits2 = []string{"memory.max", "memory.high"}
	limits1 = []string{"memory.limit_in_bytes"}
)

// hierarchies are those at the usual places, and the mounted ones that limit memory (proc_pid_mountinfo(5)).
func hierarchies(root string) []hierarchy {
	out := []hierarchy{{"sys/fs/cgroup", "/", limits2}, {"sys/fs/cgroup/memory", "/", limits1}}
	mounts, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	for line := range strings.Lines(string(mounts)) {
		mount, system, _ := strings.Cut(line, " - ")
		m, s := strings.Fields(mount), strings.Fields(system) // m: number, parent, device, root, place; s: type, source, options
		if len(m) < 5 || len(s) < 3 {
			continue
		}
		at := strings.ReplaceAll(m[4], `\040`, " ")
		switch {
		case s[0] == "cgroup2":
			out = append(out, hierarchy{at, m[3], limits2})
		case s[0] == "cgroup" && slices.Contains(strings.Split(s[2], ","), "memory"):
			out = append(out, hierarchy{at, m[3], limits1})
		}
	}
	return out
}

// groupLimit is the least of total, if it is known, and the limits of the control groups of the process and of all above them,
// in the file system at root. In a container the path of its group may be that of the host, which is not there; the group
// itself is then at the top.
//
// Sources: cgroups(7); memory.max and memory.high of version 2, memory.limit_in_bytes of version 1
// (https://docs.kernel.org/admin-guide/cgroup-v2.html).
func groupLimit(root string, total int64) int64 {
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it, what is at the top counts
	all := hierarchies(root)
	for line := range strings.Lines(string(groups) + "\n0::/\n0:memory:/\n") {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) < 3 || fields[1] != "" && !slices.Contains(strings.Split(fields[1], ","), "memory") {
			continue
		}
		for _, h := range all {
			if (fields[1] == "") == (len(h.limits) == len(limits2)) {
				total = h.least(root, fields[2], total)
			}
		}
	}
	return total
}

// least is the least of total and the limits of a group and those above it.
func (h hierarchy) least(root, path string, total int64) int64 {
	for group, above := filepath.Clean("/"+strings.TrimPrefix(path, h.top)), ""; group != above; group = filepath.Dir(group) {
		for _, name := range h.limits {
			text, _ := os.ReadFile(filepath.Join(root, h.at, group, name))
			limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
			if err == nil && limit > 0 && (total == 0 || limit < total) {
				total = limit
			}
		}
		above = group
	}
	return total
}
