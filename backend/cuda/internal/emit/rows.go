package emit

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

// Programs with rows: a block of threads has a row, and each thread every so manieth element of it. What is computed once a row stays in
// registers of all threads. What is computed for every element is computed where it is read: in the loop of each reduction, and in the last
// loop, which stores. So no row needs memory, and one of any length will do.
//
//	y = x / Sqrt(ReduceMean(x·x) + ε)      loop  load x, multiply, add to the thread's sum
//	                                       join  the sums of lanes by shuffles, of warps by shared memory
//	                                       once  mean, + ε, Sqrt
//	                                       loop  load x, divide, store y

// RowThreads is the size of the blocks of kernels with rows.
const RowThreads = 128

// Rows reports that there is an emission for a reduction or normalization, of float32.
func Rows(op tile.Op) bool {
	_, reduces := reductions[op]
	return reduces || normalizations[op] != nil || sumsSquares(op)
}

// reduction is how a thread's elements become one value, and that the row's.
type reduction struct {
	each tile.Op // done to each element; "": nothing
	join tile.Op
	from float64 // of no elements
	last tile.Op // done to the joined value; "": nothing
	mean bool    // then divided by their number
}

var reductions = map[tile.Op]reduction{
	"ReduceSum": {join: "Add"}, "ReduceMean": {join: "Add", mean: true}, "ReduceMax": {join: "Max", from: math.Inf(-1)}, "ReduceMin": {join: "Min", from: math.Inf(1)},
	"ReduceProd": {join: "Mul", from: 1}, "ReduceL1": {each: "Abs", join: "Add"}, "ReduceLogSum": {join: "Add", last: "Log"},
}

// normalizations write a normalization with reductions, behind the instructions of a program.
var normalizations = map[tile.Op]func(p *tile.Program, x *tile.Instr, args []tile.Ref) tile.Ref{
	"Softmax": func(p *tile.Program, x *tile.Instr, args []tile.Ref) tile.Ref {
		_, e, sum := exponentials(p, args[0])
		return full(p, "Div", e, sum)
	},
	"LogSoftmax": func(p *tile.Program, x *tile.Instr, args []tile.Ref) tile.Ref {
		shifted, _, sum := exponentials(p, args[0])
		return full(p, "Sub", shifted, once(p, "Log", sum))
	},
	"LayerNormalization": func(p *tile.Program, x *tile.Instr, args []tile.Ref) tile.Ref {
		centered := full(p, "Sub", args[0], once(p, "ReduceMean", args[0]))
		return scaled(p, x, centered, args[1:])
	},
	"RMSNormalization": func(p *tile.Program, x *tile.Instr, args []tile.Ref) tile.Ref { return scaled(p, x, args[0], args[1:]) },
}

func sumsSquares(op tile.Op) bool { return op == "ReduceSumSquare" || op == "ReduceL2" }

func full(p *tile.Program, op tile.Op, args ...tile.Ref) tile.Ref {
	return p.Add(tile.Instr{Op: op, DType: ndarray.Float32, Args: args})
}

func once(p *tile.Program, op tile.Op, args ...tile.Ref) tile.Ref {
	return p.Add(tile.Instr{Op: op, DType: ndarray.Float32, Row: true, Args: args})
}

// exponentials are x without its largest element, e to that, and their sum.
func exponentials(p *tile.Program, x tile.Ref) (shifted, e, sum tile.Ref) {
	shifted = full(p, "Sub", x, once(p, "ReduceMax", x))
	e = full(p, "Exp", shifted)
	return shifted, e, once(p, "ReduceSum", e)
}

// scaled divides by the root of the mean of the squares, and applies scale and bias.
func scaled(p *tile.Program, x *tile.Instr, v tile.Ref, affine []tile.Ref) tile.Ref {
	mean := once(p, "ReduceMean", full(p, "Mul", v, v))
	epsilon := p.Number(ndarray.Float32, x.Params[0])
	v = full(p, "Div", v, once(p, "Sqrt", once(p, "Add", mean, epsilon)))
	for i, a := range affine {
		if a != tile.None {
			v = full(p, []tile.Op{"Mul", "Add"}[i], v, a)
		}
	}
	return v
}

// plain is a program whose normalizations, and squares that are summed, are written with simple reductions.
func plain(p *tile.Program) *tile.Program {
	out := &tile.Program{Operands: p.Operands, Inner: p.Inner}
	at := make([]tile.Ref, 0, p.NumValues()) // by value of p
	for i := range p.Operands {
		at = append(at, tile.Ref(i))
	}
	for _, x := range p.Instrs {
		args := make([]tile.Ref, len(x.Args))
		for i, a := range x.Args {
			if args[i] = a; a != tile.None {
				args[i] = at[a]
			}
		}
		op := x.Op
		x.Args = args
		switch {
		case normalizations[op] != nil && x.DType == ndarray.Float32:
			at = append(at, normalizations[op](out, &x, args))
		case sumsSquares(op) && x.DType == ndarray.Float32:
			v := once(out, "ReduceSum", full(out, "Mul", args[0], args[0]))
			if op == "ReduceL2" {
				v = once(out, "Sqrt", v)
			}
			at = append(at, v)
		default:
			at = append(at, out.Add(x))
		}
	}
	for _, r := range p.Results {
		out.Results = append(out.Results, tile.Result{Value: at[r.Value], Dropped: r.Dropped})
	}
	return out
}

// rows is the state of a kernel with rows.
type rows struct {
	*writer
	length int // of a row
	row    string
	thread string
	kept   []bool // by value: the same for all elements of a row, and computed
	bases  []string
	labels int
}

// rowProgram writes a program with rows.
func rowProgram(p *tile.Program, l *tile.Loops) (string, error) {
	p = plain(p)
	w := &rows{writer: newWriter(p, l), length: l.Dims[len(l.Dims)-1]}
	w.values, w.kept, w.bases = make([]string, p.NumValues()), make([]bool, p.NumValues()), make([]string, len(p.Operands))
	w.row, w.thread = w.register("r"), w.register("r")
	w.emit("mov.u32", w.row, "%ctaid.x")
	w.emit("mov.u32", w.thread, "%tid.x")
	if err := w.operandRows(); err != nil {
		return "", err
	}
	for i := range p.Instrs {
		if err := w.ahead(tile.Ref(len(p.Operands) + i)); err != nil {
			return "", err
		}
	}
	if err := w.stores(); err != nil {
		return "", err
	}
	s := &strings.Builder{}
	s.WriteString(Header)
	writeFunctions(s, w.called)
	w.head(s, RowThreads)
	fmt.Fprintf(s, "\t.shared .align 4 .b8 part[%d];\n", 4*RowThreads/32)
	w.declare(s)
	return s.String() + w.body.String() + "\tret;\n}\n", nil
}

// operandRows finds where the row begins in every operand, and loads those that have one element there.
func (w *rows) operandRows() error {
	outer := len(w.loops.Dims) - 1
	at := w.placesIn(w.row, w.loops.Dims[:outer])
	for i, dt := range w.program.Operands {
		if _, ok := kinds[dt]; !ok {
			return unsupported("operands of type %s", dt)
		}
		strides := w.loops.Strides[i]
		offset, err := w.offset(at, strides[:outer])
		if err != nil {
			return err
		}
		if s := strides[outer]; s < 0 || s > math.MaxInt32 {
			return unsupported("a stride of %d", s)
		}
		w.bases[i] = w.address(operandName(i), offset, kinds[dt].size)
		if strides[outer] == 0 || w.length == 1 {
			w.values[i], w.kept[i] = w.load(dt, "["+w.bases[i]+"]"), true
		}
	}
	return nil
}

// ahead computes a value that is the same for the whole row.
func (w *rows) ahead(v tile.Ref) error {
	x := w.program.Instr(v)
	if _, ok := kinds[x.DType]; !ok {
		return unsupported("values of type %s", x.DType)
	}
	if x.Op.Normalizes() {
		return unsupported("%s of %s", x.Op, x.DType)
	}
	if x.Op.Reduces() {
		r, err := w.reduce(x)
		w.values[v], w.kept[v] = r, true
		return err
	}
	for _, a := range x.Args {
		if a != tile.None && !w.kept[a] {
			return nil // where it is read
		}
	}
	r, err := w.instr(x)
	if err == nil {
		w.values[v], w.kept[v] = w.rounded(x.DType, r), true
	}
	return err
}

// elements goes over the thread's elements of the row: f gets the number of the present one, and need computes values for it.
func (w *rows) elements(f func(index string) error) error {
	w.labels++
	index, end := w.register("r"), w.register("p")
	w.emit("mov.u32", index, w.thread)
	fmt.Fprintf(&w.body, "NEXT%d:\n", w.labels)
	label := w.labels
	w.emit("setp.ge.u32", end, index, fmt.Sprint(w.length))
	w.emit("@"+end+" bra", fmt.Sprintf("DONE%d", label))
	if err := f(index); err != nil {
		return err
	}
	w.emit("add.u32", index, index, fmt.Sprint(RowThreads))
	w.emit("bra", fmt.Sprintf("NEXT%d", label))
	fmt.Fprintf(&w.body, "DONE%d:\n", label)
	for v := range w.values {
		if !w.kept[v] {
			w.values[v] = ""
		}
	}
	return nil
}

// need computes a value for the present element, with all that it needs.
func (w *rows) need(v tile.Ref, index string) error {
	if w.values[v] != "" {
		return nil
	}
	x := w.program.Instr(v)
	if x == nil {
		k := kinds[w.program.Operands[v]]
		bytes, at := w.register("x"), w.register("x")
		w.emit("mul.wide.u32", bytes, index, fmt.Sprint(k.size*w.loops.Strides[v][len(w.loops.Dims)-1]))
		w.emit("add.s64", at, w.bases[v], bytes)
		w.values[v] = w.load(w.program.Operands[v], "["+at+"]")
		return nil
	}
	for _, a := range x.Args {
		if a != tile.None {
			if err := w.need(a, index); err != nil {
				return err
			}
		}
	}
	r, err := w.instr(x)
	if err == nil {
		w.values[v] = w.rounded(x.DType, r)
	}
	return err
}

// reduce joins the elements of the row.
func (w *rows) reduce(x *tile.Instr) (string, error) {
	const f = ndarray.Float32
	how, ok := reductions[x.Op]
	if !ok || x.DType != f {
		return "", unsupported("%s of %s", x.Op, x.DType)
	}
	k, arg := kinds[f], x.Args[0]
	sum := w.result(k, "mov.f32", number(float32(how.from)))
	err := w.elements(func(index string) error {
		if err := w.need(arg, index); err != nil {
			return err
		}
		v := w.values[arg]
		if how.each != "" {
			v = w.result(k, directFloat[how.each], v)
		}
		next, err := w.float(&tile.Instr{Op: how.join, DType: f}, k, []string{sum, v})
		if err == nil {
			w.emit("mov.f32", sum, next)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if sum, err = w.joined(how.join, sum); err != nil {
		return "", err
	}
	if how.mean {
		sum = w.result(k, "div.rn.f32", sum, number(float32(w.length)))
	}
	if how.last != "" {
		sum = w.call(string(how.last), k, []string{sum})
	}
	return w.rounded(x.DType, sum), nil
}

// joined joins the values of all threads, so that every thread has the result.
func (w *rows) joined(op tile.Op, v string) (string, error) {
	const f = ndarray.Float32
	k := kinds[f]
	join := func(a, b string) (err error) {
		v, err = w.float(&tile.Instr{Op: op, DType: f}, k, []string{a, b})
		return err
	}
	for s := 16; s > 0; s >>= 1 {
		bits := w.result(kinds[ndarray.Int32], "mov.b32", v)
		other := w.result(kinds[ndarray.Int32], "shfl.sync.bfly.b32", bits, fmt.Sprint(s), "31", "-1")
		if err := join(v, w.result(k, "mov.b32", other)); err != nil {
			return "", err
		}
	}
	r := kinds[ndarray.Int32]
	lane, warp, base, first := w.result(r, "and.b32", w.thread, "31"), w.result(r, "shr.u32", w.thread, "5"), w.result(r, "mov.u32", "part"), w.register("p")
	w.emit("setp.eq.u32", first, lane, "0")
	w.emit("@"+first+" st.shared.f32", "["+w.result(r, "mad.lo.u32", warp, "4", base)+"]", v)
	w.emit("bar.sync", "0")
	all := make([]string, RowThreads/32)
	for i := range all {
		all[i] = w.result(k, "ld.shared.f32", fmt.Sprintf("[%s+%d]", base, 4*i))
	}
	w.emit("bar.sync", "0") // the next reduction writes there
	v = all[0]
	for _, o := range all[1:] {
		if err := join(v, o); err != nil {
			return "", err
		}
	}
	return v, nil
}

// stores stores what has an element for each index, in the last loop, and what has one a row.
func (w *rows) stores() error {
	isRow := func(r tile.Result) bool { return w.program.IsRow(r.Value) }
	hasFull := false
	for _, r := range w.program.Results {
		hasFull = hasFull || !isRow(r)
	}
	if hasFull {
		if w.length == 1 {
			w.emit("bar.sync", "0") // all threads have loaded the element of the row, over which a result may lie
		}
		start := w.result(kinds[ndarray.Int32], "mul.lo.u32", w.row, fmt.Sprint(w.length))
		err := w.elements(func(index string) error {
			at := w.result(kinds[ndarray.Int32], "add.u32", start, index)
			for _, r := range w.program.Results { // all loads before all stores: a result may lie over an operand
				if !isRow(r) {
					if err := w.need(r.Value, index); err != nil {
						return err
					}
				}
			}
			for i, r := range w.program.Results {
				if dt := w.program.DType(r.Value); !isRow(r) {
					w.store(dt, "["+w.address(fmt.Sprintf("y%d", i), at, kinds[dt].size)+"]", w.values[r.Value])
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	w.emit("bar.sync", "0") // a result of a row may lie over an operand that others still read
	first := w.register("p")
	w.emit("setp.ne.u32", first, w.thread, "0")
	w.emit("@"+first+" bra", "END")
	for i, r := range w.program.Results {
		if dt := w.program.DType(r.Value); isRow(r) {
			w.store(dt, "["+w.address(fmt.Sprintf("y%d", i), w.row, kinds[dt].size)+"]", w.values[r.Value])
		}
	}
	w.body.WriteString("END:\n")
	return nil
}
