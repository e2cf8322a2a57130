package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Call is one execution of one node: its operands, its results, and what a
// kernel may ask of its surroundings. A Call is reused from run to run; kernels
// must not keep it.
type Call struct {
	Ctx     context.Context
	Node    *ssa.Node
	In      []ndarray.Value // nil for an absent operand
	Out     []ndarray.Value // set by the caller where the place is planned, else by the kernel
	Scratch []byte          // workspace of the size the kernel asked for when prepared
	Threads int             // how many threads the kernel may use, at least 1
	Seed    int64           // for random operators without a seed of their own
	// MaxMemory is the limit for results whose size was not known before the run,
	// as [Room] takes it; 0 is the default one.
	MaxMemory int64
	// Body runs body i of the node on the given arguments (captures included). Only
	// the interpreter sets it: programs have bodies of their own.
	Body func(i int, args []ndarray.Value) ([]ndarray.Value, error)
}

// Kernel computes a node. Kernels are safe for concurrent use with different Calls.
type Kernel interface{ Run(c *Call) error }

// KernelFunc lets a function be a [Kernel].
type KernelFunc func(c *Call) error

// Run calls f.
func (f KernelFunc) Run(c *Call) error { return f(c) }

// evalPrepared is the reference kernel of an operator that is prepared.
func evalPrepared(prepare func(n *ssa.Node) (Kernel, error)) func(c *Call) error {
	return func(c *Call) error {
		k, err := prepare(c.Node)
		if err != nil {
			return err
		}
		return k.Run(c)
	}
}

// Array returns tensor operand i, nil if it is absent or no tensor.
func (c *Call) Array(i int) *ndarray.Array {
	if i >= len(c.In) || c.In[i] == nil {
		return nil
	}
	a, _ := c.In[i].(*ndarray.Array)
	return a
}

// Has reports whether operand i is present.
func (c *Call) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// Wants reports whether result i is used by anyone.
func (c *Call) Wants(i int) bool { return i < len(c.Node.Out) && c.Node.Out[i] != nil }

// Output returns the memory of tensor result i: the planned place if there is
// one (its type must then agree), else new memory. The contents are undefined:
// kernels write every element. An unused result gets memory of its own.
func (c *Call) Output(i int, dt ndarray.DType, shape ...int) (*ndarray.Array, error) {
	for len(c.Out) <= i {
		c.Out = append(c.Out, nil)
	}
	if a, ok := c.Out[i].(*ndarray.Array); ok && a != nil {
		if a.DType != dt || !slices.Equal(a.Shape, shape) {
			return nil, fmt.Errorf("result %d is %s%v, planned as %s", i, dt, shape, a)
		}
		return a, nil
	}
	n, err := ndarray.ByteSize(dt, shape)
	if err != nil {
		return nil, fmt.Errorf("result %d of type %s%v: %w", i, dt, shape, err)
	}
	if err := Room("a result", int64(n), c.MaxMemory); err != nil {
		return nil, fmt.Errorf("result %d of type %s%v: %w", i, dt, shape, err)
	}
	a, err := ndarray.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	c.Out[i] = a
	return a, nil
}

// SetOutput stores a result that is no freshly computed tensor: a sequence, an
// optional, or an existing tensor passed on. A planned tensor place is filled by
// copying.
func (c *Call) SetOutput(i int, v ndarray.Value) error {
	for len(c.Out) <= i {
		c.Out = append(c.Out, nil)
	}
	if a, ok := v.(*ndarray.Array); ok {
		if dst, planned := c.Out[i].(*ndarray.Array); planned && dst != nil {
			if dst.DType != a.DType || !slices.Equal(dst.Shape, a.Shape) {
				return fmt.Errorf("result %d is %s, planned as %s", i, a, dst)
			}
			copy(dst.Data, a.Data)
			copy(dst.Str, a.Str)
			return nil
		}
	}
	c.Out[i] = v
	return nil
}
