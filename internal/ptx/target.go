package ptx

import (
	"slices"
	"strconv"
	"strings"
)

// What a module may ask for, by its .version and .target. A driver refuses a module whose version it does not know, and an instruction that is newer
// than the module's version or that its target does not have; on the host all of them would run. The oldest target here is sm_70.

// The versions and targets that are executed, as numbers: 81 is 8.1, 70 is sm_70.
const (
	oldestTarget  = 70
	newestTarget  = 90
	newestVersion = 81
)

// sharedOf is how many bytes of shared memory a block may have, by target; static variables have at most mostStatic.
var sharedOf = map[int]int64{70: 96 << 10, 72: 96 << 10, 75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10}

const mostStatic = 48 << 10

// need is what forms of an operation need.
type need struct {
	op              string
	forms           []string // modifiers that make the form, one of them; none: every form
	also            string   // a modifier that it must have, too; empty: none
	version, target int
}

// needs are those beyond version 6.3 and sm_70, by the notes of each instruction in the PTX ISA.
var needs = []need{
	{"cp", []string{"async"}, "", 70, 80},
	{"redux", nil, "", 70, 80},
	{"ldmatrix", nil, "", 65, 75},
	{"mma", nil, "", 65, 75},
	{"mma", []string{"m16n8k4", "m16n8k16", "m16n8k32", "bf16", "tf32"}, "", 70, 80},
	{"tanh", nil, "", 70, 75},
	{"tanh", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"ex2", []string{"f16", "f16x2"}, "", 70, 75},
	{"ex2", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"min", []string{"f16", "f16x2", "bf16", "bf16x2", "NaN"}, "", 70, 80},
	{"max", []string{"f16", "f16x2", "bf16", "bf16x2", "NaN"}, "", 70, 80},
	{"abs", []string{"f16", "f16x2"}, "", 65, 53},
	{"abs", []string{"bf16", "bf16x2"}, "", 70, 80},
	{"neg", []string{"bf16", "bf16x2"}, "", 70, 80},
	{"fma", []string{"bf16", "bf16x2", "relu"}, "", 70, 80},
	{"add", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"sub", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"mul", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"set", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"setp", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"cvt", []string{"f16x2", "bf16", "bf16x2", "tf32", "relu"}, "", 70, 80},
	{"cvt", []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "f64"}, "bf16", 78, 90},
	{"atom", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"red", []string{"bf16", "bf16x2"}, "", 78, 90},
	{"bar", []string{"cta"}, "", 78, 70},
	{"barrier", []string{"cta"}, "", 78, 70},
	{"cvta", []string{"param"}, "", 77, 70},
	{"isspacep", []string{"param"}, "", 77, 70},
	{"ld", []string{"L1::evict_last", "L1::evict_first", "L1::no_allocate", "L1::evict_normal", "L1::evict_unchanged"}, "", 74, 70},
	{"st", []string{"L1::evict_last", "L1::evict_first", "L1::no_allocate", "L1::evict_normal", "L1::evict_unchanged"}, "", 74, 70},
	{"ld", []string{"L2::64B", "L2::128B"}, "", 74, 75},
	{"ld", []string{"L2::256B"}, "", 74, 80},
}

// readTarget reads the module's version and target.
func (c *compiler) readTarget() error {
	major, minor, isPointed := strings.Cut(c.module.Version, ".")
	high, err := strconv.Atoi(major)
	low, errLow := strconv.Atoi(minor)
	if !isPointed || err != nil || errLow != nil || low > 9 {
		return syntaxError(1, "the module has the version %q", c.module.Version)
	}
	if c.version = 10*high + low; c.version > newestVersion {
		return syntaxError(1, "the module has the version %s, the newest that is executed here is %d.%d", c.module.Version, newestVersion/10, newestVersion%10)
	}
	for _, name := range c.module.Target {
		number, isArchitecture := strings.CutPrefix(name, "sm_")
		if !isArchitecture {
			continue
		}
		if c.target, err = strconv.Atoi(strings.TrimSuffix(number, "a")); err != nil || c.target < oldestTarget || c.target > newestTarget {
			return syntaxError(1, "the module has the target %s, those from sm_%d to sm_%d are executed here", name, oldestTarget, newestTarget)
		}
	}
	if c.target == 0 {
		return syntaxError(1, "the module has no target")
	}
	return nil
}

// mostShared is how many bytes of shared memory a block may have.
func (c *compiler) mostShared() int64 {
	if n := sharedOf[c.target]; n > 0 {
		return n
	}
	return mostStatic
}

// isThere fails for an instruction that the module's version or target does not have.
func (o *operation) isThere() {
	for _, n := range needs {
		if n.op != o.Op[0] || n.also != "" && !slices.Contains(o.Op, n.also) {
			continue
		}
		hasForm := n.forms == nil || slices.ContainsFunc(n.forms, func(m string) bool { return slices.Contains(o.Op[1:], m) })
		if hasForm && (o.version < n.version || o.target < n.target) {
			o.fail("version %d.%d and the target sm_%d are needed, the module has %s and sm_%d", n.version/10, n.version%10, n.target, o.module.Version, o.target)
		}
	}
}
