package ptx

import "math/bits"

// Operations among the lanes of a warp: shuffles, votes, matches, reductions. Every lane that the member mask names must take part. What
// activemask gives depends on the GPU, and is not executed.

// named checks that the lanes taking part are those that their member masks name.
func (w *warp) named(f *frame, members int32, m uint32) bool {
	for n := m; n != 0; n &= n - 1 {
		l := firstLane(n)
		want := uint32(f.v[members][l]) & w.valid
		if want != m {
			w.report(Divergence, l, "the member mask names the lanes %#08x, those here are %#08x", want, m)
			return false
		}
	}
	return true
}

// compileShuffle compiles shfl.sync: each lane reads a register of another.
func compileShuffle(o *operation) {
	o.flag("sync")
	how := o.one("up", "down", "bfly", "idx")
	o.flag("b32")
	o.want(5)
	dst := o.arg(0)
	inRange := o.secondPred(&dst)
	if how == "" {
		o.fail("one of .up, .down, .bfly and .idx is missing")
	}
	d, a, b, c, members := o.dstOf(dst, B32, false), o.src(1, B32), o.src(2, U32), o.src(3, U32), o.src(4, B32)
	o.step.class = CollectiveClass
	o.step.exec = func(w *warp, f *frame, m uint32) {
		if !w.named(f, members, m) {
			return
		}
		from, to := *f.v[a], f.v[d]
		within := uint32(0)
		for n := m; n != 0; n &= n - 1 {
			l := firstLane(n)
			source, ok := shuffleSource(how, l, int(f.v[b][l]&31), uint32(f.v[c][l]))
			if ok {
				within |= 1 << l
			}
			if m>>source&1 == 0 {
				w.report(Uninitialized, l, "lane %d, which it reads from, takes no part", source)
			}
			to[l] = from[source]
		}
		if inRange >= 0 {
			f.setPred(inRange, within, m)
		}
	}
}

// shuffleSource is the lane that a lane reads from: another one of its segment, or (ok is false) itself. c holds the mask of
// the segment in bits 8 to 12 and the bound in bits 0 to 4.
func shuffleSource(how string, lane, b int, c uint32) (source int, ok bool) {
	segment := int(c >> 8 & 31)
	bound, low := lane&segment|int(c&31)&^segment, lane&segment
	switch how {
	case "up":
		source = lane - b
		ok = source >= bound
	case "down":
		source = lane + b
		ok = source <= bound
	case "bfly":
		source = lane ^ b
		ok = source <= bound
	default:
		source = low | b&^segment
		ok = source <= bound
	}
	if !ok {
		source = lane
	}
	return source & 31, ok
}

// compileVote compiles vote.sync.
func compileVote(o *operation) {
	o.flag("sync")
	how := o.one("all", "any", "uni", "ballot")
	t := o.typ()
	o.want(3)
	if how == "" || (how == "ballot") != (t == B32) || how != "ballot" && t != Pred {
		o.fail("one of .all, .any and .uni with .pred, or .ballot with .b32, is expected")
		return
	}
	d, p, members := o.dst(0, t), o.pred(1), o.src(2, B32)
	o.step.class = CollectiveClass
	o.step.exec = func(w *warp, f *frame, m uint32) {
		if !w.named(f, members, m) {
			return
		}
		yes := p.of(f) & m
		holds := how == "all" && yes == m || how == "any" && yes != 0 || how == "uni" && (yes == m || yes == 0)
		switch {
		case how == "ballot":
			f.broadcast(d, uint64(yes), m)
		case holds:
			f.setPred(d, allLanes, m)
		default:
			f.setPred(d, 0, m)
		}
	}
}

// broadcast gives every lane of a mask one value.
func (f *frame) broadcast(d int32, v uint64, m uint32) {
	for ; m != 0; m &= m - 1 {
		f.v[d][firstLane(m)] = v
	}
}

// compileMatch compiles match.any.sync and match.all.sync: the lanes that have the same value.
func compileMatch(o *operation) {
	o.flag("sync")
	how := o.one("any", "all")
	isAll := how == "all"
	t := o.typ()
	o.only(t, B32, B64)
	o.want(3)
	if how == "" {
		o.fail("one of .any and .all is missing")
	}
	dst := o.arg(0)
	same := o.secondPred(&dst)
	d, a, members := o.dstOf(dst, B32, false), o.src(1, t), o.src(2, B32)
	o.step.class = CollectiveClass
	o.step.exec = func(w *warp, f *frame, m uint32) {
		if !w.named(f, members, m) {
			return
		}
		all := true
		for n := m; n != 0; n &= n - 1 {
			l := firstLane(n)
			equal := m & maskWhere(func(k int) bool { return f.v[a][k] == f.v[a][l] })
			all = all && equal == m
			w.lanes[l] = uint64(equal)
		}
		switch {
		case !isAll:
			blend(f.v[d], &w.lanes, m)
		case all:
			f.broadcast(d, uint64(m), m)
		default:
			f.broadcast(d, 0, m)
		}
		if same >= 0 {
			f.setPred(same, map[bool]uint32{true: allLanes}[all], m)
		}
	}
}

// compileRedux compiles redux.sync: a reduction over the lanes.
func compileRedux(o *operation) {
	o.flag("sync")
	name := o.one("add", "min", "max", "and", "or", "xor")
	t := o.typ()
	o.only(t, U32, S32, B32)
	o.want(3)
	f2 := atomicFunction(o, name, t)
	d, a, members := o.dst(0, t), o.src(1, t), o.src(2, B32)
	o.step.class = CollectiveClass
	o.step.exec = func(w *warp, f *frame, m uint32) {
		if !w.named(f, members, m) {
			return
		}
		first := firstLane(m)
		sum := f.v[a][first]
		for n := m & (m - 1); n != 0; n &= n - 1 {
			sum = f2(sum, f.v[a][firstLane(n)], 0)
		}
		f.broadcast(d, sum, m)
	}
}

// lanesOf counts the lanes of a mask.
func lanesOf(m uint32) int64 { return int64(bits.OnesCount32(m)) }
