package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
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
	Memory  ndarray.Budget  // asked for results and temporaries whose size was not known before the run
	// Body runs body i of the node on the given arguments (captures included). Only
	// the interpreter sets it: programs have bodies of their own.
	Body func(i int, args []ndarray.Value) ([]ndarray.Value, error)
}

// Kernel computes a node. Kernels are safe for concurrent use with different Calls.
type Kernel interface{ Run(c *Call) error }

// KernelFunc lets a function be a [Kernel].
type KernelFunc func(c *Call) error

// Run calls f.
func (f KernelFunc) Run(c *Call) (err error) {
	defer rescue.Into(&err)
	return f(c)
}

// EvalPrepared is the reference kernel of an operator that is prepared.
func EvalPrepared(prepare func(n *ssa.Node) (Kernel, error)) func(c *Call) error {
	return func(c *Call) error {
		k, err := prepare(c.Node)
		if err != nil {
			return err
		}
		return k.Run(c)
	}
}

// Done is the channel that is closed when the call is to end early; nil if it never is.
func (c *Call) Done() <-chan struct{} {
	if c.Ctx == nil {
		return nil
	}
	return c.Ctx.Done()
}

// Ended reports whether the call is to end early: whoever runs it drops the results then.
// Kernels ask between pieces of work of at most some milliseconds, and pages of mapped weights that do not fit into memory are dropped on
// that occasion.
func (c *Call) Ended() bool {
	sysmem.LookAtPages()
	return c != nil && c.Ctx != nil && c.Ctx.Err() != nil
}

// Array returns tensor operand i, nil if it is absent or no tensor. It stands once in a program: at each of its calls it takes 24 kB of the
// smallest one.
//
//go:noinline
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
func (c *Call) Output(i int, dt ndarray.DType, shape ...int) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	if err := c.grow(i); err != nil {
		return nil, err
	}
	if a, ok := c.Out[i].(*ndarray.Array); ok && a != nil {
		if a.DType != dt || !slices.Equal(a.Shape, shape) {
			return nil, fmt.Errorf("result %d is %s%v, planned as %s", i, dt, shape, a)
		}
		return a, nil
	}
	a, err := c.newArray(dt, shape)
	if err != nil {
		return nil, fmt.Errorf("result %d of type %s%v: %w", i, dt, shape, err)
	}
	c.Out[i] = a
	return a, nil
}

// newArray is memory of any contents within the budget.
func (c *Call) newArray(dt ndarray.DType, shape []int) (*ndarray.Array, error) {
	n, err := ndarray.ByteSize(dt, shape)
	if err != nil || dt == ndarray.String || n < 1<<20 {
		return ndarray.NewContext(c.Ctx, c.Memory, dt, shape...)
	}
	if err := c.Memory.AskContext(c.Ctx, "an array", int64(n)); err != nil {
		return nil, err
	}
	return &ndarray.Array{DType: dt, Shape: slices.Clone(shape), Data: sysmem.Uncleared(n)}, nil
}

// evalForeign runs an operator that berth did not write: it gets headers of its own, and its results are checked and brought to
// where they are planned.
func evalForeign(o *Op, c *Call) error {
	own := *c
	own.In, own.Out = headers(c.In), headers(c.Out)
	if c.OverlaysAny() {
		clear(own.Out)
	}
	var err error
	if o.call(func() { err = o.Eval(&own) }); err != nil {
		return err
	}
	for i, v := range c.Node.Out {
		if v == nil {
			continue
		}
		var made ndarray.Value
		if i < len(own.Out) {
			made = own.Out[i]
		}
		if err := c.accept(i, v.Type, made); err != nil {
			return err
		}
	}
	return nil
}

// headers are values with copies of the headers of arrays.
func headers(of []ndarray.Value) []ndarray.Value {
	out := slices.Clone(of)
	for i, v := range out {
		if a, ok := v.(*ndarray.Array); ok && a != nil {
			h := *a
			h.Shape = slices.Clone(a.Shape)
			out[i] = &h
		}
	}
	return out
}

// accept stores a value as result i if it is of its type, in the planned place if there is one.
func (c *Call) accept(i int, t ssa.Type, v ndarray.Value) error {
	err := t.CheckValue(c.Ctx, v)
	if bad := (*ndarray.ValueError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("the operator made %s as result %d, its type is %s", bad.Got, i, t)
	} else if err != nil {
		return err
	}
	a, isArray := v.(*ndarray.Array)
	planned, _ := c.Out[i].(*ndarray.Array)
	switch {
	case planned != nil && (!isArray || a.DType != planned.DType || !slices.Equal(a.Shape, planned.Shape)):
		return fmt.Errorf("the operator made %s as result %d, planned as %s", ndarray.Describe(v), i, planned)
	case planned != nil && (len(a.Data) == 0 || &a.Data[0] != &planned.Data[0]):
		return c.SetOutput(i, a)
	case planned == nil && isArray && !a.Aligned():
		v, err = ndarray.CloneIn(c.Ctx, c.Memory, a)
		fallthrough
	case planned == nil:
		c.Out[i] = v
	}
	return err
}

// maxResults is more than any operator has.
const maxResults = 1 << 20

// grow makes room for result i.
func (c *Call) grow(i int) error {
	if i < 0 || i >= maxResults {
		return fmt.Errorf("there is no result %d", i)
	}
	for len(c.Out) <= i {
		c.Out = append(c.Out, nil)
	}
	return nil
}

// SetOutput stores a result that is no freshly computed tensor: a sequence, an
// optional, or an existing tensor passed on. A planned tensor place is filled by
// copying.
func (c *Call) SetOutput(i int, v ndarray.Value) (err error) {
	defer rescue.Into(&err)
	if err := c.grow(i); err != nil {
		return err
	}
	if a, ok := v.(*ndarray.Array); ok {
		if dst, planned := c.Out[i].(*ndarray.Array); planned && dst != nil {
			if dst.DType != a.DType || !slices.Equal(dst.Shape, a.Shape) {
				return fmt.Errorf("result %d is %s, planned as %s", i, a, dst)
			}
			copy(dst.Str, a.Str)
			return sysmem.Copy(c.Ctx, dst.Data, a.Data)
		}
	}
	c.Out[i] = v
	return nil
}
