package berth

import "github.com/berth-onnx/berth/internal/onnxwire"

// PlanKey is the metadata key under which an optimized file keeps the memory
// plan of its program, so that it need not be searched for again.
const PlanKey = "berth.plan"

// SavePlan returns the program's memory plan as text for [PlanKey]. It is used
// again only for the very same planning problem, and verified again.
func (p *Program) SavePlan() string {
	if !p.made() {
		return ""
	}
	return p.prog.SavePlan()
}

// savedPlans returns the plans kept in the model's metadata, unless a planner
// was asked for by name.
func (m *Model) savedPlans(c *config) []string {
	w, ok := m.module.Carried.(*onnxwire.Model)
	if !ok || c.planner != "" {
		return nil
	}
	var out []string
	for _, e := range w.MetadataProps {
		if e.Key == PlanKey {
			out = append(out, e.Value)
		}
	}
	return out
}
