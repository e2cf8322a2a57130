package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/cuda"
	"github.com/berth-onnx/berth/ndarray"
)

// Nothing that is given on a command line is ignored: a flag that can not have an effect is a mistake. What depends on flags alone
// is in a table here; what depends on the model or the inputs is checked where these are known (load, randomInputs, readImage).
//
// Limits and permissions (--max-memory, --timeout, --threads, --data-root, --steps of train …) have an effect also where nothing comes near to them.

// idleRule lists flags that a command does not read beside others.
type idleRule struct {
	command string
	when    func(g given) bool // nil: always
	why     string
	flags   []string
}

// given are the flags of a command line.
type given struct{ c *cobra.Command }

// any reports that one of some flags is given. A switch that is given as it is anyway, --letterbox=false, is not.
func (g given) any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		f := g.c.Flags().Lookup(name)
		return f != nil && f.Changed && (f.Value.Type() != "bool" || f.Value.String() != f.DefValue)
	})
}

// is reports the value of a flag, given or not.
func (g given) is(name, value string) bool {
	f := g.c.Flags().Lookup(name)
	return f != nil && f.Value.String() == value
}

// ofModels are the flags that concern a model.
var ofModels = []string{"shape", "dim", "threads", "planner", "schedule", "parallel-safe", "channel-block", "data-root", "limit", "seed", "max-memory",
	"optimize-for", "accuracy", "check", "dump"}

// ofPrograms are those that concern a compiled program and its plan.
var ofPrograms = []string{"threads", "planner", "parallel-safe", "optimize-for", "accuracy"}

var idleRules = []idleRule{
	{command: "optimize", flags: []string{"optimize-for", "accuracy"}},
	{"optimize", func(g given) bool { return g.any("no-verify") }, " with --no-verify", []string{"rtol", "atol", "seed", "allow-unverified"}},
	{"optimize", func(g given) bool { return !g.any("shape", "dim") }, " without --shape or --dim, which it keeps from the declared types", []string{"keep-io"}},
	{command: "verify", flags: []string{"shape", "dim", "seed", "channel-block"}},
	{"verify", func(g given) bool { return g.is("backend", "reference") }, " with --backend reference", []string{"optimize-for", "accuracy"}},
	{"run", func(g given) bool { return g.is("backend", "reference") }, " with --backend reference", []string{"optimize-for", "accuracy"}},
	{"bench", func(g given) bool { return g.is("backend", "reference") }, " with --backend reference", []string{"optimize-for", "accuracy"}},
	{"bench", func(g given) bool { return g.is("backend", "cuda-sim") }, " with --backend cuda-sim, which has no times", []string{"seconds", "profile", "compare", "tape-machine"}},
	{"bench", func(g given) bool { return !g.any("compare") }, " without --compare ort", []string{"python", "errors"}},
	{"compare", func(g given) bool { return g.any("train") }, " with --train", []string{"seed", "budget", "capacity", "backend", "device", "device-memory"}},
	{"compare", func(g given) bool { return !g.any("train") }, " without --train", []string{"of"}},
	{"compare", func(g given) bool { return g.any("instance") }, " of a bare instance", slices.Concat(without(ofModels, "planner", "parallel-safe", "max-memory"), []string{"data", "backend", "device", "device-memory"})},
	{"compare", func(g given) bool { return g.is("backend", "reference") }, " with --backend reference", []string{"optimize-for", "accuracy"}},
	{"compare", func(g given) bool { return !g.any("run") }, " without --run, since plans that are only compared take no memory of a device: add --run, or leave it out", []string{"device-memory"}},
	{"compare", func(g given) bool { return !g.any("run", "tape-machine") }, " without --run or --tape-machine", []string{"seed"}},
	{command: "inspect", flags: []string{"seed"}},
	{"inspect", func(g given) bool { return g.any("text", "node") }, " with --text or --node", ofPrograms},
	{"inspect", func(g given) bool { return g.any("node") }, " with --node", []string{"schedule"}},
	{"train", func(g given) bool { return !g.is("loss", "cross-entropy") }, " without --loss cross-entropy", []string{"ignore-label"}},
	{command: "train", flags: []string{"channel-block", "parallel-safe"}},
	{command: "models", flags: append(ofModels, "verbose")},
	{"run", hasNoDevice, " without --backend cuda or cuda-sim", ofDevices},
	{"bench", hasNoDevice, " without --backend cuda or cuda-sim", ofDevices},
	{"compare", hasNoDevice, " without --backend cuda or cuda-sim", ofDevices},
	{"inspect", hasNoDevice, " without --backend cuda or cuda-sim", ofDevices},
	{"verify", hasNoDevice, " without --backend cuda or cuda-sim", ofDevices},
}

// ofDevices are the flags that concern a device.
var ofDevices = []string{"device", "device-memory"}

// hasNoDevice reports a backend that computes on the host.
func hasNoDevice(g given) bool { return !g.is("backend", cuda.Name) && !g.is("backend", cuda.SimName) }

func without(list []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(names, s) })
}

// checkIdle refuses flags that are given although the command does not read them.
func checkIdle(c *cobra.Command) error {
	g := given{c}
	for _, r := range idleRules {
		if r.command != c.Name() || r.when != nil && !r.when(g) {
			continue
		}
		for _, name := range r.flags {
			if g.any(name) {
				return usagef("--%s has no effect on %s%s", name, c.Name(), r.why)
			}
		}
	}
	return nil
}

// checkRoot refuses a --data-root that is no folder.
func (a *app) checkRoot() error {
	if a.dataRoot == "" {
		return nil
	}
	info, err := os.Stat(a.dataRoot)
	switch {
	case err != nil:
		return usagef("--data-root: %w", err)
	case !info.IsDir():
		return usagef("--data-root %s is no folder", a.dataRoot)
	}
	return nil
}

// blockedDomain is that of operators whose filters --channel-block is about.
const blockedDomain = "com.microsoft.nchwc"

// checkModels refuses flags of opening that none of the models of a command is affected by.
func (a *app) checkModels(names []string, models ...*berth.Model) error {
	isFile := func(name string) bool { return !strings.HasPrefix(name, "builtin:") }
	if a.dataRoot != "" && !slices.ContainsFunc(names, isFile) {
		return usagef("--data-root has no effect on %s, which has no external data", strings.Join(names, " and "))
	}
	if len(a.limitFlags) > 0 && !slices.ContainsFunc(names, isFile) {
		return usagef("--limit has no effect on %s, which is no file", strings.Join(names, " and "))
	}
	if a.channelBlock == 0 {
		return nil
	}
	for _, m := range models {
		for op := range m.Contents().Operators {
			if strings.HasPrefix(op, blockedDomain+".") {
				return nil
			}
		}
	}
	return usagef("--channel-block has no effect on %s: there is no operator of domain %s", strings.Join(names, " and "), blockedDomain)
}

// checkUnread refuses inputs for optimize that nothing reads: without a verification they only say which shapes the table is for.
func (f *optimizeFlags) checkUnread(a *app, m *berth.Model) error {
	open := func(p berth.Port) bool {
		shape, given := a.shapes[p.Name]
		_, known := p.Type.Bind(a.dims).Static()
		return !(given && len(shape) == p.Type.Rank()) && !known
	}
	if !f.noVerify || slices.ContainsFunc(m.Inputs(), open) {
		return nil
	}
	const why = "has no effect with --no-verify: the shapes of all inputs are known"
	switch {
	case a.data != "":
		return usagef("--data %s", why)
	case len(f.inputs) > 0:
		return usagef("--input %s", why)
	}
	return nil
}

// checkSeed refuses --seed where all inputs are given.
func (a *app) checkSeed(m *berth.Model, have map[string]ndarray.Value) error {
	if !a.seedGiven || slices.ContainsFunc(m.Inputs(), func(p berth.Port) bool { return have[p.Name] == nil && !p.Optional }) {
		return nil
	}
	return usagef("--seed has no effect: no input is random, all are given")
}
