package ptx

import (
	"fmt"
	"slices"
	"sort"
)

// Memory is the global memory of a device: allocations with addresses, and which of their bytes have been written. It must
// not be changed while a launch runs.
type Memory struct {
	allocs []*Allocation // by address
	next   uint64
}

// Allocation is a piece of global memory. Its owner may read and write Data between launches.
type Allocation struct {
	Base  uint64
	Data  []byte
	state []byte // of each byte: isFree (not written) or isWritten
}

// The states of a byte of memory.
const (
	isFree    byte = iota // may be used, nobody has written it
	isWritten             // has a value
	isGap                 // belongs to no variable
	isFlying              // the target of an asynchronous copy that has not been waited for
)

// The alignment of allocations, as of the driver, and the distance that keeps two of them apart.
const (
	allocAlign = 256
	allocGap   = 1 << 16
)

// NewMemory makes memory without allocations.
func NewMemory() *Memory { return &Memory{next: 0x7_0000_0000} }

// Alloc adds an allocation whose bytes nobody has written. Data is its memory if it is not nil, else new memory of the size.
func (m *Memory) Alloc(size int, data []byte) *Allocation {
	if data == nil {
		data = make([]byte, size)
	}
	a := &Allocation{Base: m.next, Data: data, state: make([]byte, len(data))}
	m.next = uint64(alignUp(int64(m.next)+int64(len(data))+allocGap, allocAlign))
	m.allocs = append(m.allocs, a)
	return a
}

// Free takes an allocation away. Its address is not used again.
func (m *Memory) Free(base uint64) error {
	for i, a := range m.allocs {
		if a.Base == base {
			m.allocs = slices.Delete(m.allocs, i, i+1)
			return nil
		}
	}
	return fmt.Errorf("no allocation begins at %#x", base)
}

// At finds the bytes of a range, which must lie in one allocation.
func (m *Memory) At(addr uint64, size int) ([]byte, error) {
	a, at, err := m.find(addr, size)
	if err != nil {
		return nil, err
	}
	return a.Data[at : at+size : at+size], nil
}

// SetWritten says that bytes have a value, as a copy from the host gives them, or (false) that they no longer have one.
func (m *Memory) SetWritten(addr uint64, size int, written bool) error {
	a, at, err := m.find(addr, size)
	if err != nil {
		return err
	}
	state := isFree
	if written {
		state = isWritten
	}
	for i := range a.state[at : at+size] {
		a.state[at+i] = state
	}
	return nil
}

// Unwritten is the offset of the first byte of a range that nobody has written; -1: all have a value.
func (m *Memory) Unwritten(addr uint64, size int) (int, error) {
	a, at, err := m.find(addr, size)
	if err != nil {
		return 0, err
	}
	return slices.Index(a.state[at:at+size], isFree), nil
}

func (m *Memory) find(addr uint64, size int) (*Allocation, int, error) {
	i := sort.Search(len(m.allocs), func(i int) bool { return m.allocs[i].Base > addr }) - 1
	if i >= 0 && size >= 0 {
		if a := m.allocs[i]; addr-a.Base <= uint64(len(a.Data)) && uint64(size) <= uint64(len(a.Data))-(addr-a.Base) {
			return a, int(addr - a.Base), nil
		}
	}
	return nil, 0, fmt.Errorf("the %d bytes at %#x lie in no allocation", size, addr)
}

// Access says what a kernel may do with a window.
type Access uint8

// The kinds of access.
const (
	Read Access = 1 << iota
	Write
	ReadWrite = Read | Write
)

// Window is a range of global memory that a kernel may touch, usually one operand of it.
type Window struct {
	Name   string
	Base   uint64
	Size   int
	Access Access
	Arg    int // one more than where, in the launch's arguments, the address of the window is; 0: addresses of any origin may lie in it
}

// window is a window with its memory.
type window struct {
	Window
	data, state []byte
	shadow      *shadow // nil if nothing writes it
	origin      uint64  // the bit of the parameter or variable that it is of, 0 where there is none
}

// windows resolves the windows of a launch; none given means every allocation.
func (m *Memory) windows(list []Window) ([]window, error) {
	if list == nil {
		for _, a := range m.allocs {
			list = append(list, Window{Name: "memory", Base: a.Base, Size: len(a.Data), Access: ReadWrite})
		}
	}
	out := make([]window, 0, len(list))
	for _, w := range list {
		a, at, err := m.find(w.Base, w.Size)
		if err != nil {
			return nil, fmt.Errorf("window %s: %w", w.Name, err)
		}
		out = append(out, window{w, a.Data[at : at+w.Size], a.state[at : at+w.Size], nil, 0})
	}
	return out, nil
}
