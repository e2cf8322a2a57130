package ptx

// Where diverged lanes meet again: the immediate post-dominator of the branch, the first step that every way from the branch to
// the end of the function passes.
//
//	     setp          the lanes that take the branch run B, the others A;
//	    /    \         all of them go on with C
//	   A      B
//	    \    /
//	      C
//
// Post-dominators are found over steps, by the iteration of Cooper, Harvey and Kennedy (A simple, fast dominance algorithm,
// 2001) on the reversed graph.

// mostVisits bounds the visits of steps, which are a few for each step of compiled code, and their square where branches are entangled.
const mostVisits = 1 << 25

// reconverge sets the meeting point of every branch. The end of the function is the step behind the last. False: it takes too long.
func (fn *function) reconverge() bool {
	end := len(fn.steps)
	order := fn.postorder()
	number := make([]int, end+1) // in reverse postorder from the end
	for i := range number {
		number[i] = -1
	}
	for i, s := range order {
		number[s] = i
	}
	meet := make([]int, end+1)
	for i := range meet {
		meet[i] = -1
	}
	meet[end] = end
	visits := 0
	for changed := true; changed; {
		if visits += len(order); visits > mostVisits {
			return false
		}
		changed = false
		for i := len(order) - 2; i >= 0; i-- {
			s, best := order[i], -1
			for _, next := range fn.successors(s) {
				switch {
				case meet[next] < 0:
				case best < 0:
					best = next
				default:
					best = common(meet, number, best, next)
				}
			}
			if best >= 0 && meet[s] != best {
				meet[s], changed = best, true
			}
		}
	}
	for i := range fn.steps {
		if meet[i] < 0 {
			meet[i] = end // a loop without an exit
		}
		fn.steps[i].meet = int32(meet[i])
	}
	return true
}

// common is the nearest common post-dominator of two steps.
func common(meet, number []int, a, b int) int {
	for a != b {
		for number[a] < number[b] {
			a = meet[a]
		}
		for number[b] < number[a] {
			b = meet[b]
		}
	}
	return a
}

// successors are the steps that may follow one.
func (fn *function) successors(i int) []int {
	if i == len(fn.steps) {
		return nil
	}
	s := &fn.steps[i]
	var out []int
	switch s.kind {
	case stepBranch:
		out = append(out, int(s.target))
	case stepTable:
		for _, t := range s.targets {
			out = append(out, int(t))
		}
	case stepRet, stepExit, stepTrap:
		out = append(out, len(fn.steps))
	}
	if len(out) == 0 || s.guard >= 0 {
		out = append(out, i+1)
	}
	return out
}

// postorder lists the steps from which the end is reached, by a walk backwards from the end; the end comes last.
func (fn *function) postorder() []int {
	before := make([][]int, len(fn.steps)+1)
	for i := range fn.steps {
		for _, next := range fn.successors(i) {
			before[next] = append(before[next], i)
		}
	}
	type visit struct{ step, edge int }
	seen := make([]bool, len(before))
	seen[len(fn.steps)] = true
	stack := []visit{{len(fn.steps), 0}}
	var out []int
	for len(stack) > 0 {
		v := &stack[len(stack)-1]
		if v.edge == len(before[v.step]) {
			out = append(out, v.step)
			stack = stack[:len(stack)-1]
			continue
		}
		next := before[v.step][v.edge]
		v.edge++
		if !seen[next] {
			seen[next] = true
			stack = append(stack, visit{next, 0})
		}
	}
	return out
}
