package typecheck

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed constraints.txt
var text string

// operator is what one version of an operator allows.
type operator struct {
	version           int
	operands, results []parameter
	variables         map[string][]string // the types that each variable may stand for
}

// parameter is an operand or a result, or the last of them, which stands for any number.
type parameter struct {
	name     string
	variable string // one type for all parameters that have it
	many     bool
	mixed    bool     // each of the many has a type of its own
	types    []string // allowed
}

// table holds the versions of each operator, the oldest first, by DOMAIN.OPERATOR. It is read when first asked for; a program that
// never does is not linked with the text.
func table() map[string][]operator {
	read.Do(func() { operators = readTable() })
	return operators
}

var (
	read      sync.Once
	operators map[string][]operator
)

func readTable() map[string][]operator {
	out, sets := map[string][]operator{}, map[string][]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case line[0] == '#':
		case line[0] == '=':
			sets[f[0][1:]] = f[1:]
		default:
			out[f[0]] = append(out[f[0]], parse(f[1:], sets))
		}
	}
	return out
}

// parse reads the fields of a line behind the operator's name; internal/tools/onnxschema/constraints.py documents them. The
// table is part of the program, so that a line that does not parse is a bug.
func parse(f []string, sets map[string][]string) operator {
	version, err := strconv.Atoi(f[0])
	results, variables := slices.Index(f, ">"), slices.Index(f, ";")
	if err != nil || results < 0 || variables < results {
		panic(fmt.Sprintf("typecheck: no line of the table: %q", f))
	}
	o := operator{version: version, variables: map[string][]string{}}
	for _, v := range f[variables+1:] {
		name, set, _ := strings.Cut(v, "=")
		o.variables[name] = sets[set]
	}
	for i, p := range f[1:variables] {
		switch {
		case i+1 < results:
			o.operands = append(o.operands, o.parameter(p, sets))
		case i+1 > results:
			o.results = append(o.results, o.parameter(p, sets))
		}
	}
	return o
}

func (o *operator) parameter(field string, sets map[string][]string) parameter {
	name, variable, _ := strings.Cut(field, ":")
	p := parameter{name: name, variable: strings.TrimRight(variable, "*~"), many: strings.HasSuffix(variable, "*"), mixed: strings.HasSuffix(variable, "~")}
	p.many = p.many || p.mixed
	p.types = o.variables[p.variable]
	if set, fixed := strings.CutPrefix(p.variable, "#"); fixed {
		p.types = sets[set]
	}
	return p
}

// find returns the newest form of an operator up to a version of its domain's operator set; nil if none is known.
func find(domain, name string, version int64) *operator {
	var found *operator
	all := table()[domain+"."+name]
	for i := range all {
		if int64(all[i].version) <= version {
			found = &all[i]
		}
	}
	return found
}

// at returns the parameter that value i of a list is, nil behind the last.
func at(list []parameter, i int) *parameter {
	if n := len(list); i >= n && n > 0 && list[n-1].many {
		i = n - 1
	}
	if i >= len(list) {
		return nil
	}
	return &list[i]
}
