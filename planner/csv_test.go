package planner_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
)

// TestReadCSV reads the forms that instance files come in.
func TestReadCSV(t *testing.T) {
	cases := []struct {
		name, file string
		want       []planner.Buffer
		offsets    []int64
	}{
		{"plain", "id,lower,upper,size\nb1,0,3,4\nb2,3,9,5\n", []planner.Buffer{{Name: "b1", Lo: 0, Hi: 3, Size: 4}, {Name: "b2", Lo: 3, Hi: 9, Size: 5}}, nil},
		{"with offsets", "id,lower,upper,size,offset\nb1,0,3,4,8\nb2,3,9,5,\nb3,0,1,1,-1\n",
			[]planner.Buffer{{Name: "b1", Lo: 0, Hi: 3, Size: 4}, {Name: "b2", Lo: 3, Hi: 9, Size: 5}, {Name: "b3", Lo: 0, Hi: 1, Size: 1}}, []int64{8, -1, -1}},
		{"last point inclusive", "buffer_id,start,end,size\nx,0,2,4\n", []planner.Buffer{{Name: "x", Lo: 0, Hi: 3, Size: 4}}, nil},
		{"alignment and gaps", "id,begin,upper,size,alignment,gaps\nx,0,20,4,64,3-5 9-12\n",
			[]planner.Buffer{{Name: "x", Lo: 0, Hi: 20, Size: 4, Align: 64, Holes: []planner.Range{{Lo: 3, Hi: 5}, {Lo: 9, Hi: 12}}}}, nil},
		{"other columns, other order, blanks", "size, note ,upper,lower,id\n 4,hot, 3, 0,b\n", []planner.Buffer{{Name: "b", Lo: 0, Hi: 3, Size: 4}}, nil},
		{"no buffers", "id,lower,upper,size\n", nil, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, offsets, err := planner.ReadCSV(strings.NewReader(c.file))
			require.NoError(t, err)
			assert.Equal(t, c.want, p.Buffers)
			assert.Equal(t, c.offsets, offsets)
			var out bytes.Buffer
			require.NoError(t, planner.WriteCSV(&out, p, offsets))
			again, same, err := planner.ReadCSV(&out)
			require.NoError(t, err)
			assert.Equal(t, p, again, "written and read again")
			assert.Equal(t, offsets, same)
		})
	}
}

// TestReadCSVErrors gives files that are no instances: the error names the line.
func TestReadCSVErrors(t *testing.T) {
	cases := []struct {
		name, file string
		line       int
		reason     string
	}{
		{"empty", "", 1, "the file is empty"},
		{"no size", "id,lower,upper\n", 1, "no column size"},
		{"two of a kind", "id,lower,upper,end,size\n", 1, "two columns mean end"},
		{"not a number", "id,lower,upper,size\na,0,1,2\nb,0,x,2\n", 3, `upper is "x"`},
		{"no number", "id,lower,upper,size\na,0,1,\n", 2, "no size"},
		{"life backwards", "id,lower,upper,size\na,5,1,2\n", 2, "not a run of supported"},
		{"life too far", "id,lower,upper,size\na,0,99999999999,2\n", 2, "not a run of supported"},
		{"gap", "id,lower,upper,size,gaps\na,0,9,2,3:5\n", 2, `the gap "3:5"`},
		{"fields", "id,lower,upper,size\na,0,9\n", 2, "wrong number of fields"},
		{"quote", "id,lower,upper,size\n\"a,0,9,4\n", 2, "extraneous or missing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := planner.ReadCSV(strings.NewReader(c.file))
			var bad *planner.FileError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, c.line, bad.Line)
			assert.ErrorContains(t, err, c.reason)
		})
	}
	_, _, err := planner.ReadCSV(strings.NewReader("id,lower,upper,size\na,0,9,-4\n"))
	var bad *planner.ProblemError
	assert.ErrorAs(t, err, &bad, "a problem that fails its check")
	broken := errors.New("broken")
	_, _, err = planner.ReadCSV(iotest.ErrReader(broken))
	assert.ErrorIs(t, err, broken)
}
