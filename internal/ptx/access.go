package ptx

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Loads and stores. Every access of every lane is checked before it happens; one that fails a check is reported and skipped, a load
// then gives zero.

// access is what an instruction does with memory.
type access struct {
	id         int // index into the block's recent windows
	space      Space
	size       int // bytes of one lane's access, of all elements of a vector
	isWrite    bool
	isRead     bool
	isAtomic   bool
	isConstant bool   // a load from memory that nothing writes while the kernel runs
	mode       Access // of the window it needs
}

// accessTo describes loads or stores.
func accessTo(space Space, size int, mode Access) access {
	return access{space: space, size: size, isWrite: mode&Write != 0, isRead: mode&Read != 0, mode: mode}
}

// at gives the bytes that a lane accesses; nil if it may not.
func (w *warp) at(f *frame, a access, lane int, addr uint64) []byte {
	space := a.space
	if space == Generic {
		space, addr = spaceOf(addr)
	}
	if addr&uint64(a.size-1) != 0 {
		w.report(Misaligned, lane, "%d bytes at %#x of %s memory", a.size, addr, space)
		return nil
	}
	switch space {
	case Global:
		return w.atGlobal(a, lane, addr)
	case Shared:
		return w.atShared(a, lane, addr)
	case Local:
		start := uint64(lane) * w.localStride
		return w.within(a, lane, addr, Local, w.local[start:start+w.localStride], w.localState[start:start+w.localStride])
	case Const:
		return w.within(a, lane, addr, Const, w.block.kernel.constants, nil)
	}
	if addr < frameParams {
		return w.within(a, lane, addr, Param, w.block.launch.Args, nil)
	}
	size := uint64(f.fn.paramBytes)
	start := uint64(lane) * size
	return w.within(a, lane, addr-frameParams, Param, f.params[start:start+size], f.paramState[start:start+size])
}

// within checks an access to memory that has no windows. State is nil for memory that is always written, and read alone.
func (w *warp) within(a access, lane int, addr uint64, space Space, data, state []byte) []byte {
	n := uint64(len(data))
	if addr > n || uint64(a.size) > n-addr {
		w.report(OutOfBounds, lane, "%d bytes at %#x of %s memory, which has %d", a.size, addr, space, n)
		return nil
	}
	end := addr + uint64(a.size)
	if state == nil {
		if a.isWrite {
			w.report(ReadOnly, lane, "a store at %#x of %s memory", addr, space)
			return nil
		}
		return data[addr:end]
	}
	if !w.settle(a, lane, addr, space, state[addr:end]) {
		return nil
	}
	return data[addr:end]
}

// settle checks the states of the bytes of an access, and notes what it writes.
func (w *warp) settle(a access, lane int, addr uint64, space Space, state []byte) bool {
	if a.isRead && !areWritten(state) || slices.Contains(state, isGap) {
		for i, s := range state {
			switch s {
			case isGap:
				w.report(OutOfBounds, lane, "byte %d of the %d at %#x of %s memory belongs to no variable", i, a.size, addr, space)
				return false
			case isFree:
				w.report(Uninitialized, lane, "nobody has written byte %d of the %d at %#x of %s memory", i, a.size, addr, space)
				return false
			case isFlying:
				w.report(Uninitialized, lane, "the copy to the %d bytes at %#x of %s memory has not been waited for", a.size, addr, space)
				return false
			}
		}
	}
	if a.isWrite {
		if i := slices.Index(state, isFlying); i >= 0 {
			w.report(Race, lane, "the copy to byte %d of the %d at %#x of %s memory has not been waited for", i, a.size, addr, space)
			return false
		}
		for i := range state {
			state[i] = isWritten
		}
	}
	return true
}

// areWritten reports whether all of up to 16 states, a power of two, are isWritten.
func areWritten(state []byte) bool {
	const all4, all8 = 0x01010101, 0x0101010101010101
	switch len(state) {
	case 4:
		return binary.LittleEndian.Uint32(state) == all4
	case 8:
		return binary.LittleEndian.Uint64(state) == all8
	case 16:
		return binary.LittleEndian.Uint64(state) == all8 && binary.LittleEndian.Uint64(state[8:]) == all8
	}
	for _, s := range state {
		if s != isWritten {
			return false
		}
	}
	return true
}

// atGlobal finds the window of an access: first the one that the instruction's last access was in. Windows may overlap, as those of an operand and
// of a result that lies over it do.
func (w *warp) atGlobal(a access, lane int, addr uint64) []byte {
	b := w.block
	win := b.recent[a.id]
	if win == nil || !win.holds(addr, a.size) || win.Access&a.mode != a.mode {
		if win = b.window(addr, a); win == nil {
			w.report(OutOfBounds, lane, "%s", b.nearest(addr, a))
			return nil
		}
		b.recent[a.id] = win
	}
	if win.Access&a.mode != a.mode {
		w.report(ReadOnly, lane, "%d bytes at %#x: the window %s may not be accessed so", a.size, addr, win.Name)
		return nil
	}
	start := addr - win.Base
	if !w.settle(a, lane, addr, Global, win.state[start:start+uint64(a.size)]) {
		return nil
	}
	if win.shadow != nil && w.isRace(win, &a, lane, addr, a.size) {
		return nil
	}
	if a.isRead {
		b.counts.GlobalLoaded += int64(a.size)
	}
	if a.isWrite {
		b.counts.GlobalStored += int64(a.size)
	}
	if sector := addr >> 5; sector != w.sector {
		w.sector = sector
		b.counts.GlobalSectors++
	}
	return win.data[start : start+uint64(a.size)]
}

func (win *window) holds(addr uint64, size int) bool {
	at := addr - win.Base
	return at <= uint64(win.Size) && uint64(size) <= uint64(win.Size)-at
}

// window finds a window that holds an access and that it may touch, if there is one a window that allows it.
func (b *block) window(addr uint64, a access) (found *window) {
	for i := range b.windows {
		if win := &b.windows[i]; win.holds(addr, a.size) && b.mayReach(a.id, win) {
			if win.Access&a.mode == a.mode {
				return win
			}
			found = win
		}
	}
	return found
}

// nearest describes an access outside all windows that it may touch by the nearest of these.
func (b *block) nearest(addr uint64, a access) string {
	best, text, other := uint64(1<<63), "", ""
	for i := range b.windows {
		win := &b.windows[i]
		end := win.end()
		switch {
		case !b.mayReach(a.id, win):
			if win.holds(addr, a.size) {
				other = fmt.Sprintf(", in window %s, which its address is not computed from", win.Name)
			}
		case addr < win.Base && win.Base-addr < best:
			best, text = win.Base-addr, fmt.Sprintf(", %d before window %s of %d", win.Base-addr, win.Name, win.Size)
		case addr >= win.Base && addr-win.Base < best:
			best = addr - win.Base
			text = fmt.Sprintf(", %d from the start of window %s of %d", addr-win.Base, win.Name, win.Size)
			if addr >= end {
				best = addr - end
			}
		}
	}
	return fmt.Sprintf("%d bytes at %#x of global memory%s%s", a.size, addr, text, other)
}

// atShared checks an access to shared memory, races included.
func (w *warp) atShared(a access, lane int, addr uint64) []byte {
	b := w.block
	if n := uint64(len(b.shared)); addr < n && uint64(a.size) <= n-addr {
		b.counts.SharedBytes += int64(a.size)
		if other := w.touch(addr, a.size, lane, a.isWrite, a.isAtomic); other >= 0 {
			w.report(Race, lane, "%d bytes at %#x of shared memory, which thread %d touches too, and no barrier is between", a.size, addr, other)
		}
		defer b.change(addr, a.size, a.isWrite)
	}
	return w.within(a, lane, addr, Shared, b.shared, b.sharedState)
}

// cacheHints are modifiers of loads and stores that change no result here.
var cacheHints = []string{"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sys", "gpu", "cta", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc",
	"L1::evict_last", "L1::evict_first", "L1::no_allocate", "L1::evict_normal", "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B"}

func (o *operation) hints() {
	for _, h := range cacheHints {
		o.flag(h)
	}
}

// space takes the modifier that is a space; none means generic addresses.
func (o *operation) space() Space {
	return spaceNames[o.one("global", "shared", "local", "param", "const")]
}

// pointer is the address operand of an access.
type pointer struct {
	register int32 // -1: none
	symbol   symbol
	offset   uint64
}

// pointer compiles [register+offset], [variable+offset] and [number], and gives the access its number.
func (o *operation) pointer(i int, a *access) pointer {
	arg := o.arg(i)
	p := pointer{register: -1, offset: uint64(arg.Offset)}
	if arg.Kind != memoryOperand {
		o.fail("operand %d is no address", i+1)
		return p
	}
	if isVariable, s := o.isVariable(arg.Name); isVariable {
		if p.symbol = s; a.space != Generic && a.space != s.space {
			o.fail("%s lies in %s memory", arg.Name, s.space)
		} else if a.space == Generic {
			p.offset += windowOf[s.space]
		}
	} else if arg.Name != "" {
		t := U64
		if a.space == Shared || a.space == Local || a.space == Const || a.space == Param {
			t = U32 // or wider
		}
		p.register = o.srcOf(Operand{Name: arg.Name}, t, true)
	}
	if (a.space == Shared || a.space == Generic) && a.size > 0 {
		o.kernel.sharedGrain = min(o.kernel.sharedGrain, a.size)
	}
	if (a.space == Global || a.space == Generic) && a.size > 0 {
		o.kernel.globalGrain = min(o.kernel.globalGrain, a.size)
	}
	o.noteAccess(&p, a)
	return p
}

// base is what the lanes' addresses have in common.
func (p *pointer) base(w *warp, f *frame) uint64 {
	if p.symbol.space == Generic {
		return p.offset
	}
	return p.offset + f.base(w, p.symbol)
}

// of is a lane's address.
func (p *pointer) of(base uint64, f *frame, lane int) uint64 {
	if p.register < 0 {
		return base
	}
	return base + f.v[p.register][lane]
}

// vectorOf takes .v2 or .v4, and lists an operand's elements.
func (o *operation) vectorOf(i int) []Operand {
	n := 1
	if v := o.one("v2", "v4"); v != "" {
		n = int(v[1] - '0')
	}
	a := o.arg(i)
	elems := []Operand{a}
	if a.Kind == vectorOperand {
		elems = a.Elems
	}
	if len(elems) != n {
		o.fail("a vector of %d is expected", n)
	}
	return elems
}

// start begins an access by the lanes of a warp: where the address operand points without its register.
func (w *warp) start(p *pointer, f *frame) uint64 {
	w.sector = ^uint64(0)
	return p.base(w, f)
}

// reach gives the bytes that a lane accesses, by the short way where it goes; nil if it may not.
func (w *warp) reach(f *frame, a *access, lane int, addr uint64) []byte {
	if b := w.quick(f, a, lane, addr); b != nil {
		return b
	}
	return w.at(f, *a, lane, addr)
}

// transfer takes what loads and stores have in common: hints, space and type; the registers are those of operand i.
func (o *operation) transfer(i int, mode Access) (access, Type, []Operand) {
	isConstant := slices.Contains(o.mods, "nc")
	o.hints()
	space := o.space()
	elems := o.vectorOf(i)
	t := o.typ()
	o.want(2)
	a := accessTo(space, t.Size()*len(elems), mode)
	if a.size > 16 {
		o.fail("an access of %d bytes, the most is 16", a.size)
	}
	if a.isConstant = isConstant; isConstant && (mode != Read || space != Global) {
		o.fail(".nc is of ld.global alone")
	}
	return a, t, elems
}

// compileLoad compiles ld.
func compileLoad(o *operation) {
	a, t, elems := o.transfer(0, Read)
	size := t.Size()
	var to []int32
	var masks []uint64
	for _, e := range elems {
		if e.Kind == sinkOperand {
			to, masks = append(to, -1), append(masks, 0)
			continue
		}
		masks = append(masks, o.register(e, t, true).typ.mask())
		to = append(to, o.dstOf(e, t, true))
	}
	p := o.pointer(1, &a)
	l := &loading{access: a, p: p, t: t, to: to, masks: masks}
	l.areWords = size == 4 && !slices.ContainsFunc(masks, func(m uint64) bool { return m > B32.mask() })
	l.isCommon = a.space == Global || a.space == Shared || a.space == Const || a.space == Param && l.p.register < 0 && l.p.base(nil, nil) < frameParams
	if a.space == Param && l.isCommon && len(elems) == 1 && size == 8 {
		o.step.origin = o.kernel.originOf(int64(l.p.base(nil, nil)))
	}
	o.step.class = MemoryClass
	o.step.exec = l.run
}

// loading is a load of one to four registers.
type loading struct {
	access
	p        pointer
	t        Type
	to       []int32 // -1: nobody wants it
	masks    []uint64
	areWords bool // elements and registers of 32 bits
	isCommon bool // the memory is the same for all lanes
}

// run loads. Lanes that follow each other and read the same common address share the work, but for the first two, which the race
// detector remembers.
func (x *loading) run(w *warp, f *frame, m uint32) {
	base := w.start(&x.p, f)
	if x.p.register < 0 && x.isCommon {
		x.broadcast(w, f, m, base)
		return
	}
	if x.areWords && x.p.register >= 0 {
		if x.space == Shared && x.shared(w, f, m, base) || x.space == Global && m == allLanes && x.row(w, f, base) {
			return
		}
		if x.space == Global {
			m = x.gather(w, f, m, base)
		}
	}
	var last uint64
	var from []byte
	for repeats := 0; m != 0; m &= m - 1 {
		l := firstLane(m)
		addr := x.p.of(base, f, l)
		if from == nil || addr != last || !x.isCommon {
			from, repeats = w.reach(f, &x.access, l, addr), 0
		} else if repeats++; repeats == 1 {
			from = w.reach(f, &x.access, l, addr)
		}
		last = addr
		x.deliver(f, l, from)
	}
}

// broadcast loads for all lanes what lies at one address.
func (x *loading) broadcast(w *warp, f *frame, m uint32, at uint64) {
	first := firstLane(m)
	x.deliver(f, first, w.reach(f, &x.access, first, at))
	if m &= m - 1; m == 0 {
		return
	}
	second := firstLane(m)
	x.deliver(f, second, w.reach(f, &x.access, second, at))
	for _, k := range x.to {
		if k >= 0 {
			f.broadcast(k, f.v[k][second], m)
		}
	}
}

// gather loads words of global memory, lane by lane, and gives the lanes from the first on that needs a closer look.
func (x *loading) gather(w *warp, f *frame, m uint32, base uint64) uint32 {
	b := w.block
	win := b.recent[x.id]
	if win == nil || win.Access&Read == 0 || win.shadow != nil {
		return m
	}
	r, n, size := f.v[x.p.register], uint64(len(win.data)), uint64(x.size)
	lanes, base := lanesOf(m), base-win.Base
	for ; m != 0; m &= m - 1 {
		l := firstLane(m)
		at := base + r[l]
		if at >= n || size > n-at || (at+win.Base)&(size-1) != 0 || !quickState(win.state[at:at+size], true) {
			break
		}
		if sector := (at + win.Base) >> 5; sector != w.sector {
			w.sector = sector
			b.counts.GlobalSectors++
		}
		data := win.data[at : at+size]
		for i, k := range x.to {
			if k >= 0 {
				f.v[k][l] = uint64(binary.LittleEndian.Uint32(data[4*i:]))
			}
		}
	}
	b.counts.GlobalLoaded += (lanes - lanesOf(m)) * int64(size)
	return m
}

// row loads a word for each lane where they follow each other in global memory.
func (x *loading) row(w *warp, f *frame, base uint64) bool {
	if len(x.to) > 1 || x.to[0] < 0 {
		return false
	}
	row := w.row(&x.access, base, f.v[x.p.register])
	if row == nil {
		return false
	}
	d := f.v[x.to[0]]
	for l := range d {
		d[l] = uint64(binary.LittleEndian.Uint32(row[4*l:]))
	}
	return true
}

// deliver gives a lane the elements; zeros where there are none.
func (x *loading) deliver(f *frame, l int, from []byte) {
	size := x.t.Size()
	for i, k := range x.to {
		switch {
		case k < 0:
		case from == nil:
			f.v[k][l] = 0
		case x.areWords:
			f.v[k][l] = uint64(binary.LittleEndian.Uint32(from[4*i:]))
		default:
			f.v[k][l] = x.t.extended(loadBytes(from[i*size:], size)) & x.masks[i]
		}
	}
}

func loadBytes(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func storeBytes(b []byte, size int, v uint64) {
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// compileStore compiles st.
func compileStore(o *operation) {
	a, t, elems := o.transfer(1, Write)
	var from []int32
	for _, e := range elems {
		from = append(from, o.srcOf(e, t, true))
	}
	p := o.pointer(0, &a)
	x := &storing{access: a, p: p, size: t.Size(), from: from}
	o.step.class = MemoryClass
	o.step.exec = x.run
}

// storing is a store of one to four registers.
type storing struct {
	access
	p    pointer
	size int // of an element
	from []int32
}

func (x *storing) run(w *warp, f *frame, m uint32) {
	base := w.start(&x.p, f)
	if x.size == 4 && len(x.from) == 1 && x.p.register >= 0 &&
		(x.space == Shared && x.shared(w, f, m, base) || x.space == Global && m == allLanes && x.row(w, f, base)) {
		return
	}
	for ; m != 0; m &= m - 1 {
		l := firstLane(m)
		to := w.reach(f, &x.access, l, x.p.of(base, f, l))
		if to == nil {
			continue
		}
		for i, k := range x.from {
			storeBytes(to[i*x.size:], x.size, f.v[k][l])
		}
	}
}

// row stores a word for each lane where they follow each other in global memory.
func (x *storing) row(w *warp, f *frame, base uint64) bool {
	row := w.row(&x.access, base, f.v[x.p.register])
	if row == nil {
		return false
	}
	for l, v := range f.v[x.from[0]] {
		binary.LittleEndian.PutUint32(row[4*l:], uint32(v))
	}
	return true
}

// compilePrefetch compiles prefetch and fences, which change no result here.
func compilePrefetch(o *operation) {
	o.mods = nil
	o.step.class = MemoryClass
	o.step.exec = func(*warp, *frame, uint32) {}
}
