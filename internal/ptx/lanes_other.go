//go:build !amd64

package ptx

// isWide says that operations on all lanes are instructions of the host's processor.
var isWide = false

func fmaWide(_, _, _, _ *vec) {}

func addWide(_, _, _ *vec) {}

func subWide(_, _, _ *vec) {}

func mulWide(_, _, _ *vec) {}

func blendWide(_, _ *vec, _ uint32) {}

func aboveWide(_, _ *vec, _, _ uint64) uint32 { return 0 }

func sameWide(_, _ *vec) uint32 { return 0 }
