// Package train fits the weights of a model: [New] makes of a [berth.Model], a [Loss] and an [Optimizer] one
// program that computes forward pass, derivatives and the new weights, optimized and planned as a whole:
//
//	inputs ─┐                                           ┌─▶ loss
//	targets ┼─▶ forward ─▶ loss ─▶ backward ─▶ update ──┤
//	weights ┴───────────────────────────────────────────┴─▶ weights of the next step
//
// Weights and the optimizer's moments are states that the program's session keeps ([berth.WithState]) in one place each: a
// [Trainer.Step] overwrites them, copies none and allocates nothing. A step that is cancelled before that leaves them as they were.
// [Trainer.Model] gives the model back with the weights it has learned, batch normalization in the form of inference.
//
// Derivatives are those of package gradient, with its errors.
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. Losses, methods of [Builder] and schedules take what is
// not nil; they panic otherwise, which [New] and [Trainer.Step] turn into an error.
package train
