package planner

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Instance files: one buffer per line under a header.
//
//	id,lower,upper,size,alignment,gaps,offset
//	b1,0,3,4,1,,8
//
// lower and upper are a half-open live range [lower, upper). The spellings begin/start for lower, and buffer/buffer_id for
// id, are understood; a column called end holds the last point, inclusive, as in the older form of these files. alignment, gaps
// and offset are optional: gaps are blank-separated runs a-b without bytes; offset is the place in a plan, empty or -1 for none.
// Columns of other names are passed over. This is the form of the MiniMalloc benchmark instances.

// FileError says what is wrong with an instance file.
type FileError struct {
	Line   int // counted from 1
	Reason string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("planner: instance file, line %d: %s", e.Line, e.Reason)
}

// maxInstanceBuffers bounds the buffers of one file.
const maxInstanceBuffers = 1 << 24

// ReadCSV reads an instance. offsets is nil unless the file has an offset column; an entry is -1 where the column is empty.
// Offsets are a plan to verify. The error is a *FileError or *ProblemError, or that of r.
func ReadCSV(r io.Reader) (p *Problem, offsets []int64, err error) {
	defer rescue.Into(&err)
	in := csv.NewReader(rescue.Reader(r))
	in.ReuseRecord = true
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if err != nil {
		return nil, nil, csvError(err, 1)
	}
	c, err := readHeader(header)
	if err != nil {
		return nil, nil, err
	}
	p = &Problem{}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, csvError(err, 0)
		}
		line, _ := in.FieldPos(0)
		if len(p.Buffers) == maxInstanceBuffers {
			return nil, nil, &FileError{line, fmt.Sprintf("more than %d buffers", maxInstanceBuffers)}
		}
		b, off, reason := c.buffer(record)
		if reason != "" {
			return nil, nil, &FileError{line, reason}
		}
		p.Buffers = append(p.Buffers, b)
		if c.offset >= 0 {
			offsets = append(offsets, off)
		}
	}
	return p, offsets, p.Check()
}

// csvError keeps errors of the reader below as they are and gives the others a line: their own, or else the one given.
func csvError(err error, line int) error {
	var bad *csv.ParseError
	switch {
	case errors.As(err, &bad):
		return &FileError{bad.Line, bad.Err.Error()}
	case errors.Is(err, io.EOF):
		return &FileError{line, "the file is empty; a header id,lower,upper,size is needed"}
	}
	return err
}

// columns are the positions of the known fields, -1 where absent.
type columns struct {
	id, lower, upper, size, alignment, gaps, offset int
	inclusive                                       bool // upper is the last point
}

func readHeader(header []string) (*columns, error) {
	c := &columns{-1, -1, -1, -1, -1, -1, -1, false}
	for i, name := range header {
		var slot *int
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "id", "buffer", "buffer_id":
			slot = &c.id
		case "lower", "begin", "start":
			slot = &c.lower
		case "upper", "end":
			slot, c.inclusive = &c.upper, name == "end"
		case "size":
			slot = &c.size
		case "alignment":
			slot = &c.alignment
		case "gaps":
			slot = &c.gaps
		case "offset":
			slot = &c.offset
		default:
			continue
		}
		if *slot >= 0 {
			return nil, &FileError{1, "two columns mean " + name}
		}
		*slot = i
	}
	for _, need := range []struct {
		at   int
		name string
	}{{c.lower, "lower"}, {c.upper, "upper"}, {c.size, "size"}} {
		if need.at < 0 {
			return nil, &FileError{1, "the header has no column " + need.name}
		}
	}
	return c, nil
}

// buffer reads one record; reason is not empty when it cannot.
func (c *columns) buffer(record []string) (b Buffer, offset int64, reason string) {
	number := func(at int, name string, missing int64) int64 {
		if at < 0 || strings.TrimSpace(record[at]) == "" {
			if missing < -1 && reason == "" {
				reason = "no " + name
			}
			return missing
		}
		v, err := strconv.ParseInt(strings.TrimSpace(record[at]), 10, 64)
		if err != nil && reason == "" {
			reason = fmt.Sprintf("%s is %q, not a whole number", name, record[at])
		}
		return v
	}
	const needed = -2
	if c.id >= 0 {
		b.Name = strings.Clone(record[c.id])
	}
	lo, hi := number(c.lower, "lower", needed), number(c.upper, "upper", needed)
	if lo < -maxPoint || hi > maxPoint-1 || lo > hi+1 {
		return b, 0, fmt.Sprintf("the live range %d to %d is not a run of supported time points", lo, hi)
	}
	b.Size = number(c.size, "size", needed)
	b.Align = number(c.alignment, "alignment", 0)
	offset = number(c.offset, "offset", -1)
	extra := 0
	if c.inclusive {
		extra = 1
	}
	b.Lo, b.Hi = int(lo), int(hi)+extra
	if c.gaps >= 0 && reason == "" {
		b.Holes, reason = readGaps(record[c.gaps], extra)
	}
	return b, offset, reason
}

// readGaps reads "3-5 9-12".
func readGaps(field string, extra int) ([]Range, string) {
	var holes []Range
	for _, word := range strings.Fields(field) {
		lo, hi, ok := strings.Cut(word, "-")
		a, err1 := strconv.ParseInt(lo, 10, 32)
		b, err2 := strconv.ParseInt(hi, 10, 32)
		if !ok || err1 != nil || err2 != nil {
			return nil, fmt.Sprintf("the gap %q is not of the form 3-5", word)
		}
		holes = append(holes, Range{int(a), int(b) + extra})
	}
	return holes, ""
}

// WriteCSV writes an instance, with an offset column when offsets is not nil. Optional columns appear when a buffer
// uses them. Only the live ranges of fixed schedules are written.
func WriteCSV(w io.Writer, p *Problem, offsets []int64) (err error) {
	defer rescue.Into(&err)
	aligned, gaps := p.Align > 1, false
	for i := range p.Buffers {
		aligned = aligned || p.Buffers[i].Align > 1
		gaps = gaps || len(p.Buffers[i].Holes) > 0
	}
	out := csv.NewWriter(rescue.Writer(w))
	row := []string{"id", "lower", "upper", "size"}
	if aligned {
		row = append(row, "alignment")
	}
	if gaps {
		row = append(row, "gaps")
	}
	if offsets != nil {
		row = append(row, "offset")
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		name := b.Name
		if name == "" {
			name = strconv.Itoa(i)
		}
		row = append(row[:0], name, strconv.Itoa(b.Lo), strconv.Itoa(b.Hi), strconv.FormatInt(b.Size, 10))
		if aligned {
			row = append(row, strconv.FormatInt(p.align(i), 10))
		}
		if gaps {
			row = append(row, writeGaps(b.Holes))
		}
		if offsets != nil {
			row = append(row, strconv.FormatInt(offsets[i], 10))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func writeGaps(holes []Range) string {
	words := make([]string, len(holes))
	for i, h := range holes {
		words[i] = fmt.Sprintf("%d-%d", h.Lo, h.Hi)
	}
	return strings.Join(words, " ")
}
