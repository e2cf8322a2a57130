package sysmem

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGroupLimit(t *testing.T) {
	type files map[string]string
	const groups, v2, v1, mounts = "proc/self/cgroup", "sys/fs/cgroup", "sys/fs/cgroup/memory", "proc/self/mountinfo"
	for _, c := range []struct {
		name  string
		total int64
		files files
		want  int64
	}{
		{"no groups", 1000, nil, 1000},
		{"the group", 1000, files{groups: "0::/user/berth\n", v2 + "/user/berth/memory.max": "300\n"}, 300},
		{"a group above", 1000, files{groups: "0::/user/a:b/berth\n", v2 + "/user/a:b/berth/memory.max": "max\n",
			v2 + "/user/a:b/memory.max": "200\n", v2 + "/user/memory.max": "400\n"}, 200},
		{"a group beside", 1000, files{groups: "0::/user/berth\n", v2 + "/user/other/memory.max": "300\n"}, 1000},
		{"at the top of a container", 1000, files{groups: "0::/\n", v2 + "/memory.max": "300\n"}, 300},
		{"a path of the host", 1000, files{groups: "0::/docker/abc\n", v2 + "/memory.max": "300\n"}, 300},
		{"a path outside", 1000, files{groups: "0::/../../abc\n", v2 + "/memory.max": "300\n", "abc/memory.max": "100\n"}, 300},
		{"no list of groups", 1000, files{v2 + "/memory.max": "300\n"}, 300},
		{"none", 1000, files{groups: "0::/\n", v2 + "/memory.max": "max\n"}, 1000},
		{"more than there is", 1000, files{groups: "0::/\n", v2 + "/memory.max": "3000\n"}, 1000},
		{"not a number", 1000, files{groups: "0::/\n", v2 + "/memory.max": "-1\n"}, 1000},
		{"machine not known", 0, files{groups: "0::/\n", v2 + "/memory.max": "3000\n"}, 3000},
		{"not a list", 1000, files{groups: "berth\n", v2 + "/memory.max": "300\n"}, 300},
		{"version 1", 1000, files{groups: "9:name=systemd:/s\n4:cpu,memory:/user/berth\n0::/\n", v1 + "/user/memory.limit_in_bytes": "300\n",
			v1 + "/memory.limit_in_bytes": "9223372036854771712\n"}, 300},
		{"version 1, another controller", 1000, files{groups: "4:cpu:/user\n", v1 + "/user/memory.limit_in_bytes": "300\n"}, 1000},
		{"version 1, a path of the host", 1000, files{groups: "4:memory:/docker/abc\n", v1 + "/memory.limit_in_bytes": "300\n"}, 300},
		{"where it is throttled", 1000, files{groups: "0::/user\n", v2 + "/user/memory.max": "500\n", v2 + "/user/memory.high": "300\n"}, 300},
		{"mounted elsewhere", 1000, files{groups: "0::/user\n", mounts: "30 23 0:26 / /run/my\\040groups rw - cgroup2 none rw\n",
			"run/my groups/user/memory.max": "300\n"}, 300},
		{"a part, mounted elsewhere", 1000, files{groups: "0::/docker/abc/x\n", mounts: "30 23 0:26 /docker/abc /cg rw shared:4 - cgroup2 cgroup rw\n",
			"cg/x/memory.high": "300\n"}, 300},
		{"version 1, mounted elsewhere", 1000, files{groups: "4:memory:/user\n", mounts: "30 23 0:26 / /cg/cpu rw - cgroup cgroup rw,cpu\n31 23 0:27 / /cg/mem rw - cgroup cgroup rw,memory\n",
			"cg/cpu/user/memory.limit_in_bytes": "100\n", "cg/mem/user/memory.limit_in_bytes": "300\n"}, 300},
		{"other mounts", 1000, files{groups: "0::/user\n", mounts: "30 23 0:26 / /data rw - ext4 /dev/vda rw\nshort\n", "data/user/memory.max": "300\n"}, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				path := filepath.Join(root, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			assert.Equal(t, c.want, groupLimit(root, c.total))
		})
	}
}
