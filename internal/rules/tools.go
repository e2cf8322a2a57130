package rules

import "github.com/berth-onnx/berth/ssa"

// Tool is the rule of one tool.
type Tool struct {
	Name   string // "rule:" and the tool
	Doc    string // the rule in a sentence
	Source string // where it is published

	planner string // which places the buffers; "" for tokens (tokens.go)
	align   int64  // sizes are rounded up to it
	over    overwrite
	ops     []string // operators whose result may go over an operand; nil: all elementwise ones
	results bool     // a result of the graph may go over an operand, too
	views   bool     // reshapes own no memory
	reader  bool     // a view is like any other reader: an operand with two is not viewed
	reuse   bool     // a free buffer of the very size is taken over whole
	bodies  bodies
	blind   bool // a captured value does not count as read by the node that captures it
}

// overwrite says which operands a result may be written over.
type overwrite int

const (
	never      overwrite = iota
	soleReader           // the operand is read by this node alone
	lastReader           // the operand is read by no node after this one
)

// bodies says what a node holds for its bodies.
type bodies int

const (
	oneAtATime bodies = iota // the largest of them, while it runs
	together                 // all of them, while it runs
	separate                 // all of them, all the time, in memory of their own
)

// onnxsimInPlace are the operators that onnxsim's list names, as far as they exist as
// operators on tensors.
var onnxsimInPlace = []string{
	"Relu", "LeakyRelu", "PRelu", "Sigmoid", "HardSigmoid", "Tanh", "Elu", "Selu", "Celu", "Softplus", "Softsign", "Neg", "Abs",
	"Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "Erf", "Identity", "Clip", "Not",
	"Add", "Sub", "Mul", "Div", "Max", "Min", "And", "Or", "Xor", "Mod",
}

// Tools lists the rules.
func Tools() []Tool {
	return []Tool{
		{
			Name: "rule:onnxruntime", planner: "best-fit", align: 256, over: lastReader, views: true, reuse: true, bodies: oneAtATime,
			Doc: "ONNX Runtime: results of elementwise operators over operands with no later reader, reshapes as views, " +
				"freed buffers of the very size taken over whole; the rest into the tightest gap in execution order, blocks of 256 bytes; bodies one at a time",
			Source: "onnxruntime/core/framework: allocation_planner.cc (ComputeReusePlan), mem_pattern_planner.h (TraceAllocation)",
		},
		{
			Name: "rule:tflite", planner: "greedy-size", align: 64, over: soleReader, views: true, bodies: separate,
			Doc: "TensorFlow Lite: results of elementwise operators over an operand that nothing else reads, reshapes as views, " +
				"no result of the graph over anything; largest first into the tightest gap, aligned to 64 bytes; every body in an arena of its own",
			Source: "tensorflow/lite/arena_planner.cc (IdentifyInPlaceTensors, CalculateAllocations)",
		},
		{
			Name: "rule:tflite-2020", planner: "greedy-size", align: 64, bodies: separate,
			Doc:    "TensorFlow Lite as first published: nothing in place, nothing viewed; largest first into the tightest gap, aligned to 64 bytes",
			Source: "Y. Pisarchyk, J. Lee: Efficient Memory Management for Deep Neural Net Inference, 2020 (greedy by size for offset calculation)",
		},
		{
			Name: "rule:tvm", align: 64, views: true, bodies: oneAtATime,
			Doc: "TVM: storage tokens handed on in execution order, the smallest free one of up to 16 times the size, " +
				"or else the largest smaller one, which grows; reshapes as views, nothing in place",
			Source: "apache/tvm: src/relax/transform/static_plan_block_memory.cc, before it src/relay/backend/graph_plan_memory.cc",
		},
		{
			Name: "rule:tvm-usmp", planner: "hill-climb", align: 64, bodies: oneAtATime,
			Doc:    "TVM's unified static memory planner: hill climbing over orders of allocation, first fit, nothing in place (berth's climber, which accepts by a threshold)",
			Source: "apache/tvm-rfcs 0009, src/tir/usmp/algo/hill_climb.cc",
		},
		{
			Name: "rule:onnxsim", planner: "greedy-size", align: 1, over: soleReader, ops: onnxsimInPlace, results: true, views: true, reader: true,
			bodies: together, blind: true,
			Doc: "onnxsim: listed unary and binary operators over an operand that nothing else reads, reshapes as views, " +
				"largest first into the tightest gap, no alignment; a node holds all its bodies at once; values captured by a body do not count as read by it, " +
				"so that plans can be unsound",
			Source: "onnxsim/memory_planning.cpp, its documentation of plan_activation_memory; captures as release 0.8.1 treats them",
		},
	}
}

// bytesOf is the size of a value's contents; 0 for what is not counted: nothing,
// constants, and what has no size before a run.
func bytesOf(v *ssa.Value) int64 {
	if v == nil || v.Const != nil {
		return 0
	}
	n, ok := v.Type.ByteSize()
	if !ok {
		return 0
	}
	return int64(n)
}

// InPlace reports whether the tool writes results over operands at all.
func (t *Tool) InPlace() bool { return t.over != never }
