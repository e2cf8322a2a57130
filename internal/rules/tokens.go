package rules

import "slices"

// Storage tokens. In execution order, a buffer takes a free token whole, or a new one:
//
//	free tokens   10    40   200          wanted 50, range of sizes 3.1 … 800
//	              └ ok ──┴ok  └─ taken    the smallest that is large enough; if none were,
//	                                      the largest of the others, 40, would grow to 50
//
// Tokens lie one behind the other, each as large as it came to be.

// matchRange is how many times larger or smaller than wanted a token may be.
const matchRange = 16

// token is a piece of memory that buffers hold in turn.
type token struct {
	size int64
	busy int // until this node
}

// tokens places buffers and returns their offsets and the sum of all tokens.
func tokens(buffers []buffer, align int64) (offsets []int64, arena int64) {
	order := make([]int, len(buffers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return buffers[a].lo - buffers[b].lo })
	var list []token
	of := make([]int, len(buffers))
	for _, i := range order {
		b := &buffers[i]
		size := alignUp(b.size, align)
		k := freeToken(list, size, b.lo)
		if k < 0 {
			k = len(list)
			list = append(list, token{})
		}
		list[k] = token{max(list[k].size, size), b.hi}
		of[i] = k
	}
	at := make([]int64, len(list))
	for k, t := range list {
		at[k], arena = arena, arena+t.size
	}
	offsets = make([]int64, len(buffers))
	for i := range buffers {
		offsets[i] = at[of[i]]
	}
	return offsets, arena
}

// freeToken is the token to take at a node, or -1.
func freeToken(list []token, size int64, now int) int {
	larger, smaller := -1, -1
	for k, t := range list {
		switch {
		case t.busy > now || t.size > size*matchRange || t.size*matchRange < size:
		case t.size >= size && (larger < 0 || t.size < list[larger].size):
			larger = k
		case t.size < size && (smaller < 0 || t.size > list[smaller].size):
			smaller = k
		}
	}
	if larger >= 0 {
		return larger
	}
	return smaller
}
