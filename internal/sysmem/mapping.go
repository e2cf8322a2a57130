package sysmem

import (
	"context"
	"os"
	"slices"
	"sort"
	"sync"
	"unsafe"
)

// mapped lists the mapped files: their pages can be dropped at any time and are read again on access.
var mapped struct {
	sync.RWMutex
	files [][]byte
	read  map[*Reading]int // by what is read, by how many
	pages []region         // of all that is read, by address, none next to another; nil when that has changed
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
	mapped.files = append(mapped.files, data)
	mappedSum.Add(int64(len(data)))
}

// forget takes a mapping off the list.
func forget(data []byte) {
	mapped.Lock()
	defer mapped.Unlock()
	mapped.files = slices.DeleteFunc(mapped.files, func(file []byte) bool { return span(file) == span(data) })
	mappedSum.Add(-int64(len(data)))
}

// IsMapped reports whether bytes lie in a file mapped by [MapFile]. Their address
// identifies them until the file is unmapped.
func IsMapped(b []byte) bool {
	mapped.RLock()
	defer mapped.RUnlock()
	return len(b) > 0 && inFile(b)
}

// inFile is [IsMapped] for who holds the lock.
func inFile(b []byte) bool {
	return slices.ContainsFunc(mapped.files, func(file []byte) bool { return span(file).holds(span(b)) })
}

// Reading is bytes of mapped files that are read again and again: [Discard] leaves their pages alone while they are read, and they are
// the last to be dropped where memory is lacking.
type Reading struct{ parts [][]byte }

// NewReading lists bytes that will be read.
func NewReading(parts [][]byte) *Reading { return &Reading{parts} }

// Begin counts one who reads the bytes; End must follow.
func (r *Reading) Begin() {
	if len(r.parts) == 0 {
		return
	}
	mapped.Lock()
	defer mapped.Unlock()
	if mapped.read == nil {
		mapped.read = map[*Reading]int{}
	}
	mapped.read[r]++
	mapped.pages = nil
}

// End takes one back whom Begin has counted.
func (r *Reading) End() {
	if len(r.parts) == 0 {
		return
	}
	mapped.Lock()
	defer mapped.Unlock()
	if mapped.read[r]--; mapped.read[r] == 0 {
		delete(mapped.read, r)
	}
	mapped.pages = nil
}

// readingPages locks the list for reading with the pages of all that is read up to date.
func readingPages() {
	for mapped.RLock(); mapped.pages == nil && len(mapped.read) > 0; mapped.RLock() {
		mapped.RUnlock()
		mapped.Lock()
		listPages()
		mapped.Unlock()
	}
}

// listPages lists the pages of all that is read.
func listPages() {
	if len(mapped.read) == 0 {
		return
	}
	page := uintptr(os.Getpagesize())
	var all []region
	for r := range mapped.read {
		for _, b := range r.parts {
			s := span(b)
			all = append(all, region{s.from &^ (page - 1), (s.past + page - 1) &^ (page - 1)})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].from < all[j].from })
	mapped.pages = all[:1]
	for _, r := range all[1:] {
		if last := &mapped.pages[len(mapped.pages)-1]; r.from <= last.past {
			last.past = max(last.past, r.past)
		} else {
			mapped.pages = append(mapped.pages, r)
		}
	}
}

// Discard gives back the memory of bytes in a mapped file, but for pages that are read ([Reading]): a run that lost them would
// wait for each. Reading the bytes again brings them back. Bytes in other memory are left alone.
func Discard(b []byte) {
	readingPages()
	defer mapped.RUnlock()
	if inFile(b) {
		discardUnread(b)
	}
}

// discardUnread is [Discard] of bytes in a mapped file, for who holds the lock.
func discardUnread(b []byte) {
	s, read := span(b), mapped.pages
	at := sort.Search(len(read), func(i int) bool { return read[i].past > s.from })
	from := s.from
	for ; at < len(read) && read[at].from < s.past; at++ {
		if read[at].from > from {
			discard(b[from-s.from : read[at].from-s.from])
		}
		from = read[at].past
	}
	if from < s.past {
		discard(b[from-s.from:])
	}
}

// programBytes is what the pages of the program's own files take, at most.
const programBytes = 32 << 20

// discardBeyond gives back the pages of all mapped files where the process, with so many bytes more, takes more than a limit: those that
// nobody reads ([Reading]) first, and the others where that is not enough. The files' sizes tell at once where the process can not be
// beyond. Runs, which allocate nothing, come here when they look.
func discardBeyond(limit, bytes int64) {
	sum := mappedSum.Load()
	if atStart >= 0 { // the program does not count ([CountProgram])
		limit += programBytes
	}
	if sum == 0 || resident()-atStart+bytes+sum <= limit || ResidentNow()+bytes <= limit {
		return
	}
	readingPages()
	defer mapped.RUnlock()
	for _, file := range mapped.files {
		discardUnread(file)
	}
	if len(mapped.pages) == 0 || ResidentNow()+bytes <= limit {
		return
	}
	for _, file := range mapped.files {
		discard(file)
	}
}

// prefaultBytes is the size from which asking for all pages at once is cheaper than touching them one by one.
const prefaultBytes = 64 << 10

// largeBytes is the size from which memory that is read and written as a whole is worth large pages.
const largeBytes = 8 << 20

// bringPiece is how much is asked for between two looks at a context, at least: some milliseconds, tens of them in virtual machines whose
// host has no memory for them yet.
const bringPiece = 8 << 20

// Prefault asks the system for the pages of fresh memory that will be written as a whole, in few calls instead of one page
// fault each. It changes no byte. When the context ends before, the rest comes as it is touched, and its error is returned; nil never ends.
func Prefault(ctx context.Context, b []byte) error {
	return bringInPieces(ctx, b, prefaultBytes, prefault)
}

// LargePages is [Prefault] for memory that passes will go over again and again, in large pages where the system has them: small ones
// cost a walk through the page table every few hundred nanoseconds, in virtual machines through two.
func LargePages(ctx context.Context, b []byte) error {
	return bringInPieces(ctx, b, largeBytes, largePages)
}

// bringInPieces calls bring for pieces of b that cut no large page, until less than least is left or the context ends, whose error it
// then returns.
func bringInPieces(ctx context.Context, b []byte, least int, bring func([]byte)) error {
	for len(b) >= least {
		if ctx != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		n := len(b)
		if n >= bringPiece+2*largeBytes {
			n = bringPiece + int(-(span(b).from+bringPiece)&(largeBytes-1))
		}
		bring(b[:n])
		b = b[n:]
	}
	return nil
}
