package ptx

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFresh: what a launch leaves out where values begin with it has no value, though it had one before.
func TestFresh(t *testing.T) {
	const half = "setp.lt.u32 %p1, %r1, 64; @!%p1 ret;"
	for _, test := range []struct {
		name, body string
		over       int // where y begins in x, in bytes; x has 512
		unwritten  int // the first byte of y without a value after the launch, -1: none
		want       Kind
		isReported bool
	}{
		{"all is written", "", 512, -1, 0, false},
		{"half is written", half, 512, 256, 0, false},
		{"all is written over an operand", "", 0, -1, 0, false},
		{"half is written over an operand", half, 0, 256, 0, false},
		{"half is written over half of an operand", "bar.sync 0;" + half, 256, 256, 0, false},
		{"a result is read before it is written", "ld.global.f32 %f2, [%x3];", 512, -1, Uninitialized, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := loadText(t, small(test.body))
			all := in(b, make([]float32, 256))
			y := Window{Name: "y", Base: all.Base + uint64(test.over), Size: 512, Access: ReadWrite, Arg: 9}
			if !test.isReported {
				y.Access = Write
			}
			l := Launch{Kernel: "k", Grid: line(1), Block: line(128), Args: make([]byte, 16), Fresh: []Window{y}, Windows: []Window{
				{Name: "x", Base: all.Base, Size: 512, Access: Read, Arg: 1}, y}}
			storeBytes(l.Args, 8, all.Base)
			storeBytes(l.Args[8:], 8, y.Base)
			r, err := b.Launch(t.Context(), b.mem, l)
			require.NoError(t, err)
			assert.Equal(t, test.isReported, reportOf(r, test.want) != nil, "%v", r.Reports)
			at, err := b.mem.Unwritten(y.Base, y.Size)
			require.NoError(t, err)
			assert.Equal(t, test.unwritten, at)
			at, err = b.mem.Unwritten(all.Base, test.over)
			require.NoError(t, err)
			assert.Equal(t, -1, at, "before y")
		})
	}
}
