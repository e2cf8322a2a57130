package planner

import "fmt"

// ProblemError says why a problem cannot be planned at all.
type ProblemError struct {
	Buffer int    // index of the buffer at fault, -1 for the problem as a whole
	Name   string // its name, may be empty
	Reason string
}

func (e *ProblemError) Error() string {
	if e.Buffer < 0 {
		return "planner: the problem " + e.Reason
	}
	return fmt.Sprintf("planner: buffer %s %s", label(e.Buffer, e.Name), e.Reason)
}

// UnknownPlannerError is returned by Get.
type UnknownPlannerError struct{ Name string }

func (e *UnknownPlannerError) Error() string {
	return fmt.Sprintf("planner: no planner is named %q; there are %v", e.Name, Names())
}

// label names a buffer in messages.
func label(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("#%d", i)
	}
	return fmt.Sprintf("#%d (%s)", i, name)
}
