package ops

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ssa"
)

// The table of operators. A family of operators is a package with a list of them,
// one line each, which it registers when the program starts; a program has the
// operators of the packages that it links:
//
//	ops/standard   the default domain without ImageDecoder, ai.onnx.ml, and what ONNX
//	               Runtime's own tools write; package onnximport links it
//	ops/all        the others, too
//
// A node of an operator that is not linked is opaque: it travels from file to file
// unchanged and fails with an [UnknownOperatorError] when it is run.

// Key identifies an operator in the table.
type Key struct{ Domain, Name string }

// Private is the domain of operators that passes make for execution. No file holds them: a
// node of this domain that is read from a file is of an unknown operator.
const Private = "berth.internal"

// table changes while packages are initialized, never after.
var table = map[Key]*ssa.Operator{}

// Register adds operators to the table. It is for functions init of packages that
// define operators, and panics if the table has an operator of the same domain and
// name.
func Register(family ...*Op) {
	foreign := isForeign()
	for _, o := range family {
		o.foreign = foreign
		k := Key{o.Domain, o.Name}
		if table[k] != nil {
			panic(fmt.Sprintf("ops: operator %q of domain %q is registered twice", o.Name, o.Domain))
		}
		table[k] = &ssa.Operator{Domain: o.Domain, Name: o.Name, Def: o}
	}
}

// isForeign reports whether a package outside berth calls the function that asks.
func isForeign() bool {
	pc := make([]uintptr, 2)
	pc = pc[:runtime.Callers(2, pc)]
	frames := runtime.CallersFrames(pc)
	register, more := frames.Next()
	caller, _ := frames.Next()
	return more && !strings.HasPrefix(caller.Function, strings.TrimSuffix(register.Function, "ops.Register"))
}

// All returns every operator that is linked, by domain and name.
func All() []*Op {
	list := make([]*Op, 0, len(table))
	for _, o := range table {
		list = append(list, opOf(o))
	}
	slices.SortFunc(list, func(a, b *Op) int { return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name)) })
	return list
}
