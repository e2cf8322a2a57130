package program

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestCopiesKeepTheBudget: copies of small constants in mapped files are asked of the budget together. Where it has no room for them they
// all stay in the file; those that another program has copied take none.
func TestCopiesKeepTheBudget(t *testing.T) {
	const count, size = 64, 1 << 10
	path := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1, 2, 3, 4}, count*size/4), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data, err := sysmem.MapFile(f, count*size)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system does not map files")
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, sysmem.UnmapFile(data)) }()
	inFile := func(first int) (list []*ssa.Constant) {
		for i := range count {
			list = append(list, ssa.NewConstant(&ndarray.Array{DType: ndarray.Uint8, Shape: []int{1 + first + i}, Data: data[:1+first+i]}))
		}
		return list
	}
	mapped := func(list []*ssa.Constant) (n int) {
		for _, c := range list {
			if sysmem.IsMapped(c.Packed()) {
				n++
			}
		}
		return n
	}
	table := NewConstants()
	copied := inFile(0)
	table.inMemory(sysmem.Budget(1).In(t.Context()), copied)
	assert.Equal(t, count, mapped(copied), "beyond the budget")
	table.inMemory(t.Context(), copied)
	assert.Zero(t, mapped(copied), "within it")
	again := inFile(0)
	table.inMemory(sysmem.Budget(1).In(t.Context()), again)
	assert.Equal(t, copied, again, "of another program")
	more := inFile(count / 2) // half of them are copied already
	table.inMemory(sysmem.Budget(1).In(t.Context()), more)
	assert.Equal(t, count/2, mapped(more), "beyond the budget beside others")
}
