package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/train"
)

// trainRow is a step of training planned by one planner within one budget.
type trainRow struct {
	Planner    string `json:"planner"`
	Budget     int64  `json:"budget_bytes"` // 0: none
	ArenaBytes int64  `json:"arena_bytes"`
	LowerBound int64  `json:"lower_bound_bytes"`
	Proven     bool   `json:"proven"`
	Kept       string `json:"kept"` // from the way forward to the way back
	Error      string `json:"error"`
}

// trainShares are the budgets of a planner's rows, in parts of the arena without one; after them the least arena that was found.
var trainShares = []float64{0.75, 0.5}

// compareTraining plans steps by every planner, or the one given, without a budget and within ever smaller ones.
func (a *app) compareTraining(ctx context.Context, model string, f compareFlags) error {
	planners := berth.Planners()
	if a.planner != "" && a.planner != "all" {
		planners = []string{a.planner}
	}
	shared := *a
	shared.planner = ""
	opts, err := shared.options()
	if err != nil {
		return err
	}
	a.dump, a.outputs = shared.dump, shared.outputs
	m, have, err := a.load(model, false)
	if err != nil {
		return err
	}
	defer m.Close()
	if opts, err = a.sized(ctx, m, have, append(shapesIn(have), opts...)); err != nil {
		return err
	}
	bar := a.newProgress(len(planners) * (2 + len(trainShares)))
	defer bar.done()
	var rows []trainRow
	for _, p := range planners {
		o := train.Options{Loss: losses[f.train], Compile: append(opts[:len(opts):len(opts)], berth.WithPlanner(p))}
		more, err := trainRows(ctx, m, p, o, bar)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	bar.done()
	if a.json {
		return a.printJSON(map[string]any{"model": model, "loss": f.train, "training": rows})
	}
	t := newTable(a.out, "planner", "budget", "arena", "bytes", "over bound", "kept")
	for _, r := range rows {
		budget, over, kept := "none", "", r.Kept
		if r.Budget > 0 {
			budget = bytesText(r.Budget)
		}
		if r.Error != "" {
			t.AppendRow([]any{r.Planner, budget, "", "", "", r.Error})
			continue
		}
		if r.LowerBound > 0 {
			over = fmt.Sprintf("%.2f %%", 100*(float64(r.ArenaBytes)/float64(r.LowerBound)-1))
		}
		if r.Budget == 0 {
			kept = "all"
		}
		t.AppendRow([]any{r.Planner, budget, bytesText(r.ArenaBytes), r.ArenaBytes, over, kept})
	}
	t.Render()
	return nil
}

// trainRows are the rows of a planner.
func trainRows(ctx context.Context, m *berth.Model, planner string, o train.Options, bar *progress) (rows []trainRow, err error) {
	plan := func(budget int64) (row trainRow, short *train.BudgetError, err error) {
		bar.step(fmt.Sprintf("%s, budget %d", planner, budget))
		o.Budget = budget
		t, err := train.New(ctx, m, o)
		row = trainRow{Planner: planner, Budget: budget}
		if errors.As(err, &short) {
			row.Error = err.Error()
			return row, short, nil
		}
		if err == nil {
			p := t.Plan()
			row.ArenaBytes, row.LowerBound, row.Proven, row.Kept = p.ArenaBytes, p.LowerBound, p.Proven, t.Kept()
		}
		return row, nil, err
	}
	free, _, err := plan(0)
	if err != nil {
		return nil, err
	}
	rows = append(rows, free)
	least := int64(0)
	for _, share := range trainShares {
		row, short, err := plan(max(1, int64(share*float64(free.ArenaBytes))))
		if err != nil {
			return nil, err
		}
		if short != nil {
			least = short.Least
		}
		rows = append(rows, row)
	}
	if least == 0 {
		_, short, err := plan(1)
		if err != nil || short == nil {
			return rows, err
		}
		least = short.Least
	}
	row, _, err := plan(least)
	return append(rows, row), err
}
