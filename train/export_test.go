package train

import "github.com/berth-onnx/berth"

// UpdateEarly is exported for its test.
var UpdateEarly = updateEarly

// Sequences is exported for its test.
var Sequences = sequences

// Poison fills the memory of steps with a pattern before each.
func (t *Trainer) Poison() { t.session.Poison(true) }

// Ops are the operators of a step, in order.
func (t *Trainer) Ops() (ops []string) {
	t.program.Steps(func(s berth.Step) { ops = append(ops, s.Op()) })
	return ops
}

// Places are the bytes of memory outside of the arena by state.
func (t *Trainer) Places() map[string]int64 {
	out := map[string]int64{}
	for _, c := range t.program.Caches() {
		out[c.Input] = c.Bytes
	}
	return out
}

// States are the bytes of each state.
func (t *Trainer) States() map[string]int64 {
	out := map[string]int64{}
	for _, s := range t.states {
		n, _ := s.typ.ByteSize()
		out[s.name] = int64(n)
	}
	return out
}
