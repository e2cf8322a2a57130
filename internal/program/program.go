package program

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// SlotKind is the storage class of a value.
type SlotKind uint8

// The storage classes.
const (
	SlotConst   SlotKind = iota // a constant: mapped file, or filled once
	SlotInput                   // the caller's memory, read in place
	SlotArena                   // an offset in the arena, or one of several in a loop
	SlotPointer                 // bytes of another slot: views, loop parameters, merged results
	SlotDynamic                 // size known only while running
	SlotPlaced                  // the caller's memory, written in place
)

// Slot is where one value lies.
type Slot struct {
	Value  *ssa.Value
	Kind   SlotKind
	Static bool          // type and shape are known
	DType  ndarray.DType // of a static slot
	Shape  []int         // of a static slot
	Bytes  int           // of a static slot
	Const  *ssa.Constant // of a constant
	// Offsets are those of an arena slot: one, or one per copy of the
	// loops around it, at index (iter[Levels[0]] mod Radix[0])*Radix[1]*… + ….
	Offsets []int64
	Align   int   // what Offsets are multiples of: inplace.Align, less for blocks inside a concatenation
	Levels  []int // loop levels of the digits, outermost first
	Radix   []int
}

// offsetsOf are the offsets whose digit d is i, in the present iterations of the loops further out, and in any of those further in.
func (s *Slot) offsetsOf(iter []int, d, i int) []int64 {
	k := 0
	for e, lv := range s.Levels[:d] {
		k = k*s.Radix[e] + iter[lv]%s.Radix[e]
	}
	inner := ndarray.Product(s.Radix[d+1:])
	return s.Offsets[(k*s.Radix[d]+i)*inner:][:inner]
}

// InstrKind says how an instruction runs.
type InstrKind uint8

// The kinds of instructions.
const (
	Exec InstrKind = iota // a kernel
	View                  // a pointer slot is set to an operand's bytes
	Branch
	Iterate
)

// Instr is one instruction.
type Instr struct {
	Kind    InstrKind
	Dynamic bool // some operand or result is in a dynamic slot
	commits bool // it is the first of the run to overwrite a state
	Node    *ssa.Node
	In, Out []int // slots by operand and result position, -1 = absent
	Kernel  ops.Kernel
	Scratch int64       // arena offset of the workspace
	Work    int64       // bytes of workspace
	Windows []int64     // of a View, by result: where in the operand it begins
	Moving  *ops.Moving // of a View whose window depends on data: operand 1 is the index tuple
	Join    []int64     // of a concatenation along the outermost axis, by operand: its offset in the result
	Threads int         // how many its kernel may use
	Bodies  []*Block
	other   int // of a Branch: the body that runs when the condition is false
	Loop    *Loop
	Free    []int // dynamic slots nothing reads after this instruction
	call    int   // index of the Call in a session
	grow    *grow // of a concatenation that appends to a value that grows, else nil
	cache   int   // of a concatenation that appends to a cache: one more than its index; 0 elsewhere
}

// Block is a list of instructions with parameters and results.
type Block struct {
	Graph   *ssa.Graph
	Instrs  []Instr
	Params  []int
	Results []int
}

// Loop is what an Iterate instruction needs beside its body.
type Loop struct {
	Ring               int   // after so many iterations, offsets repeat
	Compact            bool  // carried values are copied, not rotated
	MinTrips, MaxTrips int   // bounds of the number of iterations, as far as they are known
	Level              int   // index of its counter among the session's iteration counters
	Rotate             []int // arena slots of the body whose offset depends on the iteration of this loop
	Sticky             []int // those of them whose offset is picked while running: none that a parameter points to
	Carries            []Carry
	ScanIns            []ScanIn
	ScanOuts           []ScanOut
	Iter               int  // slot of the iteration counter, -1 for Scan
	Trip               int  // slot of the maximal trip count, -1 if none
	Endless            bool // it never ends once its condition is true
	state              int  // index of the loop's state in a session
}

// Carry is one carried value by slots; Init or Out is -1 when absent.
type Carry struct{ Param, Init, Result, Out int }

// ScanIn is a parameter that holds one slice of an operand per iteration, by slots.
type ScanIn struct {
	Param, Of int
	Axis      int
	Reverse   bool
}

// ScanOut is one stacked output by slots; Out is -1 when unused. Made is the slot of the value that the body writes
// into the stacked output, -1 where slices are copied there.
type ScanOut struct {
	Result, Out, Made int
	Axis              int
	Reverse           bool
}

// Program is a compiled graph. It never changes; any number of sessions run it.
type Program struct {
	Graph      *ssa.Graph
	Slots      []Slot
	Main       *Block
	ArenaBytes int64 // size of the arena each session owns
	Levels     int   // loop levels, nested ones counted along each path
	Report     Report
	Timeline   *liveness.Timeline
	Problem    *planner.Problem
	Solution   *planner.Solution

	remote        backend.Remote // nil: kernels compute in the arena itself
	caches        []Cache
	recurrent     []State
	keeps         bool // sessions keep something between runs: caches or states
	products      *products
	kernels       *kernels     // for shapes met while running
	packs         map[any]bool // identities of the packed constants that Report counts
	stickyDigit   map[int]int  // by sticky slot: the digit of its offset that is picked
	calls, states int
	threads       int
	sharesWork    bool // a kernel may use more than one thread
	memory        ndarray.Budget
	hook          *Hook
	callsBack     bool             // a kernel may run code of the caller's, which may call a session
	borrowed      []int            // slots that point to memory of callers, or may
	bounds        map[string]int64 // [Options.Bounds]
	outputs       []string         // names of the results, for errors
	mapped        [][]byte         // elements in mapped files that runs read
}

// Mapped is where in mapped files runs read constants. Do not change it.
func (p *Program) Mapped() [][]byte { return p.mapped }

// Report says what planning did.
type Report struct {
	Planner         string
	ArenaBytes      int64 // as planned, workspaces included
	LowerBound      int64
	Proven          bool
	ParallelSafe    bool  // planned and verified for every schedule
	ScratchBytes    int64 // the largest kernel workspace
	NaiveBytes      int64 // every block its own memory
	Blocks          int   // classes placed
	Folds, Merges   int
	PlanNanos       int64
	PackedBytes     int64            // what kernels made of constants, those that they share once
	Packed          map[string]int64 // the shared part of that, by layout
	Kernels         int              // distinct ones, of nodes with known shapes
	KernelNodes     int              // nodes that run them
	CopiesPerTrip   int64            // bytes copied per loop iteration, largest loop
	Dynamic         int              // values whose size is known only while running
	ReferenceKernel int              // nodes served by reference kernels
}
