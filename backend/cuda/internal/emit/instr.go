package emit

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

// direct are operators that are one instruction, by the type of their operands: integers take theirs with the type appended.
var (
	directFloat = map[tile.Op]string{
		"Add": "add.rn.f32", "Sub": "sub.rn.f32", "Mul": "mul.rn.f32", "Div": "div.rn.f32", "Sqrt": "sqrt.rn.f32", "Reciprocal": "rcp.rn.f32",
		"Floor": "cvt.rmi.f32.f32", "Ceil": "cvt.rpi.f32.f32", "Round": "cvt.rni.f32.f32", "Neg": "neg.f32", "Abs": "abs.f32",
	}
	directInteger = map[tile.Op]string{
		"Add": "add.", "Sub": "sub.", "Mul": "mul.lo.", "Max": "max.", "Min": "min.", "Neg": "neg.", "Abs": "abs.",
	}
	directBits = map[tile.Op]string{
		"BitwiseAnd": "and.", "BitwiseOr": "or.", "BitwiseXor": "xor.", "BitwiseNot": "not.", "And": "and.", "Or": "or.", "Xor": "xor.",
	}
	relations = map[tile.Op]string{"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}
)

// instr computes a value and gives its register.
func (w *writer) instr(x *tile.Instr) (string, error) {
	if x.Op == tile.Constant {
		return w.constant(x.Value), nil
	}
	args := make([]string, len(x.Args))
	for i, a := range x.Args {
		if a != tile.None {
			args[i] = w.values[a]
		}
	}
	from := w.program.DType(x.Args[0])
	k := kinds[from]
	relation := relations[x.Op]
	switch {
	case relation != "":
		p := w.register("p")
		w.emit("setp."+relation+"."+k.typ, p, args[0], args[1])
		return w.truth(p), nil
	case x.Op == "Where":
		p, out := w.register("p"), kinds[x.DType]
		w.emit("setp.ne.s32", p, args[0], "0")
		return w.result(out, "selp."+out.bits, args[1], args[2], p), nil
	case x.Op == "Cast":
		return w.cast(from, x.DType, args[0]), nil
	case x.Op == tile.Copy && from == x.DType:
		return args[0], nil
	case x.Op == "Clip":
		return w.clip(from, k, args), nil
	case x.Op == "Not":
		return w.result(k, "xor.b32", args[0], "1"), nil
	case directBits[x.Op] != "":
		return w.result(k, directBits[x.Op]+k.bits, args...), nil
	case k.typ == "f32":
		return w.float(x, k, args)
	case k.typ == "f64":
		return w.double(x, k, args)
	case x.Op == "Relu" && k.typ[0] == 'u' || x.Op == "Abs" && k.typ[0] == 'u':
		return args[0], nil
	case x.Op == "Relu":
		return w.result(k, "max."+k.typ, args[0], "0"), nil
	case x.Op == tile.ShiftLeft || x.Op == tile.ShiftRight:
		return w.shift(x.Op, k, args[0], args[1]), nil
	case x.Op == "Sign":
		return w.result(k, "max."+k.typ, w.result(k, "min."+k.typ, args[0], "1"), "-1"), nil
	case directInteger[x.Op] != "" && from != ndarray.Bool:
		return w.result(k, directInteger[x.Op]+k.typ, args...), nil
	}
	return "", unsupported("%s of %s", x.Op, from)
}

// result emits an instruction into a new register.
func (w *writer) result(k kind, op string, args ...string) string {
	d := w.register(k.class)
	w.emit(op, append([]string{d}, args...)...)
	return d
}

// truth is a predicate as a bool.
func (w *writer) truth(p string) string {
	return w.result(kinds[ndarray.Bool], "selp.b32", "1", "0", p)
}

func number(v float32) string { return fmt.Sprintf("0f%08X", math.Float32bits(v)) }

func (w *writer) constant(a *ndarray.Array) string {
	k := kinds[a.DType]
	switch k.typ {
	case "f32":
		return w.result(k, "mov.f32", number(float32(a.Float(0))))
	case "f64":
		return w.result(k, "mov.f64", fmt.Sprintf("0d%016X", math.Float64bits(a.Float(0))))
	}
	return w.result(k, "mov."+k.bits, fmt.Sprint(a.Int(0)))
}

// float computes an operator of float32s.
func (w *writer) float(x *tile.Instr, k kind, args []string) (string, error) {
	if op := directFloat[x.Op]; op != "" {
		return w.result(k, op, args...), nil
	}
	switch x.Op {
	case "Max", "Min": // not-a-number wins; max.NaN is an instruction of sm_80
		m := w.result(k, map[tile.Op]string{"Max": "max.f32", "Min": "min.f32"}[x.Op], args...)
		sum := w.result(k, "add.rn.f32", args...)
		p := w.register("p")
		w.emit("setp.nan.f32", p, args[0], args[1])
		return w.result(k, "selp.f32", sum, m, p), nil
	case "Relu":
		p := w.register("p")
		w.emit("setp.lt.f32", p, args[0], number(0))
		return w.result(k, "selp.f32", number(0), args[0], p), nil
	case "Sign":
		p, one := w.register("p"), w.result(k, "copysign.f32", args[0], number(1))
		w.emit("setp.equ.f32", p, args[0], number(0))
		return w.result(k, "selp.f32", args[0], one, p), nil
	case "IsNaN":
		p := w.register("p")
		w.emit("setp.nan.f32", p, args[0], args[0])
		return w.truth(p), nil
	case "IsInf":
		return w.infinite(x, k, args[0], number), nil
	}
	for _, v := range x.Params {
		args = append(args, w.result(k, "mov.f32", number(float32(v))))
	}
	if functionText(string(x.Op)) == "" || x.DType != w.program.DType(x.Args[0]) {
		return "", unsupported("%s of %s", x.Op, w.program.DType(x.Args[0]))
	}
	return w.call(string(x.Op), k, args), nil
}

// call calls a function, its operands in parameter memory.
func (w *writer) call(name string, k kind, args []string) string {
	w.called[name] = true
	w.body.WriteString("\t{\n")
	params := ""
	for i, a := range args {
		fmt.Fprintf(&w.body, "\t.param .b32 a%d;\n", i)
		w.emit("st.param.f32", fmt.Sprintf("[a%d+0]", i), a)
		if i > 0 {
			params += ", "
		}
		params += fmt.Sprintf("a%d", i)
	}
	w.body.WriteString("\t.param .b32 r;\n")
	w.emit("call.uni", "(r)", name, "("+params+")")
	d := w.result(k, "ld.param.f32", "[r+0]")
	w.body.WriteString("\t}\n")
	return d
}

// clip applies the bounds, the lower one first. Those that are absent are the least and the largest float.
func (w *writer) clip(dt ndarray.DType, k kind, args []string) string {
	v, most := args[0], dt.MaxFinite()
	for i, relation := range []string{"lt", "gt"} {
		var bound string
		if i+1 < len(args) {
			bound = args[i+1]
		}
		switch {
		case bound == "" && dt.IsFloat():
			a := ndarray.Must(dt)
			a.SetFloat(0, []float64{-most, most}[i])
			bound = w.constant(a)
		case bound == "":
			continue
		}
		p := w.register("p")
		w.emit("setp."+relation+"."+k.typ, p, v, bound)
		v = w.result(k, "selp."+k.bits, bound, v, p)
	}
	return v
}

// shift moves bits by a count, which counts as an unsigned number of at most 64.
func (w *writer) shift(op tile.Op, k kind, v, by string) string {
	if k.class == "x" {
		by = w.result(kinds[ndarray.Uint32], "cvt.u32.u64", w.result(k, "min.u64", by, "64"))
	}
	if op == tile.ShiftLeft {
		return w.result(k, "shl."+k.bits, v, by)
	}
	return w.result(k, "shr."+k.typ, v, by)
}

// infinite compares with both infinities, or with the one that is asked for.
func (w *writer) infinite(x *tile.Instr, k kind, v string, text func(float32) string) string {
	found := w.result(kinds[ndarray.Bool], "mov.b32", "0")
	for i, sign := range []int{1, -1} { // parameters: detect_positive, detect_negative
		if x.Params[i] != 0 {
			p := w.register("p")
			w.emit("setp.eq."+k.typ, p, v, text(float32(math.Inf(sign))))
			found = w.result(kinds[ndarray.Bool], "or.b32", found, w.truth(p))
		}
	}
	return found
}

// double computes an operator of float64s: those that are instructions.
func (w *writer) double(x *tile.Instr, k kind, args []string) (string, error) {
	if op := directFloat[x.Op]; op != "" {
		return w.result(k, strings.ReplaceAll(op, "f32", "f64"), args...), nil
	}
	p := w.register("p")
	switch x.Op {
	case "Max", "Min":
		m := w.result(k, map[tile.Op]string{"Max": "max.f64", "Min": "min.f64"}[x.Op], args...)
		sum := w.result(k, "add.rn.f64", args...)
		w.emit("setp.nan.f64", p, args[0], args[1])
		return w.result(k, "selp.f64", sum, m, p), nil
	case "Relu":
		const zero = "0d0000000000000000"
		w.emit("setp.lt.f64", p, args[0], zero)
		return w.result(k, "selp.f64", zero, args[0], p), nil
	case "IsNaN":
		w.emit("setp.nan.f64", p, args[0], args[0])
		return w.truth(p), nil
	}
	return "", unsupported("%s of float64", x.Op)
}

// oddly is a value as a float32 that is rounded to odd: it gives, when it is rounded to 16 bits, what the value gives at once, as
// [kit.OddFloat32] explains.
func (w *writer) oddly(k kind, v string) string {
	if k.typ != "f64" {
		v = w.result(kinds[ndarray.Float64], "cvt.rn.f64."+k.typ, v)
	}
	single := kinds[ndarray.Float32]
	cut := w.result(single, "cvt.rz.f32.f64", v)
	p := w.register("p")
	w.emit("setp.neu.f64", p, w.result(kinds[ndarray.Float64], "cvt.f64.f32", cut), v)
	odd := w.result(kinds[ndarray.Int32], "or.b32", w.result(kinds[ndarray.Int32], "mov.b32", cut), "1")
	return w.result(single, "selp.b32", odd, cut, p)
}

// The numbers that are cut off to a type lie below these; all others become the least one.
var (
	below = map[ndarray.DType]map[string]string{
		ndarray.Int32: {"f32": number(1 << 31), "f64": "0d41E0000000000000"}, ndarray.Int64: {"f32": number(1 << 63), "f64": "0d43E0000000000000"},
	}
	least = map[ndarray.DType]string{ndarray.Int32: "0x80000000", ndarray.Int64: "0x8000000000000000"}
)

// truncated is a float cut off to int32 or int64. The instruction gives the least number itself for what is below it, and others for NaN
// and what is above.
func (w *writer) truncated(to ndarray.DType, from kind, v string) string {
	b, p := kinds[to], w.register("p")
	w.emit("setp.lt."+from.typ, p, v, below[to][from.typ])
	return w.result(b, fmt.Sprint("selp.b", 8*b.size), w.result(b, "cvt.rzi."+b.typ+"."+from.typ, v), least[to], p)
}

// cast converts. A float on its way to an integer is cut off, as [ndarray.Truncated] says.
func (w *writer) cast(from, to ndarray.DType, v string) string {
	a, b := kinds[from], kinds[to]
	isFloat := a.typ[0] == 'f'
	switch {
	case to == ndarray.Bool:
		p, relation, zero := w.register("p"), "setp.ne.", "0"
		if isFloat {
			relation, zero = "setp.neu.", map[string]string{"f32": number(0), "f64": "0d0000000000000000"}[a.typ]
		}
		w.emit(relation+a.typ, p, v, zero)
		return w.truth(p)
	case a.class == b.class:
		return v
	case b.memory == "b16" && a.size > 2:
		return w.oddly(a, v)
	case isFloat && b.typ == "f64":
		return w.result(b, "cvt.f64.f32", v)
	case a.typ == "f64" && b.typ == "f32":
		return w.result(b, "cvt.rn.f32.f64", v)
	case isFloat:
		switch {
		case to == ndarray.Int32 || to.Size() < 4:
			return w.truncated(ndarray.Int32, a, v)
		case to == ndarray.Int64:
			return w.truncated(to, a, v)
		case to == ndarray.Uint32:
			return w.result(b, "cvt.u32.u64", w.truncated(ndarray.Int64, a, v))
		}
		p, limit := w.register("p"), below[ndarray.Int64][a.typ]
		upper := w.truncated(ndarray.Int64, a, w.result(a, "sub.rn."+a.typ, v, limit))
		w.emit("setp.ge."+a.typ, p, v, limit)
		return w.result(b, "selp.b64", w.result(b, "xor.b64", upper, least[ndarray.Int64]), w.truncated(ndarray.Int64, a, v), p)
	case b.typ[0] == 'f':
		return w.result(b, "cvt.rn."+b.typ+"."+a.typ, v)
	}
	return w.result(b, "cvt."+b.typ+"."+a.typ, v)
}
