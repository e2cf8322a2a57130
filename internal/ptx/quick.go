package ptx

import "encoding/binary"

// The common accesses to global memory, checked as all are but with little work: aligned ones of 4 to 16 bytes to the window that the
// instruction last accessed. Whatever else they meet, they return nil and leave the access to [warp.at], which finds out what it is.

// quick gives the bytes of an access.
func (w *warp) quick(f *frame, a *access, lane int, addr uint64) []byte {
	if addr&uint64(a.size-1) != 0 {
		return nil
	}
	switch {
	case a.space == Global:
		return w.quickGlobal(a, lane, addr)
	case a.space == Local:
		return quickOwn(a, w.local, w.localState, uint64(lane)*w.localStride, w.localStride, addr)
	case a.space == Param && addr >= frameParams:
		stride := uint64(f.fn.paramBytes)
		return quickOwn(a, f.params, f.paramState, uint64(lane)*stride, stride, addr-frameParams)
	}
	return nil
}

// quickOwn gives bytes of memory that a lane has for itself.
func quickOwn(a *access, data, state []byte, start, n, at uint64) []byte {
	size := uint64(a.size)
	if at >= n || size > n-at || !quickState(state[start+at:start+at+size], a.isRead) {
		return nil
	}
	return data[start+at : start+at+size]
}

func (w *warp) quickGlobal(a *access, lane int, addr uint64) []byte {
	b := w.block
	win := b.recent[a.id]
	if win == nil {
		return nil
	}
	at := addr - win.Base
	n, size := uint64(len(win.data)), uint64(a.size)
	if at >= n || size > n-at || win.Access&a.mode != a.mode {
		return nil
	}
	if !quickState(win.state[at:at+size], a.isRead) {
		return nil
	}
	if win.shadow != nil && w.isRace(win, a, lane, addr, a.size) {
		return w.nothing(a.size)
	}
	if sector := addr >> 5; sector != w.sector {
		w.sector = sector
		b.counts.GlobalSectors++
	}
	if a.isRead {
		b.counts.GlobalLoaded += int64(size)
	} else {
		b.counts.GlobalStored += int64(size)
	}
	return win.data[at : at+size]
}

// The states of bytes that have been written.
const written4, written8 = 0x01010101 * uint32(isWritten), 0x0101010101010101 * uint64(isWritten)

// quickState reports whether bytes may be read, or makes them written if they may be: bytes of one state alone.
func quickState(state []byte, isRead bool) bool {
	switch len(state) {
	case 4:
		s := binary.LittleEndian.Uint32(state)
		if s == 0 && !isRead {
			binary.LittleEndian.PutUint32(state, written4)
			return true
		}
		return s == written4
	case 8, 16:
		for ; len(state) > 0; state = state[8:] {
			s := binary.LittleEndian.Uint64(state)
			if s == 0 && !isRead {
				binary.LittleEndian.PutUint64(state, written8)
			} else if s != written8 {
				return false
			}
		}
		return true
	}
	return false
}

// rowBytes is what all lanes of a warp access where each of them has its own word.
const rowBytes = 4 * 32

// row gives the words of global memory that the lanes of a warp access, if they follow each other in one window; nil if they do not.
func (w *warp) row(a *access, base uint64, at *vec) []byte {
	b := w.block
	win := b.recent[a.id]
	if win == nil || win.Access&a.mode != a.mode {
		return nil
	}
	first := base + at[0]
	others := uint64(0)
	for l := range at {
		others |= base + at[l] - first - 4*uint64(l)
	}
	start, n := first-win.Base, uint64(len(win.data))
	if others != 0 || first&3 != 0 || n < rowBytes || start > n-rowBytes {
		return nil
	}
	state := win.state[start : start+rowBytes]
	for s := state; len(s) > 0; s = s[8:] {
		if v := binary.LittleEndian.Uint64(s); v != written8 && (a.isRead || v != 0) {
			return nil
		}
	}
	if win.shadow != nil && w.isRowRace(win, a, first) {
		return w.nothing(rowBytes)
	}
	b.counts.GlobalSectors += int64((first+rowBytes-1)>>5-first>>5) + 1
	if a.isRead {
		b.counts.GlobalLoaded += rowBytes
	} else {
		b.counts.GlobalStored += rowBytes
		for s := state; len(s) > 0; s = s[8:] {
			binary.LittleEndian.PutUint64(s, written8)
		}
	}
	return win.data[start : start+rowBytes]
}

// nothing is what a lane reads, as zeros, and writes without effect where a report says that it may not.
func (w *warp) nothing(size int) []byte {
	w.void = [rowBytes]byte{}
	return w.void[:size]
}
