package ops

import (
	"maps"
	"slices"
)

// sortedKeys lists a map's keys in order, so that messages do not depend on it.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
