package npy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-onnx/berth/ndarray"
)

// The header is a dictionary as Python writes it, with these three keys in any order:
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//
// Python 2 wrote integers with an L behind them. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

// dictionary reads the text of a header.
type dictionary struct{ rest string }

// mostQuoted is how much of a file's text an error quotes, in characters.
const mostQuoted = 40

// quoted is the beginning of a text from a file.
func quoted(s string) string {
	for n := range s {
		if utf8.RuneCountInString(s[:n]) == mostQuoted {
			return strconv.Quote(s[:n]) + "…"
		}
	}
	return strconv.Quote(s)
}

// parseHeader reads the text between the length and the elements.
func parseHeader(text string) (h Header, err error) {
	if !strings.HasSuffix(text, "\n") {
		return h, errors.New("the NumPy header does not end with a new line")
	}
	d := &dictionary{text}
	seen := map[string]bool{}
	if !d.takes("{") {
		return h, d.wrong("a dictionary")
	}
	for !d.takes("}") {
		key, ok := d.text()
		if !ok || !d.takes(":") {
			return h, d.wrong("a key")
		}
		if seen[key] {
			return h, fmt.Errorf("the NumPy header has the key %s twice", quoted(key))
		}
		seen[key] = true
		if err := d.value(key, &h); err != nil {
			return h, err
		}
		if !d.takes(",") && !strings.HasPrefix(d.rest, "}") {
			return h, d.wrong("a comma or the end of the dictionary")
		}
	}
	if d.space(); d.rest != "" {
		return h, d.wrong("its end")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return h, fmt.Errorf("the NumPy header lacks the key %q", key)
		}
	}
	return h, nil
}

// value reads what belongs to a key.
func (d *dictionary) value(key string, h *Header) error {
	switch key {
	case "descr":
		descr, ok := d.text()
		if !ok && strings.HasPrefix(d.rest, "[") {
			return errors.New("the file has records of several fields; save an array for each field")
		}
		if !ok {
			return d.wrong("the name of a type")
		}
		return h.setType(descr)
	case "fortran_order":
		h.ColumnMajor = d.takes("True")
		if !h.ColumnMajor && !d.takes("False") {
			return d.wrong("True or False")
		}
		return nil
	case "shape":
		return d.shape(h)
	}
	return fmt.Errorf("the NumPy header has the unknown key %s", quoted(key))
}

// shape reads a tuple of integers.
func (d *dictionary) shape(h *Header) error {
	if !d.takes("(") {
		return d.wrong("a shape in parentheses")
	}
	h.Shape = []int{}
	for !d.takes(")") {
		digits := d.rest[:len(d.rest)-len(strings.TrimLeft(d.rest, "-0123456789"))]
		n, err := strconv.Atoi(digits)
		switch {
		case err == nil && n < 0:
			return fmt.Errorf("the NumPy header has the negative dimension %d", n)
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("the dimension %s in the NumPy header is too large", quoted(digits))
		case err != nil:
			return d.wrong("a dimension")
		case len(h.Shape) == mostDims:
			return fmt.Errorf("the NumPy header has more than %d dimensions", mostDims)
		}
		h.Shape, d.rest = append(h.Shape, n), strings.TrimPrefix(d.rest[len(digits):], "L")
		if !d.takes(",") && !strings.HasPrefix(d.rest, ")") {
			return d.wrong("a comma or the end of the shape")
		}
	}
	return nil
}

// mostDims is how many dimensions an array of NumPy has at most.
const mostDims = 64

// setType reads the order of bytes and the type. Bytes in the machine's order ("=") are those of the machines that berth runs on.
func (h *Header) setType(descr string) error {
	name := strings.TrimLeft(descr, "<>=|")
	if h.bigEndian = strings.HasPrefix(descr, ">"); len(descr)-len(name) <= 1 {
		for _, t := range types {
			if t.descr[1:] == name {
				h.DType = t.dt
				return nil
			}
		}
	}
	return fmt.Errorf("NumPy type %s is not supported; convert the array with astype, to float32 for example", quoted(descr))
}

// swap reverses the bytes of every number; a complex number is two.
func swap(a *ndarray.Array) {
	size := a.DType.Size()
	if a.DType.IsComplex() {
		size /= 2
	}
	for at := 0; at < len(a.Data); at += size {
		for i, j := at, at+size-1; i < j; i, j = i+1, j-1 {
			a.Data[i], a.Data[j] = a.Data[j], a.Data[i]
		}
	}
}

// space skips white space.
func (d *dictionary) space() { d.rest = strings.TrimLeft(d.rest, " \t\r\n") }

// takes reads a text if it is next, and the white space around it.
func (d *dictionary) takes(s string) bool {
	d.space()
	rest, ok := strings.CutPrefix(d.rest, s)
	if ok {
		d.rest = rest
		d.space()
	}
	return ok
}

// text reads a text in quotes.
func (d *dictionary) text() (s string, ok bool) {
	d.space()
	if d.rest == "" || d.rest[0] != '\'' && d.rest[0] != '"' {
		return "", false
	}
	s, rest, ok := strings.Cut(d.rest[1:], d.rest[:1])
	if ok {
		d.rest = rest
	}
	return s, ok
}

// wrong says what is there in place of what should be.
func (d *dictionary) wrong(want string) error {
	if d.rest == "" {
		return fmt.Errorf("the NumPy header ends where it should have %s", want)
	}
	return fmt.Errorf("the NumPy header has %s where it should have %s", quoted(strings.TrimRight(d.rest, " \n")), want)
}
