package vm

// Poisoned fills the arena with a pattern before every pass.
func Poisoned() Option { return func(c *config) { c.poison = true } }
