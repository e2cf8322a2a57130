package liveness

// Dynamic is how many values have a size that is known only while running
// (parameters of the graph and constants not counted).
func (t *Timeline) Dynamic() int {
	n := 0
	for v, x := range t.Vars {
		if x.Kind == Outside && v >= len(t.Graph.Params) {
			n++
		}
	}
	return n
}

// CopiesPerTrip is how many bytes one iteration copies, the largest over all
// loops: slices that are not read or written in place.
func (t *Timeline) CopiesPerTrip() int64 {
	var most int64
	for _, r := range t.loops {
		most = max(most, r.CopyBytes())
	}
	return most
}
