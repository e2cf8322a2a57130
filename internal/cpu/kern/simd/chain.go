package simd

// ChainStep is a step of a chain; the generated code knows the fields by their offsets: do not reorder. A run leaves addresses in Op: steps
// are made anew for each.
type ChainStep struct {
	Op    ChainOp
	Base  uintptr // address of memory, of a number, of both bounds of ChainClip; whoever runs the chain keeps what is there
	Moves ChainMoves
}

// ChainMoves says whether the memory of a step moves on with each round.
type ChainMoves int

// The ways of memory.
const (
	Stays ChainMoves = 0  // a round's vectors, or a number
	Moves ChainMoves = -1 // an operand or a result
)

// ChainOp is what a step does with the accumulator, the vectors of a round.
type ChainOp int

// The operations of steps, in the order of the generated fragments.
const (
	ChainLoad        ChainOp = iota // memory
	ChainStore                      // to memory
	ChainAhead                      // memory will be read
	ChainStream                     // to aligned memory, past the caches
	ChainAdd                        // accumulator + memory
	ChainSub                        // accumulator − memory
	ChainSubOf                      // memory − accumulator
	ChainMul                        // accumulator · memory
	ChainDiv                        // accumulator / memory
	ChainDivOf                      // memory / accumulator
	ChainMax                        // as Max(accumulator, memory)
	ChainMaxOf                      // as Max(memory, accumulator)
	ChainMin                        // as Min(accumulator, memory)
	ChainMinOf                      // as Min(memory, accumulator)
	ChainAddNumber                  // accumulator + number
	ChainSubNumber                  // accumulator − number
	ChainSubOfNumber                // number − accumulator
	ChainMulNumber                  // accumulator · number
	ChainMaxNumber                  // either Max, of a number that is neither NaN nor zero
	ChainMinNumber                  // either Min, likewise
	ChainNeg
	ChainAbs
	ChainSqrt
	ChainRecip
	ChainSquare
	ChainToNearest
	ChainFloor
	ChainCeil
	ChainRelu
	ChainClip
)

// Vectors of the accumulator: for short lines, for lines beyond the caches, and for long ones within them where there are as many registers.
const (
	shortVectors, farVectors, longVectors = 8, 12, 16

	longLine = 1024 // elements of a line whose end, beyond whole rounds, takes little of the time
)

// ChainElems is how many elements a round of a chain computes over lines of so many elements, 0 at a level without chains. Lines may be
// far, larger than caches.
func (t *Table) ChainElems(line int, isFar bool) int {
	if t.lanes == 1 {
		return 0
	}
	long := longVectors * t.lanes
	if t.lanes < 16 || isFar {
		long = farVectors * t.lanes
	}
	if line%long == 0 || line >= longLine {
		return long
	}
	return shortVectors * t.lanes
}
