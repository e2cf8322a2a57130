package onnxruntime

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// graph reads nodes as "name: in in -> out out".
func graph(lines ...string) (nodes []Node) {
	for _, l := range lines {
		name, rest, _ := strings.Cut(l, ":")
		in, out, _ := strings.Cut(rest, "->")
		nodes = append(nodes, Node{Name: name, In: strings.Fields(in), Out: strings.Fields(out)})
	}
	return nodes
}

// TestMatch: rows are written as the names of the one's nodes, a bar, and those of the other's.
func TestMatch(t *testing.T) {
	file := graph("conv:x w->c", "add:c r->a", "relu:a->y")
	for _, c := range []struct {
		name             string
		file, one, other []Node
		want             []string
	}{
		{"as it is", file, file, file, []string{"conv | conv", "add | add", "relu | relu"}},
		{"fused on one side", file, graph("all:x w r->y"), file, []string{"all | conv add relu"}},
		{"fused differently", file, graph("conv:x w->c", "group:c r->y"), graph("fused:x w r->a", "relu:a->y"), []string{"conv group | fused relu"}},
		{"renamed with a suffix", file, graph("conv:x w->c", "tail:c r->y"), graph("conv_nchwc:t1->t2", "reorder:t2->c", "rest:c r->y"), []string{"conv | conv_nchwc reorder", "tail | rest"}},
		{"a value's name", file, graph("k:x w->c_1", "tail:c_1 r->y"), graph("c_nchwc:t1->t2", "rest:t2 r->y"), []string{"k | c_nchwc", "tail | rest"}},
		{"several nodes for a value", file, graph("conv:x w->y_1", "shift:y_1 r->y_1_1", "back:y_1_1->y"), file, []string{"conv shift back | conv add relu"}},
		{"a conversion of the input", file, file, append(graph("ReorderInput:x->t"), file...), []string{"conv | conv", "add | add", "relu | relu", " | ReorderInput"}},
		{"not another number", graph("conv_1:x->p1", "conv_12:p1->p2"), graph("conv_1:x->p1", "conv_12:p1->p2"), graph("conv_12_fused:z->z2", "conv_1_fused:z2->z3"), []string{"conv_1 | conv_1_fused", "conv_12 | conv_12_fused"}},
		{"numbers at the beginning alone", graph("n:x->12", "m:12->13"), graph("n:x->12", "m:12->13"), graph("12_nchwc:x->t", "u_13:t->t2"), []string{"n | 12_nchwc", "m | ", " | u_13"}},
		{"sizes that both have folded", graph("shape:x->s", "a:x s->p", "b:p s->q"), graph("a:x->p", "b:p->q"), graph("a:x->p", "b:p->q"), []string{"a | a", "b | b"}},
		{"one side alone", file, graph("conv:x w->c"), nil, []string{"conv | "}},
		{"a cycle of names", graph("a:y->x", "b:x->y"), graph("b:x->y"), graph("b:x->y"), []string{"b | b"}},
		{"nothing", nil, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, r := range Match(c.file, c.one, c.other) {
				got = append(got, listed(c.one, r.One)+" | "+listed(c.other, r.Other))
				assert.Equal(t, len(r.One) > 0 && len(r.Other) > 0, r.Matched())
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func listed(nodes []Node, at []int) string {
	var names []string
	for _, i := range at {
		names = append(names, nodes[i].Name)
	}
	return strings.Join(names, " ")
}
