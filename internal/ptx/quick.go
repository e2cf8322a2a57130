package ptx

import "encoding/binary"

// The common accesses, checked as all are but with little work: aligned ones of 4 to 16 bytes to the window that the last access was
// in, or to shared memory that no other lane has touched since the last barrier. Whatever else they meet, they return nil and leave
// the access to [warp.at], which finds out what it is.

// quick gives the bytes of an access.
func (w *warp) quick(a *access, lane int, addr uint64) []byte {
	if addr&uint64(a.size-1) != 0 {
		return nil
	}
	switch a.space {
	case Global:
		return w.quickGlobal(a, addr)
	case Shared:
		return w.quickShared(a, lane, addr)
	}
	return nil
}

func (w *warp) quickGlobal(a *access, addr uint64) []byte {
	b := w.block
	win := b.lastWindow
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

func (w *warp) quickShared(a *access, lane int, addr uint64) []byte {
	b := w.block
	n, size := uint64(len(b.shared)), uint64(a.size)
	if addr >= n || size > n-addr || b.kernel.sharedGrain != 4 {
		return nil
	}
	thread := int32(w.index*32+lane) + 1
	first, last := addr>>2, (addr+size-1)>>2
	cells := b.cells[first : last+1]
	for i := range cells {
		c := &cells[i]
		if !w.isBefore(c.write, thread) || !a.isRead && !(w.isBefore(c.reads[0], thread) && w.isBefore(c.reads[1], thread)) {
			return nil
		}
	}
	state := b.sharedState[addr : addr+size]
	if !quickState(state, a.isRead) {
		return nil
	}
	me := stamp{thread, w.clock}
	for i := range cells {
		if c := &cells[i]; a.isRead {
			c.read(w, me)
		} else {
			c.write, c.atomic = me, false
		}
	}
	b.counts.SharedBytes += int64(size)
	return b.shared[addr : addr+size]
}

// quickState reports whether bytes may be read, or makes them written if they may be: bytes of one state alone.
func quickState(state []byte, isRead bool) bool {
	const written4, written8 = 0x01010101 * uint32(isWritten), 0x0101010101010101 * uint64(isWritten)
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
