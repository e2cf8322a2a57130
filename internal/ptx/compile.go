package ptx

import (
	"slices"
	"strconv"
	"strings"
)

// compiler turns the functions of one kernel into steps.
type compiler struct {
	module  *Module
	options Options
	work    *int
	kernel  *kernel
	named   map[string]*Variable // of the module
	shared  map[*Variable]int64
	constAt map[*Variable]int64
	params  map[*Variable]int64 // of the entry, in the buffer of arguments
	version int                 // of the module: 81 for 8.1
	target  int                 // 70 for sm_70
}

func (c *compiler) compile(entry *Function) error {
	if err := c.readTarget(); err != nil {
		return err
	}
	functions, err := c.module.reachable(entry)
	if err != nil {
		return err
	}
	c.kernel.info.MaxThreads = entry.MaxThreads
	if err := c.laySharedOut(functions); err != nil {
		return err
	}
	if err := c.layConstantsOut(); err != nil {
		return err
	}
	if err := c.layParametersOut(entry); err != nil {
		return err
	}
	c.collectGlobals(functions)
	for _, f := range functions {
		if *c.work += len(f.Body); *c.work > mostStatements {
			return tooMuch(entry)
		}
		c.kernel.functions[f.Name] = &function{name: f.Name}
	}
	for _, f := range slices.Backward(functions) { // what is called is in place before its callers
		b := &builder{compiler: c, source: f, fn: c.kernel.functions[f.Name], labels: map[string]int{}}
		if err := b.build(); err != nil {
			return err
		}
	}
	c.kernel.entry = c.kernel.functions[entry.Name]
	c.kernel.info.Instructions = len(c.kernel.entry.steps)
	c.kernel.info.LocalBytes = c.kernel.entry.localTotal
	if c.kernel.info.LocalBytes > mostLocal {
		return syntaxError(entry.Line, "%s needs more than %d bytes of local memory", entry.Name, mostLocal)
	}
	return nil
}

func tooMuch(f *Function) error {
	return syntaxError(f.Line, "the kernels and what they call have more than %d statements and registers", mostStatements)
}

// symbol is what a name stands for in a scope.
type symbol struct {
	isRegister  bool
	isPredicate bool
	index       int32
	typ         Type
	space       Space // of a variable
	at          int64
	targets     []string
}

// builder compiles one function.
type builder struct {
	*compiler
	source *Function
	fn     *function
	scopes []map[string]symbol
	labels map[string]int
	fixups []func() error   // what waits until all labels are known
	consts map[uint64]int32 // index of each constant
	tables int              // targets of branches by tables
	line   int
	calls  []*function
}

func (b *builder) build() error {
	b.scopes = []map[string]symbol{{}}
	if err := b.formals(); err != nil {
		return err
	}
	if err := b.declare(); err != nil {
		return err
	}
	b.consts = map[uint64]int32{}
	for _, s := range b.source.Body {
		if err := b.statement(s); err != nil {
			return err
		}
	}
	b.fn.steps = append(b.fn.steps, step{kind: stepRet, line: b.line, guard: -1})
	for _, fix := range b.fixups {
		if err := fix(); err != nil {
			return err
		}
	}
	if !b.fn.reconverge() {
		return syntaxError(b.source.Line, "the branches of %s are too entangled", b.source.Name)
	}
	b.kernel.trace(b.fn)
	for _, callee := range b.calls {
		b.fn.localTotal = max(b.fn.localTotal, callee.localTotal)
	}
	b.fn.localTotal += b.fn.localBytes
	return nil
}

// formals declares the parameters: an entry's in the buffer of arguments, a function's in its frame.
func (b *builder) formals() error {
	for _, v := range b.source.Params {
		if b.source.IsEntry {
			b.scopes[0][v.Name] = symbol{space: Param, at: b.params[v]}
			continue
		}
		r, err := b.frameParam(v)
		if err != nil {
			return err
		}
		b.fn.params = append(b.fn.params, r)
	}
	for _, v := range b.source.Results {
		r, err := b.frameParam(v)
		if err != nil {
			return err
		}
		b.fn.results = append(b.fn.results, r)
	}
	return nil
}

// frameParams is where, in parameter space, the memory of a frame begins: behind the kernel's arguments.
const frameParams = 1 << 20

func (b *builder) frameParam(v *Variable) (memoryRange, error) {
	size, ok := v.Size()
	if !ok || b.fn.paramBytes+size > 4096*64 {
		return memoryRange{}, syntaxError(v.Line, "%s is too large for a parameter", v.Name)
	}
	at := alignUp(b.fn.paramBytes, v.alignment())
	b.fn.paramBytes = at + size
	b.scopes[len(b.scopes)-1][v.Name] = symbol{space: Param, at: frameParams + at}
	return memoryRange{at, size}, nil
}

// declare gives every register of the body its index, so that constants can have indices behind them.
func (b *builder) declare() error {
	n := int32(0)
	for _, s := range b.source.Body {
		if s.Register != nil && s.Register.Type != Pred {
			n += int32(max(s.Register.Count, 1))
		}
		if n > mostRegisters {
			return syntaxError(s.Line, "%s has more than %d registers", b.source.Name, mostRegisters)
		}
	}
	if *b.work += int(n); *b.work > mostStatements {
		return tooMuch(b.source)
	}
	b.fn.names = make([]string, 0, n)
	b.fn.values = int(n)
	return nil
}

// statement compiles one statement. Braces open and close scopes of names.
func (b *builder) statement(s Statement) error {
	b.line = s.Line
	switch {
	case s.IsOpen:
		b.scopes = append(b.scopes, map[string]symbol{})
	case s.IsClose:
		b.scopes = b.scopes[:len(b.scopes)-1]
	case s.Label != "":
		if _, twice := b.labels[s.Label]; twice {
			return syntaxError(s.Line, "the label %s stands here for the second time", s.Label)
		}
		b.labels[s.Label] = len(b.fn.steps)
	case s.Register != nil:
		return b.registers(s.Register)
	case s.Targets != nil:
		b.scopes[len(b.scopes)-1][s.Targets.Name] = symbol{targets: s.Targets.Labels}
	case s.Variable != nil:
		return b.variable(s.Variable)
	case s.Instr != nil:
		return b.instruction(s.Instr)
	}
	return nil
}

func (b *builder) registers(r *Registers) error {
	scope := b.scopes[len(b.scopes)-1]
	add := func(name string) error {
		sym := symbol{isRegister: true, typ: r.Type, isPredicate: r.Type == Pred}
		if sym.isPredicate {
			sym.index = int32(b.fn.predicates)
			b.fn.predicates++
			b.fn.predNames = append(b.fn.predNames, name)
			if b.fn.predicates > mostRegisters {
				return syntaxError(b.line, "%s has more than %d predicates", b.source.Name, mostRegisters)
			}
		} else {
			sym.index = int32(len(b.fn.names))
			b.fn.names = append(b.fn.names, name)
		}
		scope[name] = sym
		return nil
	}
	if r.Count == 0 {
		return add(r.Name)
	}
	for i := range r.Count {
		if err := add(r.Name + strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) variable(v *Variable) error {
	scope := b.scopes[len(b.scopes)-1]
	switch v.Space {
	case Shared:
		scope[v.Name] = symbol{space: Shared, at: b.shared[v]}
	case Param:
		_, err := b.frameParam(v)
		return err
	case Local:
		size, ok := v.Size()
		if !ok || b.fn.localBytes+size > mostLocal {
			return syntaxError(v.Line, "%s needs more than %d bytes of local memory", v.Name, mostLocal)
		}
		at := alignUp(b.fn.localBytes, max(v.alignment(), 16))
		scope[v.Name] = symbol{space: Local, at: at}
		b.fn.localBytes = alignUp(at+size, 16) + gap
	}
	return nil
}

// lookup finds what a name stands for: from the innermost scope outwards, then in the module.
func (b *builder) lookup(name string) (symbol, error) {
	for _, scope := range slices.Backward(b.scopes) {
		if s, ok := scope[name]; ok {
			return s, nil
		}
	}
	if v := b.variableNamed(name); v != nil {
		switch v.Space {
		case Shared:
			return symbol{space: Shared, at: b.shared[v]}, nil
		case Const:
			return symbol{space: Const, at: b.constAt[v]}, nil
		case Global:
			return symbol{space: Global, at: int64(slices.Index(b.kernel.globals, v))}, nil
		}
	}
	return symbol{}, syntaxError(b.line, "nothing is named %q", name)
}

// variableNamed is a variable of the module; nil if there is none.
func (c *compiler) variableNamed(name string) *Variable {
	if c.named == nil {
		c.named = map[string]*Variable{}
		for _, v := range c.module.Variables {
			if c.named[v.Name] == nil {
				c.named[v.Name] = v
			}
		}
	}
	return c.named[name]
}

// instruction compiles one instruction by the table of operations.
func (b *builder) instruction(i *Instruction) error {
	compile := operations[i.Op[0]]
	if compile == nil {
		return syntaxError(i.Line, "the operation %s is not executed here", i.Name())
	}
	o := &operation{builder: b, Instruction: i, mods: slices.Clone(i.Op[1:])}
	o.step = step{line: i.Line, name: i.Name(), guard: -1}
	if i.Guard != "" {
		s, err := b.lookup(i.Guard)
		if err != nil {
			return err
		}
		if !s.isPredicate {
			return syntaxError(i.Line, "%s is no predicate", i.Guard)
		}
		o.step.guard, o.step.guardNegated = s.index, i.IsNegated
	}
	compile(o)
	o.isThere()
	if o.err != nil {
		return o.err
	}
	if len(o.mods) > 0 {
		return syntaxError(i.Line, "the modifier .%s of %s is not executed here", strings.Join(o.mods, "."), i.Name())
	}
	b.fn.steps = append(b.fn.steps, o.step)
	return nil
}
