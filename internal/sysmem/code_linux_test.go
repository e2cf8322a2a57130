package sysmem

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDropCode drops what the initialization of the test's packages has mapped.
func TestDropCode(t *testing.T) {
	before := residentOfFiles(t)
	DropCode()
	assert.Less(t, residentOfFiles(t), before*3/4)
}

// residentOfFiles is the resident memory of mapped files, in kB.
func residentOfFiles(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, figure, found := strings.Cut(string(status), "RssFile:")
	require.True(t, found)
	kB, err := strconv.Atoi(strings.Fields(figure)[0])
	require.NoError(t, err)
	return kB
}

func TestNextMapping(t *testing.T) {
	for _, c := range []struct {
		name, head, own string
		isClean         bool
	}{
		{"code", "00400000-012d7000 r-xp 00000000 fe:00 123 /bin/berth", "0", true},
		{"constants of a path with blanks", "012d7000-020bd000 r--p 00ed7000 fe:00 123 /home/a b/berth", "0", true},
		{"data", "020bd000-0219d000 rw-p 01cbd000 fe:00 123 /bin/berth", "0", false},
		{"relocated constants", "012d7000-020bd000 r--p 00ed7000 fe:00 123 /bin/berth", "4", false},
		{"shared", "012d7000-020bd000 r--s 00ed7000 fe:00 123 /tmp/model.onnx", "0", false},
		{"of no file", "7ffd0000-7ffd2000 r-xp 00000000 00:00 0 [vdso]", "0", false},
		{"not an entry", "?", "0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, rest := nextMapping(c.head + "\nSize: 8 kB\nAnonymous:      " + c.own + " kB\nVmFlags: rd\nbehind")
			assert.Equal(t, c.isClean, m.isClean)
			assert.Equal(t, "behind", rest)
			if c.isClean {
				assert.Less(t, m.from, m.past)
			}
		})
	}
}
