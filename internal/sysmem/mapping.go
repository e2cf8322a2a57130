package sysmem

import (
	"slices"
	"sync"
	"unsafe"
)

// mapped lists the mapped files by address: their pages can be dropped at any time and are read again on access.
var mapped struct {
	sync.RWMutex
	at []region
}

type region struct{ from, past uintptr }

// span is where bytes lie.
func span(b []byte) region {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return region{from, from + uintptr(len(b))}
}

func (r region) holds(x region) bool { return r.from <= x.from && x.past <= r.past }

// note adds a mapping to the list.
func note(data []byte) {
	mapped.Lock()
	defer mapped.Unlock()
	mapped.at = append(mapped.at, span(data))
}

// forget takes a mapping off the list.
func forget(data []byte) {
	mapped.Lock()
	defer mapped.Unlock()
	mapped.at = slices.DeleteFunc(mapped.at, func(r region) bool { return r == span(data) })
}

// IsMapped reports whether bytes lie in a file mapped by [MapFile]. Their address
// identifies them until the file is unmapped.
func IsMapped(b []byte) bool {
	mapped.RLock()
	defer mapped.RUnlock()
	return len(b) > 0 && slices.ContainsFunc(mapped.at, func(r region) bool { return r.holds(span(b)) })
}

// faultAround is how much of a file the system maps, where it has it in memory, when one byte of it is read (Linux,
// /sys/kernel/debug/fault_around_bytes).
const faultAround = 64 << 10

// Discard gives back the memory of bytes in a mapped file, with what reading them has mapped around them; reading any of it
// again brings it back. Other bytes are left alone.
func Discard(b []byte) {
	mapped.RLock()
	defer mapped.RUnlock()
	s := span(b)
	if i := slices.IndexFunc(mapped.at, func(r region) bool { return r.holds(s) }); i >= 0 && len(b) > 0 {
		discard(mapped.at[i].around(b))
	}
}

// around is b with the rest of the windows of faultAround that it begins and ends in, as far as they are of r.
func (r region) around(b []byte) []byte {
	s := span(b)
	from := max(r.from, s.from&^(faultAround-1))
	past := min(r.past, (s.past+faultAround-1)&^(faultAround-1))
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -int(s.from-from))), past-from)
}

// prefaultBytes is the size from which asking for all pages at once is cheaper than touching them one by one.
const prefaultBytes = 64 << 10

// Prefault asks the system for the pages of fresh memory that will be written as a whole, in one call instead of one page
// fault each. It changes no byte.
func Prefault(b []byte) {
	if len(b) >= prefaultBytes {
		prefault(b)
	}
}
