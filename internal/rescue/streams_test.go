package rescue

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// liar reads and writes other counts than it could.
type liar struct{ n int }

func (l liar) Read([]byte) (int, error)  { return l.n, nil }
func (l liar) Write([]byte) (int, error) { return l.n, nil }

func TestStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream io.ReadWriter
		want   string
	}{
		{"too many", liar{5}, "5 bytes of at most 4"}, {"negative", liar{-1}, "-1 bytes of at most 4"}, {"some", liar{3}, ""}, {"all", liar{4}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range []func([]byte) (int, error){Reader(c.stream).Read, Writer(c.stream).Write} {
				n, err := f(make([]byte, 4))
				if c.want == "" {
					assert.NoError(t, err)
					assert.Equal(t, c.stream.(liar).n, n)
					continue
				}
				assert.ErrorContains(t, err, c.want)
				assert.Zero(t, n)
			}
		})
	}
	_, err := Reader(nil).Read(nil)
	assert.EqualError(t, err, "the reader is nil")
	_, err = Writer(nil).Write(nil)
	assert.EqualError(t, err, "the writer is nil")
	got, err := io.ReadAll(Reader(strings.NewReader("text")))
	assert.NoError(t, err)
	assert.Equal(t, "text", string(got))
}
