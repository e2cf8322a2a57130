package train

// Poison fills the memory of steps with a pattern before each.
func (t *Trainer) Poison() { t.session.Poison(true) }
