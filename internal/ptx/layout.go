package ptx

import (
	"encoding/binary"
	"slices"
)

// Where variables lie. Between two variables of shared or local memory are bytes that nobody may touch, so that an index one too
// far is an error and not the neighbour's value:
//
//	shared   | as: 1024 bytes | gap | bs: 1088 bytes | gap | dynamic shared memory |
//
// A GPU has no gaps; the sizes a kernel is said to need are without them.

// gap is the untouchable bytes behind a variable, enough for the widest access to begin at its end.
const gap = 64

// The most a kernel may ask for.
const (
	mostLocal = 512 << 10 // per thread
	mostConst = 64 << 10

	mostGlobals = 256 << 20 // of the variables of a module
	mostBlocks  = 2 << 30   // of the host, for the blocks that run at a time
)

func alignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }

// laySharedOut gives shared variables their places: those of functions, and those of the module that a function names.
func (c *compiler) laySharedOut(functions []*Function) error {
	named := namesIn(functions)
	var vars, dynamic []*Variable
	for _, v := range c.module.Variables {
		if v.Space == Shared && named[v.Name] {
			if v.IsExtern {
				dynamic = append(dynamic, v)
			} else {
				vars = append(vars, v)
			}
		}
	}
	for _, f := range functions {
		for _, s := range f.Body {
			if s.Variable != nil && s.Variable.Space == Shared {
				vars = append(vars, s.Variable)
			}
		}
	}
	k, at := c.kernel, int64(0)
	c.shared = map[*Variable]int64{}
	for _, v := range vars {
		size, ok := v.Size()
		if !ok || k.info.SharedBytes+size > mostStatic {
			return syntaxError(v.Line, "%s needs more than %d bytes of shared memory, with the variables before it", v.Name, mostStatic)
		}
		start := alignUp(at, max(v.alignment(), 4))
		k.sharedState = fill(k.sharedState, start, isGap)
		k.sharedState = fill(k.sharedState, start+size, isFree)
		c.shared[v] = start
		k.info.SharedBytes = alignUp(k.info.SharedBytes, v.alignment()) + size
		at = start + size + gap
	}
	if len(vars) > 0 {
		k.sharedState = fill(k.sharedState, at, isGap)
	}
	k.mostShared, k.dynamicAt = c.mostShared(), alignUp(at, 128)
	for _, v := range dynamic {
		c.shared[v] = k.dynamicAt
	}
	return nil
}

// fill extends a slice to n bytes of a value.
func fill(s []byte, n int64, value byte) []byte {
	for int64(len(s)) < n {
		s = append(s, value)
	}
	return s
}

// namesIn are the names that instructions of the functions mention.
func namesIn(functions []*Function) map[string]bool {
	named := map[string]bool{}
	for _, f := range functions {
		for _, s := range f.Body {
			if s.Instr == nil {
				continue
			}
			for _, a := range s.Instr.Args {
				named[a.Name] = true
				for _, e := range a.Elems {
					named[e.Name] = true
				}
			}
		}
	}
	return named
}

// layConstantsOut fills constant memory with the initial values of the module's constants.
func (c *compiler) layConstantsOut() error {
	c.constAt = map[*Variable]int64{}
	for _, v := range c.module.Variables {
		if v.Space != Const {
			continue
		}
		size, ok := v.Size()
		start := alignUp(int64(len(c.kernel.constants)), max(v.alignment(), 1))
		if !ok || start+size > mostConst {
			return syntaxError(v.Line, "%s needs more than %d bytes of constant memory", v.Name, mostConst)
		}
		c.kernel.constants = fill(c.kernel.constants, start+size, 0)
		c.constAt[v] = start
		if err := initialize(v, c.kernel.constants[start:start+size]); err != nil {
			return err
		}
	}
	return nil
}

// initialize writes a variable's initial values.
func initialize(v *Variable, to []byte) error {
	size := v.Type.Size()
	for i, init := range v.Init {
		if init.Symbol != "" {
			return syntaxError(v.Line, "%s is initialized with an address, which is not executed here", v.Name)
		}
		if (i+1)*size > len(to) {
			return syntaxError(v.Line, "%s has more initial values than elements", v.Name)
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], init.Bits)
		copy(to[i*size:], b[:size])
	}
	return nil
}

// layParametersOut gives a kernel's parameters their offsets in the buffer of arguments.
func (c *compiler) layParametersOut(f *Function) error {
	at, info := int64(0), &c.kernel.info
	c.params = map[*Variable]int64{}
	for _, v := range f.Params {
		size, ok := v.Size()
		if !ok || at+size > 4096 {
			return syntaxError(v.Line, "the parameters of %s need more than 4096 bytes", f.Name)
		}
		at = alignUp(at, v.alignment())
		c.params[v] = at
		info.Params, info.Offsets = append(info.Params, size), append(info.Offsets, at)
		at += size
	}
	info.ArgBytes = at
	return nil
}

// collectGlobals notes the module's variables in global memory that the functions name.
func (c *compiler) collectGlobals(functions []*Function) {
	named := namesIn(functions)
	for _, v := range c.module.Variables {
		if v.Space == Global && named[v.Name] && !slices.Contains(c.kernel.globals, v) {
			c.kernel.globals = append(c.kernel.globals, v)
		}
	}
}
