package ptx

// Control: branches, calls, returns, barriers.

// compileBranch compiles bra.
func compileBranch(o *operation) {
	o.flag("uni")
	o.want(1)
	label, at := o.arg(0).Name, len(o.fn.steps)
	o.step.kind, o.step.class = stepBranch, ControlClass
	o.fixups = append(o.fixups, func() error {
		target, err := o.label(label, o.step.line)
		o.fn.steps[at].target = target
		return err
	})
}

func (b *builder) label(name string, line int) (int32, error) {
	at, ok := b.labels[name]
	if !ok {
		return 0, syntaxError(line, "no label is named %q", name)
	}
	return int32(at), nil
}

// compileTable compiles brx.idx, a branch by a table of targets.
func compileTable(o *operation) {
	o.flag("idx")
	o.flag("uni")
	o.want(2)
	s, err := o.lookup(o.arg(1).Name)
	if err != nil || len(s.targets) == 0 {
		o.fail("%q is no table of targets", o.arg(1).Name)
	}
	at := len(o.fn.steps)
	o.step.kind, o.step.class = stepTable, ControlClass
	o.step.index = o.src(0, U32)
	o.fixups = append(o.fixups, func() error {
		if o.tables += len(s.targets); o.tables > mostTargets {
			return syntaxError(o.step.line, "the tables of branches have more than %d targets", mostTargets)
		}
		for _, name := range s.targets {
			target, err := o.label(name, o.step.line)
			if err != nil {
				return err
			}
			o.fn.steps[at].targets = append(o.fn.steps[at].targets, target)
		}
		return nil
	})
}

// compileCall compiles a direct call: (results), function, (operands), all of them variables in parameter memory.
func compileCall(o *operation) {
	o.flag("uni")
	var lists [2][]Operand // results, operands
	name, k := "", 0
	for _, a := range o.Args {
		switch {
		case a.Kind == listOperand && name == "":
			lists[0] = a.Elems
		case a.Kind == listOperand && k == 0:
			lists[1], k = a.Elems, 1
		case a.Kind == nameOperand && name == "":
			name = a.Name
		default:
			o.fail("calls through pointers are not executed here")
		}
	}
	callee := o.kernel.functions[name]
	if callee == nil {
		o.fail("no function is named %q", name)
		return
	}
	o.step.kind, o.step.class, o.step.callee = stepCall, ControlClass, callee
	o.step.out = o.ranges(lists[0], callee.results)
	o.step.in = o.ranges(lists[1], callee.params)
	o.calls = append(o.calls, callee)
}

// ranges are the places of a call's operands in the caller's parameter memory.
func (o *operation) ranges(operands []Operand, formals []memoryRange) (out []memoryRange) {
	if len(operands) != len(formals) {
		o.fail("%d operands are given for %d parameters", len(operands), len(formals))
		return nil
	}
	for i, a := range operands {
		isVariable, s := o.isVariable(a.Name)
		if !isVariable || s.space != Param || s.at < frameParams {
			o.fail("%q is no variable in parameter memory", a.Name)
			return nil
		}
		at := s.at - frameParams
		if at+formals[i].size > o.fn.paramBytes {
			o.fail("%q is smaller than its parameter", a.Name)
		}
		out = append(out, memoryRange{at, formals[i].size})
	}
	return out
}

func compileRet(o *operation) {
	o.flag("uni")
	o.want(0)
	o.step.kind, o.step.class = stepRet, ControlClass
	if o.Op[0] == "exit" {
		o.step.kind = stepExit
	}
}

func compileTrap(o *operation) {
	o.want(0)
	o.step.kind, o.step.class = stepTrap, ControlClass
}

// barrierUse is what an instruction does at a barrier.
type barrierUse struct {
	id, count int32 // indices of operands; count -1: all threads of the block
	waits     bool
	reduce    string // popc, and, or: over a predicate of all threads
	result    int32
	operand   predicate
}

// compileBarrier compiles bar and barrier: sync, arrive, red; and bar.warp.sync, which orders the lanes of a warp.
func compileBarrier(o *operation) {
	o.flag("cta")
	o.flag("aligned")
	if o.flag("warp") {
		o.flag("sync")
		o.want(1)
		members := o.src(0, B32)
		o.step.class = ControlClass
		o.step.exec = func(w *warp, f *frame, m uint32) {
			if w.named(f, members, m) {
				w.block.enter()
				meet([]*warp{w})
			}
		}
		return
	}
	use := barrierUse{count: -1, result: -1}
	what := o.one("sync", "arrive", "red")
	use.waits = what != "arrive"
	operands := 0
	switch what {
	case "":
		o.fail("one of .sync, .arrive and .red is missing")
	case "red":
		use.reduce = o.one("popc", "and", "or")
		t := Pred
		if use.reduce == "popc" {
			t = o.typ()
		} else {
			o.flag("pred")
		}
		use.result, operands = o.dst(0, t), 1
	}
	use.id = o.src(operands, U32)
	operands++
	rest := len(o.Args) - operands
	if what == "red" {
		use.operand = o.pred(len(o.Args) - 1)
		rest--
	}
	if what == "arrive" && rest == 0 {
		o.fail("the number of threads is missing")
	}
	if rest == 1 {
		use.count = o.src(operands, U32)
		o.kernel.isPartial = true
	} else if rest != 0 {
		o.fail("%d operands are given", len(o.Args))
	}
	o.step.kind, o.step.class, o.step.barrier = stepBarrier, ControlClass, use
}
