// Package digest identifies contents within a process: by 128 bits of hashes whose keys are drawn when it starts, so that no file can be
// made to have the digest of another.
package digest

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// Sum is the digest of a content.
type Sum [2]uint64

var seeds = [len(Sum{})]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// Of is the digest of bytes, unless a context ends first, whose error it then returns; nil never does.
func Of(ctx context.Context, data []byte) (sum Sum, err error) {
	for i, seed := range seeds {
		if sum[i], err = inPieces(ctx, seed, data); err != nil {
			return Sum{}, err
		}
	}
	return sum, nil
}

// ended is the error of a context that has ended.
func ended(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}

// OfStrings is the digest of strings and how long each of them is. They are hashed where they lie: they may be most of the memory that there is.
func OfStrings(ctx context.Context, list []string) (sum Sum, err error) {
	const piece = 4096
	for i, seed := range seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		for k, s := range list {
			if k%piece == piece-1 && ended(ctx) != nil {
				return Sum{}, ctx.Err()
			}
			maphash.WriteComparable(&h, len(s))
			h.WriteString(s)
		}
		sum[i] = h.Sum64()
	}
	return sum, nil
}

// inPieces hashes data piece by piece: the garbage collector can not stop a goroutine within one.
func inPieces(ctx context.Context, seed maphash.Seed, data []byte) (uint64, error) {
	const piece = 256 << 10
	if len(data) <= piece {
		return maphash.Bytes(seed, data), nil
	}
	var sums []byte
	for p := range slices.Chunk(data, piece) {
		if ended(ctx) != nil {
			return 0, ctx.Err()
		}
		sums = binary.LittleEndian.AppendUint64(sums, maphash.Bytes(seed, p))
	}
	return maphash.Bytes(seed, sums), nil
}
