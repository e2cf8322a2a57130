package plannertest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/berth-onnx/berth/planner"
)

// Judge plans one random problem, drawn from seed, with every planner and says what is wrong: a planner that fails, a plan that
// is not valid, a plan below a bound that another planner claims, or auto above another planner. A nil error
// means that all is well.
func Judge(ctx context.Context, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	return JudgeProblem(ctx, Random(r, Pick(r)))
}

// JudgeProblem is Judge for a given problem.
func JudgeProblem(ctx context.Context, p *planner.Problem) error {
	least, bound := "", "none"
	var low, arena, auto int64
	for _, name := range planner.Names() {
		pl, err := planner.Get(name)
		if err != nil {
			return err
		}
		s, err := pl.Plan(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := planner.Validate(p, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if least == "" || s.ArenaBytes < arena {
			least, arena = name, s.ArenaBytes
		}
		if s.LowerBound > low {
			bound, low = name, s.LowerBound
		}
		if name == "auto" {
			auto = s.ArenaBytes
		}
	}
	if low > arena {
		return fmt.Errorf("%s claims that %d bytes are needed, but %s needs only %d", bound, low, least, arena)
	}
	if auto > arena && ctx.Err() == nil {
		return fmt.Errorf("auto needs %d bytes, but %s only %d", auto, least, arena)
	}
	return nil
}
