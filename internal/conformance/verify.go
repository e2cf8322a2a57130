package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// Runner runs a prepared model on named inputs and returns its outputs in the
// model's order.
type Runner func(ctx context.Context, inputs []Named) ([]Named, error)

// Prepare makes a case's model ready to run. done, if not nil, releases it.
type Prepare func(ctx context.Context, c *Case) (run Runner, done func() error, err error)

// Failure is a difference or an error in one data set of a case.
type Failure struct {
	Case   string
	Set    string
	Output string // output that differs; "" if the model could not be run
	Err    error  // *[Diff] for a difference
}

// Error prints case, data set, output and cause.
func (f *Failure) Error() string {
	s := f.Case
	if f.Set != "" {
		s += "/" + f.Set
	}
	if f.Output != "" {
		s += fmt.Sprintf(": output %q", f.Output)
	}
	return s + ": " + f.Err.Error()
}

// DamagedModel reports that the file of the model, not one of a data set, is no ONNX protobuf.
func (f *Failure) DamagedModel() bool {
	var syntax *onnxwire.SyntaxError
	return f.Set == "" && errors.As(f.Err, &syntax)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Verify runs every data set of a case and compares the outputs that were
// recorded. def is the tolerance of cases without one of their own. The error
// is a [*Failure], the first one.
func Verify(ctx context.Context, c *Case, prepare Prepare, def Tolerance) (err error) {
	at := func(set, output string, err error) error { return &Failure{c.Name, set, output, err} }
	tol, err := c.Tolerance(def)
	if err != nil {
		return at("", "", err)
	}
	sig, err := c.Signature(ctx)
	if err != nil {
		return at("", "", err)
	}
	sets, err := c.SetNames()
	if err != nil {
		return at("", "", err)
	}
	run, done, err := prepare(ctx, c)
	if err != nil {
		return at("", "", err)
	}
	if done != nil {
		defer func() {
			if e := done(); e != nil && err == nil {
				err = at("", "", e)
			}
		}()
	}
	for _, name := range sets {
		set, err := c.LoadSet(ctx, sig, name)
		if err != nil {
			return at(name, "", err)
		}
		got, err := run(ctx, set.Inputs)
		if err != nil {
			return at(name, "", err)
		}
		if output, err := compareSet(got, set, tol, sig.Random); err != nil {
			return at(name, output, err)
		}
	}
	return nil
}

// Unrecorded says which outputs of a data set are not recorded.
type Unrecorded struct {
	Set     string
	Outputs []string
}

// Unrecorded lists the data sets that lack outputs. compared says that a set has one: else [Verify] only runs the model.
func (c *Case) Unrecorded(ctx context.Context) (missing []Unrecorded, compared bool, err error) {
	sig, err := c.Signature(ctx)
	if err != nil {
		return nil, false, err
	}
	sets, err := c.SetNames()
	if err != nil {
		return nil, false, err
	}
	for _, name := range sets {
		files, err := c.outputFiles(name, sig)
		if err != nil {
			return nil, false, err
		}
		var lacks []string
		for i, o := range sig.Outputs {
			if files[i] == "" {
				lacks = append(lacks, o.Name)
			}
		}
		if compared = compared || len(lacks) < len(sig.Outputs); len(lacks) > 0 {
			missing = append(missing, Unrecorded{name, lacks})
		}
	}
	return missing, compared, nil
}

// outputFiles finds the recorded outputs of a data set by number.
func (c *Case) outputFiles(set string, sig *Signature) (map[int]string, error) {
	if c.light {
		return c.lightOutputs(sig), nil
	}
	files, err := c.setFiles(set)
	return files["output"], err
}

// compareSet returns the first output that differs; of random ones only types
// and shapes count.
func compareSet(got []Named, set *Set, tol Tolerance, random bool) (output string, err error) {
	if len(got) != len(set.Outputs) {
		return "", fmt.Errorf("the model gives %d outputs, want %d", len(got), len(set.Outputs))
	}
	for i, want := range set.Outputs {
		if want.Value == nil {
			continue
		}
		if random {
			if g, w := kindOf(got[i].Value), kindOf(want.Value); g != w {
				return want.Name, &Diff{Verb: "is", Got: g, Want: w}
			}
			continue
		}
		if d := Compare(got[i].Value, want.Value, tol); d != nil {
			return want.Name, d
		}
	}
	return "", nil
}
