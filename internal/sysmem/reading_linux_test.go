package sysmem

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// present tells which pages of b the process has, by the bit 63 of their entries in /proc/self/pagemap. Source: proc(5).
func present(t *testing.T, b []byte) []bool {
	f, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer f.Close()
	page := os.Getpagesize()
	out := make([]bool, len(b)/page)
	entries := make([]byte, 8*len(out))
	_, err = f.ReadAt(entries, 8*int64(span(b).from)/int64(page))
	require.NoError(t, err)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(entries[8*i:])>>63 == 1
	}
	return out
}

// TestPagesThatAreReadStay: giving pages back leaves those that somebody reads, until the last reader ends.
func TestPagesThatAreReadStay(t *testing.T) {
	page, pages := os.Getpagesize(), 32
	path := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("berth"), page*pages/5+1)[:page*pages], 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data, err := MapFile(f, page*pages)
	require.NoError(t, err)
	defer func() { require.NoError(t, UnmapFile(data)) }()
	at := func(from, past int) []byte { return data[from*page : past*page] }
	one := NewReading([][]byte{data[3*page+7 : 3*page+9], at(10, 12)}) // part of page 3; 10 and 11
	two := NewReading([][]byte{at(11, 14), at(31, 32)})
	nothing := NewReading(nil)
	for _, c := range []struct {
		name    string
		readers []*Reading
		discard []byte
		stay    []int // of the pages of discard
	}{
		{"nobody reads", nil, data, nil},
		{"some read nothing", []*Reading{nothing}, data, nil},
		{"one reads", []*Reading{one}, data, []int{3, 10, 11}},
		{"two read", []*Reading{one, two}, data, []int{3, 10, 11, 12, 13, 31}},
		{"the same is read twice", []*Reading{two, two}, data, []int{11, 12, 13, 31}},
		{"a part that begins and ends inside", []*Reading{one, two}, at(12, 31), []int{12, 13}},
		{"a part that nobody reads", []*Reading{one, two}, at(14, 31), nil},
	} {
		for _, r := range c.readers {
			r.Begin()
		}
		if len(c.readers) > 1 { // who ends and begins again changes nothing
			c.readers[0].End()
			c.readers[0].Begin()
		}
		for i := range pages {
			_ = bytes.Clone(at(i, i+1))
		}
		Discard(c.discard)
		var stay []int
		from := (int(span(c.discard).from) - int(span(data).from)) / page
		for i, is := range present(t, c.discard) {
			if is {
				stay = append(stay, from+i)
			}
		}
		assert.Equal(t, c.stay, stay, c.name)
		for _, r := range c.readers {
			r.End()
		}
	}
	assert.Empty(t, mapped.read)
}
