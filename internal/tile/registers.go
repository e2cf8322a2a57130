package tile

// Registers say where the values of a program lie while it runs on a tile. Full values that
// are not stored lie in registers of a tile's size, in workspace, or already in the memory of
// a result that is computed later. An instruction may write over an argument that it is the last
// to read.
//
//	%2 = Mul %0 %1       result
//	%3 = Add %2 %1       result, over %2
//	%4 = Sigmoid %3      result: the last one, stored anyway
//
// A result may lie over an operand (the planner's in-place folding). Memory of a result is
// therefore used early only if no operand that it may lie over is read afterwards.
type Registers struct {
	// Of is the home of each instruction: a register, or ^k for the memory of result k.
	// Constants have none.
	Of []int
	// Width is the bytes of an element of each register, Row whether it has one for each row.
	Width []int
	Row   []bool
	// FirstWrite is, by result, the first instruction that writes its memory.
	FirstWrite []int
}

// allocator gives out registers.
type allocator struct {
	p         *Program
	r         *Registers
	last      []int // last read by value
	free      []int
	resultOf  map[Ref]int
	busyUntil []int // by result: the last read of what its memory holds so far
	covered   []int // by result: the last read of an operand that it may lie over
}

// Allocate gives every value its home. mayCover says which results may lie over which operands.
func (p *Program) Allocate(mayCover func(operand, result int) bool) *Registers {
	a := &allocator{p: p, r: &Registers{Of: make([]int, len(p.Instrs)), FirstWrite: make([]int, len(p.Results))},
		last: p.LastReads(), resultOf: map[Ref]int{}, busyUntil: make([]int, len(p.Results)), covered: make([]int, len(p.Results))}
	for k, r := range p.Results {
		a.resultOf[r.Value] = k
		a.r.FirstWrite[k] = int(r.Value) - len(p.Operands)
		a.busyUntil[k], a.covered[k] = -1, -1
		for o := range p.Operands {
			if a.last[o] > a.covered[k] && mayCover(o, k) {
				a.covered[k] = a.last[o]
			}
		}
	}
	for i := range p.Instrs {
		a.instr(i)
	}
	return a.r
}

func (a *allocator) instr(i int) {
	x, v := &a.p.Instrs[i], Ref(len(a.p.Operands)+i)
	if x.Op == Constant {
		return
	}
	if !x.Op.Reduces() { // a reduction reads its row while it writes
		a.release(x, i)
	}
	a.r.Of[i] = a.home(x, v, i)
	if x.Op.Reduces() {
		a.release(x, i)
	}
}

// release frees the registers that instruction i is the last to read.
func (a *allocator) release(x *Instr, i int) {
	for k, v := range x.Args {
		at := int(v) - len(a.p.Operands)
		if v == None || at < 0 || a.last[v] != i || a.p.IsConstant(v) || contains(x.Args[:k], v) {
			continue
		}
		if home := a.r.Of[at]; home >= 0 {
			a.free = append(a.free, home)
		}
	}
}

func contains(list []Ref, v Ref) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// home chooses where the value of instruction i lies.
func (a *allocator) home(x *Instr, v Ref, i int) int {
	if k, stored := a.resultOf[v]; stored {
		return ^k
	}
	for k := range a.p.Results {
		if a.hosts(k, x, v, i) {
			a.r.FirstWrite[k] = min(a.r.FirstWrite[k], i)
			a.busyUntil[k] = a.last[v]
			return ^k
		}
	}
	width := x.DType.Size()
	for n := len(a.free) - 1; n >= 0; n-- {
		if r := a.free[n]; a.r.Width[r] == width && a.r.Row[r] == x.Row {
			a.free = append(a.free[:n], a.free[n+1:]...)
			return r
		}
	}
	a.r.Width, a.r.Row = append(a.r.Width, width), append(a.r.Row, x.Row)
	return len(a.r.Width) - 1
}

// hosts reports that the memory of result k may hold value v until the result is computed.
func (a *allocator) hosts(k int, x *Instr, v Ref, i int) bool {
	r := a.p.Results[k].Value
	made := int(r) - len(a.p.Operands)
	return made > i && a.last[v] <= made && a.busyUntil[k] <= i && a.covered[k] <= i && !x.Row && !a.p.IsRow(r) && a.p.DType(r).Size() == x.DType.Size()
}
