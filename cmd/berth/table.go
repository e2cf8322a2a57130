package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable prints to w: columns with a line under the header, no colours, the same
// on a terminal and elsewhere.
func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	if len(header) > 0 {
		t.AppendHeader(plainRow(header))
	}
	return plainTable{t}
}

// plainTable shows texts in cells by [plain]: names come from files.
type plainTable struct{ table.Writer }

// AppendRow appends a row whose texts are plain.
func (t plainTable) AppendRow(row table.Row, configs ...table.RowConfig) {
	t.Writer.AppendRow(plainRow(row), configs...)
}

func plainRow(row []any) table.Row {
	out := slices.Clone(row)
	for i, cell := range out {
		if s, ok := cell.(string); ok {
			out[i] = plain(s)
		}
	}
	return out
}

// plain shows what a terminal would act on instead of showing it as Go escapes: control characters and line ends, marks that change
// the direction of text, whatever has no picture, and bytes that are no UTF-8. All text that may hold names or messages from files goes
// through it; JSON has escapes of its own.
func plain(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "\\x%02x", s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// messageRunes is the length of a message of which nothing is left out: names, attributes and lists of files may have megabytes.
const messageRunes = 4000

// brief leaves out the middle of a long message, whose ends say where something is wrong and what to do.
func brief(message string) string { return shortened(message, messageRunes) }

// alignRight sets columns (counted from 1) to the right.
func alignRight(t table.Writer, cols ...int) {
	var cfg []table.ColumnConfig
	for _, c := range cols {
		cfg = append(cfg, table.ColumnConfig{Number: c, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(cfg)
}

// appendPorts adds a row per value; the label may contain %d for its index.
func appendPorts(t table.Writer, label string, ports []portJSON) {
	for i, p := range ports {
		t.AppendRow([]any{strings.ReplaceAll(label, "%d", strconv.Itoa(i)), p.Name, p.Type})
	}
}

// unit prints numbers from a size on, divided.
type unit struct {
	from, per float64
	format    string
}

var (
	byteUnits  = []unit{{1e9, 1e9, "%.2f GB"}, {1e6, 1e6, "%.2f MB"}, {1e4, 1e3, "%.1f kB"}, {math.Inf(-1), 1, "%.0f B"}}
	countUnits = []unit{{1e9, 1e9, "%.2f G"}, {1e6, 1e6, "%.2f M"}, {math.Inf(-1), 1, "%.0f"}}
	timeUnits  = []unit{{1e9, 1e9, "%.2f s"}, {1e6, 1e6, "%.2f ms"}, {1e3, 1e3, "%.1f µs"}, {math.Inf(-1), 1, "%.0f ns"}}
)

// bytesText prints a byte count in decimal units, "9.63 MB".
func bytesText(n int64) string { return inUnits(n, byteUnits) }

// countText prints a large count, "4.10 G".
func countText(n int64) string { return inUnits(n, countUnits) }

// durationText prints nanoseconds, "1.25 ms".
func durationText(n int64) string { return inUnits(n, timeUnits) }

func inUnits(n int64, units []unit) string {
	i := slices.IndexFunc(units, func(u unit) bool { return float64(n) >= u.from })
	return fmt.Sprintf(units[i].format, float64(n)/units[i].per)
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
