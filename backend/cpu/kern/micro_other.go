//go:build !amd64

package kern

// micro calls the micro-kernel of height h.
func (t *table) micro(h int, u *ukArgs) { microGeneric(h, u) }
