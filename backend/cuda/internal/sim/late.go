package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// Work that is left for later is done in the order in which it was asked for, when an event behind it is waited for. Contexts do not end it,
// as they do not end that of a GPU. Host memory that is read too early has other bytes then; memory that is given back too early, and host
// memory that is written before it has been copied to the device, are errors.

// later is work that is left.
type later struct {
	work task
	uses []span
	from []source
}

// source is memory of the host that work copies to the device, as it was when that was asked for.
type source struct{ now, was []byte }

// leave notes work for later.
func (d *Device) leave(work task, from [][]byte, uses []span) {
	l := later{work: work, uses: uses}
	for _, b := range from {
		l.from = append(l.from, source{b, slices.Clone(b)})
	}
	d.queue = append(d.queue, l)
}

// isIntact is an error if what work copies has been written since.
func (l *later) isIntact() error {
	for _, s := range l.from {
		if !bytes.Equal(s.now, s.was) {
			return fmt.Errorf("%d bytes of the host are written before they have been copied to the device", len(s.now))
		}
	}
	return nil
}

// span is memory of the device or of the host.
type span struct {
	isHost    bool
	lo, hi    uint64
	isWritten bool
	commutes  bool // as [device.Window] says it
}

func at(p device.Pointer, bytes int) span { return span{lo: uint64(p), hi: uint64(p) + uint64(bytes)} }

// written is the same span for work that writes it.
func (s span) written() span {
	s.isWritten = true
	return s
}

func ofHost(b []byte) span {
	lo := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	return span{isHost: true, lo: lo, hi: lo + uint64(len(b))}
}

func (s span) overlaps(o span) bool { return s.isHost == o.isHost && s.lo < o.hi && o.lo < s.hi }

// isPinned reports that bytes are of AllocHost.
func (d *Device) isPinned(b []byte) bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	for _, s := range d.pinned {
		if s.overlaps(ofHost(b)) {
			return true
		}
	}
	return d.capture != nil
}

// asked is how much work has been asked for.
func (d *Device) asked() int64 {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.done + int64(len(d.queue))
}

// finish does the first pieces of work, as far as they are left.
func (d *Device) finish(pieces int64) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	for d.done < pieces && len(d.queue) > 0 {
		next := d.queue[0]
		d.queue[0] = later{}
		d.queue = d.queue[1:]
		d.done++
		if err := next.isIntact(); err != nil {
			return err
		}
		if err := next.work(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// unused is an error for memory that work uses which is left.
func (d *Device) unused(s span) error {
	for _, l := range d.queue {
		for _, u := range l.uses {
			if u.overlaps(s) {
				return fmt.Errorf("memory at %#x is given back before work is done that uses it", s.lo)
			}
		}
	}
	return nil
}
