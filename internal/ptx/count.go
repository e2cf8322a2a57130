package ptx

// Class is what kind of work an instruction is.
type Class uint8

// The classes of instructions.
const (
	ControlClass Class = iota // branches, calls, barriers
	MoveClass
	ConvertClass
	IntegerClass
	Float32Class
	Float64Class
	HalfClass
	SpecialClass // approximate functions
	TensorClass  // mma
	MemoryClass
	CollectiveClass // shuffles, votes
	classes
)

var classNames = [classes]string{"control", "move", "convert", "integer", "float32", "float64", "half", "special", "tensor", "memory", "collective"}

// String names the class.
func (c Class) String() string { return classNames[c] }

// Work counts executions of instructions.
type Work struct {
	Warps int64 // by warps
	Lanes int64 // by lanes
}

// Counts is what a launch did: for a roofline, a statement of what a GPU would have to do.
type Counts struct {
	Classes       [classes]Work
	Flops         int64 // floating-point operations, a fused multiply-add counting two
	GlobalLoaded  int64 // bytes
	GlobalStored  int64
	GlobalSectors int64 // pieces of 32 bytes, counted anew where neighbouring lanes touch different ones
	SharedBytes   int64 // loaded and stored
	Divergent     int64 // branches at which a warp's lanes went different ways
}

// Instructions sums over all classes.
func (c *Counts) Instructions() (w Work) {
	for _, n := range c.Classes {
		w.Warps += n.Warps
		w.Lanes += n.Lanes
	}
	return w
}

// Add adds the counts of another launch.
func (c *Counts) Add(o *Counts) {
	for i := range c.Classes {
		c.Classes[i].Warps += o.Classes[i].Warps
		c.Classes[i].Lanes += o.Classes[i].Lanes
	}
	c.Flops += o.Flops
	c.GlobalLoaded += o.GlobalLoaded
	c.GlobalStored += o.GlobalStored
	c.GlobalSectors += o.GlobalSectors
	c.SharedBytes += o.SharedBytes
	c.Divergent += o.Divergent
}
