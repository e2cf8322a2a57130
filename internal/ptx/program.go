package ptx

import (
	"fmt"
	"slices"
	"sync"
)

// Program is a module whose kernels can be launched. It is safe for concurrent use.
type Program struct {
	module  *Module
	options Options
	lock    sync.Mutex
	kernels map[string]*kernel
	work    int // statements and registers compiled so far
}

// What compiling a module may take: functions that many kernels call are compiled for each of them.
const (
	mostStatements = 1 << 20
	mostTargets    = 1 << 20 // of all branches by tables, in a function
)

// Compile checks a module's names and instructions, those of all functions. What the interpreter does not execute is a
// [SyntaxError] with its line.
func Compile(m *Module) (*Program, error) { return CompileWith(m, Options{}) }

// CompileWith is [Compile] with options.
func CompileWith(m *Module, o Options) (*Program, error) {
	p := &Program{module: m, options: o, kernels: map[string]*kernel{}}
	for _, f := range m.Functions {
		if f.IsEntry && f.HasBody {
			if _, err := p.kernel(f.Name); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// Kernels lists the names of the kernels, in the order of the module.
func (p *Program) Kernels() (names []string) {
	for _, f := range p.module.Functions {
		if f.IsEntry {
			names = append(names, f.Name)
		}
	}
	return names
}

// KernelInfo says what a kernel needs.
type KernelInfo struct {
	Params       []int64 // bytes of each parameter
	Offsets      []int64 // of each parameter in the buffer of arguments
	ArgBytes     int64   // of all parameters
	SharedBytes  int64   // static shared memory
	LocalBytes   int64   // per thread
	Instructions int     // of the kernel, without the functions it calls
	MaxThreads   [3]int  // .maxntid, zeros where nothing is declared
	Untraced     []int   // lines of accesses to global memory whose address is computed from no parameter and no variable
}

// Info describes a kernel.
func (p *Program) Info(name string) (KernelInfo, error) {
	k, err := p.kernel(name)
	if err != nil {
		return KernelInfo{}, err
	}
	return k.info, nil
}

// kernel is an entry with the functions it calls, ready to run.
type kernel struct {
	name        string
	info        KernelInfo
	entry       *function
	functions   map[string]*function
	sharedState []byte // of each byte of shared memory when a block begins: free for use, or between variables
	sharedGrain int    // bytes of a cell of the race detector
	globalGrain int    // bytes of a cell of its shadows of global memory
	mostShared  int64  // bytes that a block may have
	dynamicAt   int64  // where dynamic shared memory begins
	constants   []byte // constant memory
	globals     []*Variable
	isOrdered   bool      // blocks run one after another: they meet in atomic operations
	isPartial   bool      // there may be barriers of some warps
	idle        sync.Pool // blocks to use again
	accesses    int       // how many loads and stores there are
	origins     []int64   // what addresses are computed from: parameters by offset, variables as -1, -2 and so on
	reach       []uint64  // by access: the bits of its address's origins, 0 where none is known
	specials    []string  // special registers that some function reads
}

// function is a compiled body. Value registers have the indices below values; extras follow.
type function struct {
	name       string
	steps      []step
	values     int
	extras     []extra // what has an index behind the registers: constants, special registers
	predicates int
	params     []memoryRange // formal parameters in the frame's parameter memory
	results    []memoryRange
	paramBytes int64
	localBytes int64
	localTotal int64    // with the functions it calls
	names      []string // of value registers
	predNames  []string
	pointers   []pointerUse
}

// memoryRange is a part of a frame's parameter memory.
type memoryRange struct{ at, size int64 }

// kernel compiles a kernel at its first use.
func (p *Program) kernel(name string) (*kernel, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if k := p.kernels[name]; k != nil {
		return k, nil
	}
	f := p.module.function(name)
	if f == nil || !f.IsEntry || !f.HasBody {
		return nil, fmt.Errorf("the module has no kernel %q; it has %q", name, p.Kernels())
	}
	c := &compiler{module: p.module, options: p.options, work: &p.work, kernel: &kernel{name: name, functions: map[string]*function{}, sharedGrain: 4, globalGrain: 16, reach: make([]uint64, 1)}}
	if err := c.compile(f); err != nil {
		return nil, err
	}
	p.kernels[name] = c.kernel
	return c.kernel, nil
}

// function finds the definition of a name, or else a declaration.
func (m *Module) function(name string) *Function {
	var found *Function
	for _, f := range m.Functions {
		if f.Name == name && (found == nil || f.HasBody) {
			found = f
		}
	}
	return found
}

// reachable lists the functions that a function calls, itself first, and refuses recursion.
func (m *Module) reachable(f *Function) ([]*Function, error) {
	var order, open []*Function
	var visit func(f *Function) error
	visit = func(f *Function) error {
		if slices.Contains(open, f) {
			return syntaxError(f.Line, "%s calls itself, which is not executed here", f.Name)
		}
		if slices.Contains(order, f) {
			return nil
		}
		order, open = append(order, f), append(open, f)
		for _, s := range f.Body {
			if s.Instr == nil || s.Instr.Op[0] != "call" {
				continue
			}
			callee := m.function(calleeName(s.Instr))
			if callee == nil || !callee.HasBody {
				return syntaxError(s.Line, "the function %q has no body in this module", calleeName(s.Instr))
			}
			if err := visit(callee); err != nil {
				return err
			}
		}
		open = open[:len(open)-1]
		return nil
	}
	return order, visit(f)
}

// calleeName is the function of a call: the first operand that is no list.
func calleeName(i *Instruction) string {
	for _, a := range i.Args {
		if a.Kind == nameOperand {
			return a.Name
		}
	}
	return ""
}
