package ptx

import "slices"

// Which operands an access may touch. An index one too far may lie in the neighbour of the operand that is meant, also where the kernel has the
// neighbour as another operand. So an access may only touch the memory that its address is computed from: that of the parameters, and of the
// module's variables, from which values flow to the address.
//
//	ld.param.u64  %x1, [px]            %x1: {px}
//	mul.wide.u32  %x2, %r1, 4          %x2: {}
//	add.s64       %x3, %x1, %x2        %x3: {px}
//	ld.global.f32 %f1, [%x3+4]         in the window of px alone
//
// The sets are those of the whole function, whatever the order of its steps, so a register that holds one pointer and then another has both. What is
// loaded from memory has no origin. An access whose address has none of the launch's windows as its origin may touch every window; [KernelInfo] lists
// those that never have one.

// mostOrigins is how many parameters and variables a kernel tells apart; those beyond share a bit.
const mostOrigins = 64

// pointerUse is an access by an address in a register.
type pointerUse struct {
	register int32
	id       int // of the access
	line     int
}

// originOf is the bit of a parameter, by its offset, or of the module's variable -1, -2 and so on.
func (k *kernel) originOf(at int64) uint64 {
	i := slices.Index(k.origins, at)
	if i < 0 {
		i = len(k.origins)
		k.origins = append(k.origins, at)
	}
	return 1 << min(i, mostOrigins-1)
}

// noteAccess gives an access its number, and notes where its address is.
func (o *operation) noteAccess(p *pointer, a *access) {
	o.kernel.accesses++
	a.id = o.kernel.accesses
	o.kernel.reach = append(o.kernel.reach, 0)
	switch {
	case a.space != Global && a.space != Generic:
	case p.register >= 0:
		o.fn.pointers = append(o.fn.pointers, pointerUse{p.register, a.id, o.step.line})
	case p.symbol.space == Global:
		o.kernel.reach[a.id] = o.kernel.originOf(-1 - p.symbol.at)
	}
}

// trace finds the origins of addresses.
func (k *kernel) trace(fn *function) {
	from := make([]uint64, fn.values+len(fn.extras))
	for isChanging := true; isChanging; {
		isChanging = false
		for i := range fn.steps {
			s := &fn.steps[i]
			all := s.origin
			for _, r := range s.reads {
				if s.class != MemoryClass {
					all |= from[r]
				}
			}
			for _, d := range s.writes {
				isChanging = isChanging || all&^from[d] != 0
				from[d] |= all
			}
		}
	}
	for _, p := range fn.pointers {
		if k.reach[p.id] = from[p.register]; from[p.register] == 0 {
			k.info.Untraced = append(k.info.Untraced, p.line)
		}
	}
}

// addOrigins notes which parameters and variables the windows of a launch are of; the windows of variables are the last ones.
func (g *grid) addOrigins(variables int) {
	for i := range g.windows {
		win := &g.windows[i]
		switch v := i - (len(g.windows) - variables); {
		case v >= 0:
			win.origin = g.kernel.originAt(int64(-1 - v))
		case win.Arg > 0:
			win.origin = g.kernel.originAt(int64(win.Arg - 1))
		}
		g.origins |= win.origin
	}
}

// originAt is originOf for what no access may have; 0 then.
func (k *kernel) originAt(at int64) uint64 {
	if i := slices.Index(k.origins, at); i >= 0 {
		return 1 << min(i, mostOrigins-1)
	}
	return 0
}

// mayReach reports that an access may touch a window.
func (b *block) mayReach(id int, win *window) bool {
	may := b.kernel.reach[id] & b.origins
	return may == 0 || may&win.origin != 0 || win.origin == 0 && win.Arg == 0
}
