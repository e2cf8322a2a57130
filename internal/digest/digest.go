// Package digest identifies contents within a process: by 128 bits of hashes whose keys are drawn when it starts, so that no file can be
// made to have the digest of another.
package digest

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// Sum is the digest of a content.
type Sum [2]uint64

var seeds = [len(Sum{})]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// Of is the digest of bytes.
func Of(data []byte) (sum Sum) {
	for i, seed := range seeds {
		sum[i] = inPieces(seed, data)
	}
	return sum
}

// OfStrings is the digest of strings and how long each of them is. They are hashed where they lie: they may be most of the memory that there is.
func OfStrings(list []string) (sum Sum) {
	for i, seed := range seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, s := range list {
			maphash.WriteComparable(&h, len(s))
			h.WriteString(s)
		}
		sum[i] = h.Sum64()
	}
	return sum
}

// inPieces hashes data piece by piece: the garbage collector can not stop a goroutine within one.
func inPieces(seed maphash.Seed, data []byte) uint64 {
	const piece = 256 << 10
	if len(data) <= piece {
		return maphash.Bytes(seed, data)
	}
	var sums []byte
	for p := range slices.Chunk(data, piece) {
		sums = binary.LittleEndian.AppendUint64(sums, maphash.Bytes(seed, p))
	}
	return maphash.Bytes(seed, sums)
}
