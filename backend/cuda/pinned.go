package cuda

import (
	"context"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// Weights and tensors are copied piece by piece through pinned memory that the device's users share, so that no call of the driver waits
// for work that others have asked for, as one for ordinary memory does: the copy is asked for and its event waited for, which a context
// ends.
//
//	tensor  ├── piece ──┼── piece ──┼─ piece ─┤
//	            │ copy, one at a time
//	pinned  ├───▼───────┤ ──▶ device

// pinnedBuffer is that memory.
type pinnedBuffer struct {
	lock   gate // of what follows
	pinned []byte
	done   device.Event
	isBusy bool // with a piece whose context has ended
}

// pinnedBytes is the size of a piece.
const pinnedBytes = 1 << 20

// upload copies to the device.
func (m *machine) upload(ctx context.Context, to device.Pointer, data []byte) error {
	return m.pieces(ctx, int64(len(data)), func(at int64, pinned []byte) error {
		copy(pinned, data[at:])
		return m.transfer(ctx, func(d device.Device) error { return d.CopyIn(to+device.Pointer(at), pinned) })
	})
}

// download copies to the host.
func (m *machine) download(ctx context.Context, data []byte, from device.Pointer) error {
	return m.pieces(ctx, int64(len(data)), func(at int64, pinned []byte) error {
		err := m.transfer(ctx, func(d device.Device) error { return d.CopyOut(pinned, from+device.Pointer(at)) })
		if err == nil {
			copy(data[at:], pinned)
		}
		return err
	})
}

// pieces calls f for each piece of a copy, with pinned memory of its size that nobody else uses. Copies take turns, piece by piece.
func (m *machine) pieces(ctx context.Context, bytes int64, f func(at int64, pinned []byte) error) error {
	piece := func(at int64) error {
		if err := m.buffer.lock.enter(ctx); err != nil {
			return err
		}
		defer m.buffer.lock.Unlock()
		if err := m.openPinned(ctx); err != nil {
			return err
		}
		return f(at, m.buffer.pinned[:min(bytes-at, pinnedBytes)])
	}
	for at := int64(0); at < bytes; at += pinnedBytes {
		if err := piece(at); err != nil {
			return err
		}
	}
	return nil
}

// openPinned has the memory, with nothing left in it.
func (m *machine) openPinned(ctx context.Context) error {
	f := &m.buffer
	if f.done == nil {
		var pinned []byte
		var done device.Event
		err := m.withRoom(ctx, func(d device.Device) (err error) {
			if pinned, err = d.AllocHost(pinnedBytes); err != nil {
				return err
			}
			if done, err = d.NewEvent(false); err != nil {
				_ = d.FreeHost(pinned)
			}
			return err
		}, func(d device.Device) { _, _ = done.Close(), d.FreeHost(pinned) })
		if err != nil {
			return err
		}
		f.pinned, f.done = pinned, done
	}
	if !f.isBusy {
		return nil
	}
	err := m.note(f.done.Wait(ctx))
	f.isBusy = err != nil
	return err
}

// transfer asks for the copy of a piece and waits for it.
func (m *machine) transfer(ctx context.Context, f func(d device.Device) error) error {
	err := m.ask(ctx, func(d device.Device) error {
		m.buffer.isBusy = true
		if err := f(d); err != nil {
			return err
		}
		return m.buffer.done.Record()
	})
	if err == nil {
		err = m.note(m.buffer.done.Wait(ctx))
	}
	if err == nil {
		m.buffer.isBusy = false
	}
	return err
}
