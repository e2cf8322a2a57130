package sysmem

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

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

// mappedZeros maps a file of zeros for the test.
func mappedZeros(t *testing.T, size int) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(int64(size)))
	data, err := MapFile(f, size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, UnmapFile(data)) })
	return data
}

// TestMeasurementsDropPages: what a mapped file takes is given back where it does not fit beside what is in use, but for what is read.
func TestMeasurementsDropPages(t *testing.T) {
	const size = 160 << 20
	data := mappedZeros(t, size)
	part := NewReading([][]byte{data[:size/2]})
	for _, c := range []struct {
		name   string
		beyond int64 // the limit, beyond what is in use
		reads  bool
		want   int // bytes that stay
	}{
		{"both fit", 4 * size, false, size},
		{"the file does not fit", size / 2, false, 0},
		{"half of it is read", size / 2, true, size / 2},
		{"half of it is read, which does not fit either", size / 8, true, 0},
	} {
		var sum byte
		for i := 0; i < size; i += os.Getpagesize() {
			sum += data[i]
		}
		require.Zero(t, sum)
		if c.reads {
			part.Begin()
		}
		limit := Budget(resident() - atStart + c.beyond)
		require.NoError(t, limit.Check("test"), c.name)
		stay := 0
		for _, is := range present(t, data) {
			if is {
				stay += os.Getpagesize()
			}
		}
		assert.Equal(t, c.want, stay, c.name)
		if c.reads {
			part.End()
		}
	}
	for i := 0; i < size; i += os.Getpagesize() {
		_ = bytes.Clone(data[i : i+1])
	}
	require.NoError(t, Budget(math.MaxInt64).Check("test"))
	assert.NotContains(t, present(t, data), false, "all that can be counted is enough")
	ctx := Budget(resident() - atStart + size/4).In(t.Context())
	time.Sleep(pageInterval)
	require.NoError(t, ctx.Err())
	assert.NotContains(t, present(t, data), true, "a look drops them, too")
	part.Begin()
	defer part.End()
	assert.Zero(t, testing.AllocsPerRun(10, func() { discardBeyond(1, 0) }), "runs, which allocate nothing, look")
}

// TestRunsDropPages: looks of kernels drop pages at the least limit of the runs in progress, and at none without.
func TestRunsDropPages(t *testing.T) {
	const size = 160 << 20
	data := mappedZeros(t, size)
	looks := map[string]func(){
		"a look": func() { time.Sleep(pageInterval); LookAtPages() },
		"jumps": func() {
			j := NewJumps(data)
			for i := range farLooks {
				j.Look(i * hugePage)
			}
		},
	}
	debug.FreeOSMemory()
	now := Budget(resident() - atStart)
	low, high := now+size/4, now+8*size
	for _, c := range []struct {
		name  string
		runs  []Budget
		stays bool
	}{
		{"no run", nil, true},
		{"one with room", []Budget{high}, true},
		{"one without", []Budget{low}, false},
		{"both", []Budget{high, low, high}, false},
		{"one of the default", []Budget{0}, true},
	} {
		for by, look := range looks {
			var began []Budget
			for _, b := range c.runs {
				if Begin(b) {
					began = append(began, b)
				}
			}
			for i := 0; i < size; i += os.Getpagesize() {
				_ = bytes.Clone(data[i : i+1])
			}
			look()
			assert.Equal(t, c.stays, !slices.Contains(present(t, data), false), "%s, %s", c.name, by)
			for _, b := range began {
				End(b)
			}
			assert.Zero(t, pageLimit.Load(), c.name)
		}
	}
	assert.Zero(t, testing.AllocsPerRun(10, func() { require.True(t, Begin(low)); End(low) }), "runs allocate nothing")
	require.True(t, Begin(low))
	defer End(low)
	for _, c := range []struct {
		name    string
		operand []byte
		step    int
		want    uint32
	}{
		{"large pages of a file", data, hugePage, 8},
		{"elements of one", data, 4, 1},
		{"memory", make([]byte, 8), hugePage, 0},
	} {
		before, j := farReads.Load(), NewJumps(c.operand)
		for i := range 8 {
			j.Look(i * c.step)
		}
		assert.Equal(t, c.want, farReads.Load()-before, "%s: a look takes as long as hundreds of elements", c.name)
	}
}

// TestResidentNow: what the process has resident is what the system's other figure says, but for what other threads do meanwhile.
func TestResidentNow(t *testing.T) {
	assert.InEpsilon(t, statusBytes("VmRSS:"), ResidentNow(), 0.1)
	assert.LessOrEqual(t, ResidentNow(), PeakResident()+1<<20)
}
