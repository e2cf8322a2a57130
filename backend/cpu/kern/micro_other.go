//go:build !amd64

package kern

// micro calls the micro-kernel of height h.
func (t *table) micro(h int, u *ukArgs) { microGeneric(h, u) }

// microInt calls the integer micro-kernel of height h.
func (t *table) microInt(_ intKind, h int, u *ukArgs) { microPairsGeneric(h, u) }
