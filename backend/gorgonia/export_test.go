package gorgonia

import "gorgonia.org/tensor"

// Run calls the stock function.
func (k *Kernel) Run(to *tensor.Dense, in []*tensor.Dense) error { return k.run(to, in) }

// Arity is how many operands the function has.
func (k *Kernel) Arity() int { return k.arity }
