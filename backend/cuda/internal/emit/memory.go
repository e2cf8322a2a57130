package emit

import "github.com/berth-onnx/berth/ndarray"

// load reads an element.
func (w *writer) load(dt ndarray.DType, at string) string {
	k := kinds[dt]
	if k.memory != "b16" {
		return w.result(k, "ld.global."+k.memory, at)
	}
	h := w.register("h")
	w.emit("ld.global.b16", h, at)
	return w.widened(dt, h)
}

// widened is a 16-bit float as a float32.
func (w *writer) widened(dt ndarray.DType, h string) string {
	if dt == ndarray.Float16 {
		return w.result(kinds[dt], "cvt.f32.f16", h)
	}
	r := kinds[ndarray.Int32]
	return w.result(kinds[dt], "mov.b32", w.result(r, "shl.b32", w.result(r, "cvt.u32.u16", h), "16"))
}

// narrowed is a float32 as a 16-bit float, to nearest, ties to even. Not-a-number stays one.
func (w *writer) narrowed(dt ndarray.DType, v string) string {
	h := w.register("h")
	if dt == ndarray.Float16 {
		w.emit("cvt.rn.f16.f32", h, v)
		return h
	}
	r := kinds[ndarray.Int32]
	bits := w.result(r, "mov.b32", v)
	odd := w.result(r, "and.b32", w.result(r, "shr.u32", bits, "16"), "1")
	up := w.result(r, "add.u32", w.result(r, "add.u32", bits, odd), "32767")
	p := w.register("p")
	w.emit("setp.nan.f32", p, v, v)
	bits = w.result(r, "selp.b32", "2143289344", up, p) // 0x7FC00000
	w.emit("cvt.u16.u32", h, w.result(r, "shr.u32", bits, "16"))
	return h
}

// rounded is a value as its type keeps it: cut to the bits of a narrow integer, rounded to a 16-bit float.
func (w *writer) rounded(dt ndarray.DType, v string) string {
	switch k := kinds[dt]; {
	case k.narrow != "":
		return w.result(k, "cvt."+k.typ+"."+k.narrow, v)
	case k.memory == "b16":
		return w.widened(dt, w.narrowed(dt, v))
	}
	return v
}

// store writes an element.
func (w *writer) store(dt ndarray.DType, at, v string) {
	k := kinds[dt]
	if k.memory == "b16" {
		v = w.narrowed(dt, v)
	}
	w.emit("st.global."+k.memory, at, v)
}
