package ops

// Traits are the properties of an operator that rewrites rely on. They hold for the
// operator, whatever the node's operands are. The zero value of every trait means that
// it is not decided yet; TestTraits demands a decision of every operator.
//
// Operators without a property of interest are [GeneralTraits]; families share a value, and
// [Traits.But] changes single traits of it:
//
//	Facts: Facts{Traits: ElementwiseTraits.But(Commutative, UnitOne), …}
type Traits struct {
	Access      Access
	Order       Order
	Composition Composition
	Unit        Unit
	ZeroSign    ZeroSign
	Randomness  Randomness
	Failure     Failure
	Extent      Extent
	Folding     Folding
	Control     Control
}

// Trait is a value of one of the traits.
type Trait interface{ set(t *Traits) }

// Access says which elements of the operands a result element depends on.
type Access uint8

// The kinds of access, from the most regular on.
const (
	_                   Access = iota
	Elementwise                // those at its (broadcast) position; commutes with Transpose
	ElementwiseInLayout        // those at its (broadcast) position; dimensions have roles, so it does not commute with Transpose
	Reshapes                   // one element of operand 0, the row-major order stays
	Moves                      // one element of operand 0, in another place: pure data movement
	Computes                   // any
	Measures                   // none: only shapes are read
)

// IsElementwise reports that a result element depends only on the operands'
// elements at its (broadcast) position.
func (t Traits) IsElementwise() bool {
	return t.Access == Elementwise || t.Access == ElementwiseInLayout
}

// IsMovement reports that every result element is an element of operand 0.
func (t Traits) IsMovement() bool { return t.Access == Reshapes || t.Access == Moves }

// Order says whether the first two operands may change places.
type Order uint8

// Ordered operands have roles; Commutative ones do not.
const (
	_ Order = iota
	Ordered
	Commutative
)

// Composition says what an operator applied to its own result gives; for operators
// of several operands, what equal operands give.
type Composition uint8

// The kinds of composition.
const (
	_          Composition = iota
	Composes               // something else
	Idempotent             // f(f(x)) = f(x); f(x, x) = x
	Involutive             // f(f(x)) = x
)

// Unit is the constant right operand that gives operand 0 back, bit for bit; of
// commutative operators it is the left one too.
type Unit uint8

// The units. The unit of floating-point addition is -0.0: 0.0 turns -0.0 into 0.0.
const (
	_ Unit = iota
	UnitNone
	UnitNegativeZero
	UnitZero
	UnitOne
)

// ZeroSign says what an operator makes of the sign of a floating-point zero.
type ZeroSign uint8

// The ways of treating the sign of zero.
const (
	_               ZeroSign = iota
	ZeroSignRead             // -0.0 and 0.0 may give different results
	ZeroSignPassed           // the results differ in the signs of zeros only
	ZeroSignIgnored          // the results are the same
	ZeroSignCleared          // the results are the same, and none is -0.0
)

// Randomness says whether two runs on the same operands differ. Such nodes are never
// folded, merged or moved.
type Randomness uint8

// The kinds of randomness.
const (
	_              Randomness = iota
	Deterministic             // no
	RandomTraining            // when the node runs in training mode
	Random                    // yes
)

// Failure says which operands of accepted, static types an evaluation may refuse.
type Failure uint8

// The kinds of failure.
const (
	_             Failure = iota
	FailsNever            // none
	FailsIntegers         // some integers (division by zero), no floats
	FailsByValue          // some
)

// Extent says what the shapes of the results follow from.
type Extent uint8

// The kinds of extent.
const (
	_             Extent = iota
	ExtentKnown          // types, attributes and the operands that shape inference reads
	ExtentBounded        // elements; at most a small multiple of the operands' sizes
	ExtentOpen           // elements; without such a bound
)

// Folding says whether a node with constant operands is worth computing ahead of time.
type Folding uint8

// The kinds of folding.
const (
	_           Folding = iota
	Folds               // yes
	KeepsPacked         // no: the operands are the compact form, as quantized weights are
)

// Control says whether bodies are laid out, planned and run as parts of the graph that the node stands in. Bodies of other
// operators are theirs alone.
type Control uint8

// The kinds of control flow.
const (
	_        Control = iota
	Straight         // no
	Branches         // one of two bodies runs, as [IsControl] says
	Iterates         // the body runs as often as a condition says; see [LoopOf]
	Scans            // the body runs once for each slice of operands; see [ScanOf]
)

func (a Access) set(t *Traits) { t.Access = a }

func (o Order) set(t *Traits) { t.Order = o }

func (c Composition) set(t *Traits) { t.Composition = c }

func (u Unit) set(t *Traits) { t.Unit = u }

func (z ZeroSign) set(t *Traits) { t.ZeroSign = z }

func (r Randomness) set(t *Traits) { t.Randomness = r }

func (f Failure) set(t *Traits) { t.Failure = f }

func (e Extent) set(t *Traits) { t.Extent = e }

func (f Folding) set(t *Traits) { t.Folding = f }

func (c Control) set(t *Traits) { t.Control = c }

// But returns the traits with some of them changed.
//
//go:noinline
func (t Traits) But(changes ...Trait) Traits {
	for _, c := range changes {
		c.set(&t)
	}
	return t
}

// Traits that families share.
var (
	// GeneralTraits assumes nothing but that equal operands give equal results.
	GeneralTraits = Traits{Computes, Ordered, Composes, UnitNone, ZeroSignRead, Deterministic, FailsByValue, ExtentKnown, Folds, Straight}
	// ElementwiseTraits operators accept all operands that broadcast.
	ElementwiseTraits = GeneralTraits.But(Elementwise, FailsNever)
	// MovementTraits copies elements of operand 0 to places that other operands may give.
	MovementTraits = GeneralTraits.But(Moves, ZeroSignPassed)
	// ReshapingTraits keeps elements and order of operand 0.
	ReshapingTraits = GeneralTraits.But(Reshapes, ZeroSignPassed, FailsNever)
	// PassingTraits operators sum, compare or select, so a zero's sign reaches only the signs of zeros.
	PassingTraits = GeneralTraits.But(ZeroSignPassed)
	// IgnoringTraits operators sum up from 0.0, or read no floats, so that a zero's sign is lost.
	IgnoringTraits = GeneralTraits.But(ZeroSignIgnored)
	// RandomTraits operators draw numbers.
	RandomTraits = GeneralTraits.But(Random)
)
