package cuda

import (
	"cmp"
	"context"
	"sync"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/internal/rescue"
)

// What a device is given back is given back by one goroutine, in the order in which it is no longer needed: the driver waits for all work of
// the device before it frees memory, and nobody else waits with it.

// returns are the calls for that.
type returns struct {
	lock sync.Mutex // of what follows
	list []func()
	done chan struct{} // closed when the list is empty and the last call has returned; nil when that is so
	err  error         // the first of a call, since settle was last called
}

// settle waits until everything is given back that was to be, or until ctx ends, and tells what has failed since it was last called.
func (r *returns) settle(ctx context.Context) error {
	r.lock.Lock()
	done := r.done
	r.lock.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	err := r.err
	r.err = nil
	return err
}

// note keeps an error for settle.
func (r *returns) note(err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.err = cmp.Or(r.err, err)
}

// add has a call made after those before it.
func (r *returns) add(call func()) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.list = append(r.list, call)
	if r.done == nil {
		r.done = make(chan struct{})
		rescue.Go(r.work)
	}
}

// work makes the calls until there are none.
func (r *returns) work() {
	for {
		r.lock.Lock()
		if len(r.list) == 0 {
			close(r.done)
			r.list, r.done = nil, nil
			r.lock.Unlock()
			return
		}
		call := r.list[0]
		r.list[0] = nil
		r.list = r.list[1:]
		r.lock.Unlock()
		call()
	}
}

// giveBack makes a call that gives something back that no work uses. A device that is lost has done so.
func (m *machine) giveBack(f func(d device.Device) error) { m.giveBackWhen(true, f) }

// giveBackWhen is giveBack for what work in progress may use unless isUnused: that is waited for.
func (m *machine) giveBackWhen(isUnused bool, f func(d device.Device) error) {
	m.returns.add(func() {
		call := func() (err error) {
			defer rescue.Into(&err)
			if !isUnused {
				if err := m.wait(context.Background()); err != nil {
					return err
				}
			}
			return m.use(f)
		}
		if err := call(); err != nil && m.lost.Load() == nil {
			m.returns.note(err)
		}
	})
}
