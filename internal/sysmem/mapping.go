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

// Discard gives back the memory of bytes in a mapped file; reading them again brings
// them back. Other bytes are left alone.
func Discard(b []byte) {
	mapped.RLock()
	defer mapped.RUnlock()
	s := span(b)
	if slices.ContainsFunc(mapped.at, func(r region) bool { return r.holds(s) }) {
		discard(b)
	}
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
