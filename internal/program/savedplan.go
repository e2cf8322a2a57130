package program

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/planner"
)

// A saved plan is a finished plan as text, to be kept beside the model it was
// made for. It names the problem by a fingerprint; a plan is used again only for
// the very same problem, and is verified again like any other.
//
//	base64( version, fingerprint, arena, number of buffers, offsets / 64 … )
//
// all but the fingerprint as variable-length integers. No lower bound is kept, for a
// file can claim any: it is computed again.

const savedVersion = 1

// Fingerprint identifies a planning problem: sizes, lives, alignment, in order, and
// whether it is for one schedule or for all. Names are not part of it.
func Fingerprint(p *planner.Problem) uint64 {
	h := fnv.New64a()
	var b []byte
	add := func(n int64) { b = binary.AppendVarint(b, n) }
	add(p.Align)
	for _, x := range p.Buffers {
		add(x.Size)
		add(x.Align)
		add(int64(x.Lo))
		add(int64(x.Hi))
		add(0) // a field of earlier versions: the plans of their files stay valid
		for _, r := range x.Holes {
			add(int64(r.Lo))
			add(int64(r.Hi))
		}
	}
	if p.Order != nil {
		b = append(b, "any order"...)
	}
	_, _ = h.Write(b)
	return h.Sum64()
}

// SavePlan writes the program's plan as text.
func (p *Program) SavePlan() string {
	b := []byte{savedVersion}
	b = binary.LittleEndian.AppendUint64(b, Fingerprint(p.Problem))
	b = binary.AppendUvarint(b, uint64(p.Solution.ArenaBytes))
	b = binary.AppendUvarint(b, uint64(len(p.Solution.Offsets)))
	for _, o := range p.Solution.Offsets {
		b = binary.AppendUvarint(b, uint64(o/inplace.Align))
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

// savedPlan returns the plan among texts that was made for the problem, nil if
// there is none. Text that does not parse is no plan and is skipped; so is a plan whose arena
// is larger than that of a simple planner: a file can claim any.
func savedPlan(ctx context.Context, texts []string, prob *planner.Problem) *planner.Solution {
	want := Fingerprint(prob)
	var simple *planner.Solution
	for _, t := range texts {
		s, f, err := parsePlan(t)
		if err != nil || f != want || len(s.Offsets) != len(prob.Buffers) {
			continue
		}
		if simple == nil {
			if simple, err = (planner.GreedySize{}).Plan(ctx, prob); err != nil || ctx.Err() != nil {
				return nil
			}
		}
		if s.ArenaBytes <= simple.ArenaBytes {
			s.LowerBound, s.Proof = simple.LowerBound, simple.Proof
			return s
		}
	}
	return nil
}

func parsePlan(text string) (s *planner.Solution, fingerprint uint64, err error) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(b) < 9 || b[0] != savedVersion {
		return nil, 0, fmt.Errorf("not a saved plan")
	}
	fingerprint = binary.LittleEndian.Uint64(b[1:])
	b = b[9:]
	next := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<56 {
			err = fmt.Errorf("a saved plan is cut short")
			return 0
		}
		b = b[n:]
		return int64(v)
	}
	s = &planner.Solution{Planner: "saved", ArenaBytes: next()}
	n := next()
	if err != nil || n > int64(len(b)) {
		return nil, 0, fmt.Errorf("a saved plan is cut short")
	}
	for range n {
		s.Offsets = append(s.Offsets, next()*inplace.Align)
	}
	return s, fingerprint, err
}
