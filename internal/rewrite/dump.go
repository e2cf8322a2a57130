package rewrite

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-onnx/berth/ssa"
)

// Dump records the text of a graph after every pass, for a page with a column
// per pass. A nil *Dump records nothing.
type Dump struct{ Stages []DumpStage }

// DumpStage is the graph after one pass.
type DumpStage struct {
	Name  string
	Round int // 0 outside repeating stages
	Time  time.Duration
	Stats Stats
	Text  string // empty if the pass changed nothing
}

// add records a graph, unless the context ends first.
func (d *Dump) add(ctx context.Context, name string, round int, g *ssa.Graph, took time.Duration) error {
	if d == nil {
		return nil
	}
	var text strings.Builder
	if err := (ssa.Format{}).WriteContext(ctx, &text, g); err != nil {
		return err
	}
	s := DumpStage{Name: name, Round: round, Time: took, Stats: Count(g), Text: text.String()}
	for _, last := range slices.Backward(d.Stages) {
		if last.Text == s.Text {
			s.Text = ""
		}
		if last.Text != "" {
			break
		}
	}
	d.Stages = append(d.Stages, s)
	return nil
}

// stages is how many stages have been recorded.
func (d *Dump) stages() int {
	if d == nil {
		return 0
	}
	return len(d.Stages)
}

// cut forgets all stages but the first n.
func (d *Dump) cut(n int) {
	if d != nil {
		d.Stages = d.Stages[:n]
	}
}

// WriteHTML writes one self-contained page: a column per pass, those that
// changed nothing folded to a narrow strip, lines that are new against the last
// change marked. Clicking a value's name marks it in all columns.
func (d *Dump) WriteHTML(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteString(dumpHead)
	last := map[string]int{}
	for _, s := range d.Stages {
		var lines []dumpLine
		if s.Text != "" {
			lines, last = markNew(s.Text, last)
		}
		s.writeColumn(b, lines)
	}
	b.WriteString(dumpTail)
	return b.Flush()
}

// writeColumn writes the column of a pass, without lines if the pass changed nothing.
func (s *DumpStage) writeColumn(b *bufio.Writer, lines []dumpLine) {
	class, name := "", s.Name
	if lines == nil {
		class = "same"
	}
	if s.Round > 0 {
		name = fmt.Sprintf("%s #%d", s.Name, s.Round)
	}
	fmt.Fprintf(b, "<section class=\"%s\"><h2>%s</h2><p>%d nodes, %d constants of %d bytes, %s</p><pre>", class, html.EscapeString(name),
		s.Stats.Nodes, s.Stats.Constants, s.Stats.ConstBytes, s.Time.Round(time.Microsecond))
	for _, line := range lines {
		mark := ""
		if line.New {
			mark = ` class="new"`
		}
		fmt.Fprintf(b, "<span%s>%s</span>\n", mark, html.EscapeString(line.Text))
	}
	b.WriteString("</pre></section>\n")
}

type dumpLine struct {
	Text string
	New  bool
}

// markNew splits a text into lines and marks those that the text before did not
// have (as often); it returns the line counts for the next call.
func markNew(text string, last map[string]int) ([]dumpLine, map[string]int) {
	now := map[string]int{}
	var out []dumpLine
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		now[line]++
		out = append(out, dumpLine{line, now[line] > last[line] && len(last) > 0})
	}
	return out, now
}

const dumpHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Passes</title>
<style>
body { font: 12px/1.35 ui-monospace, Menlo, Consolas, monospace; margin: 0; background: #fbfbf9; color: #222; }
h1 { font: 600 15px system-ui, sans-serif; margin: 8px 12px; }
#row { display: flex; align-items: flex-start; }
section { border-left: 1px solid #d8d8d2; padding: 0 8px 40px; }
section > h2 { font: 600 13px system-ui, sans-serif; cursor: pointer; margin: 6px 0 0; white-space: nowrap; }
section > p { font: 11px system-ui, sans-serif; color: #777; margin: 0 0 6px; white-space: nowrap; }
section.same, section.closed { writing-mode: vertical-rl; min-width: 18px; padding: 8px 0; color: #aaa; }
section.same pre, section.closed pre, section.same p, section.closed p { display: none; }
pre { margin: 0; }
.new { background: #e4f4dc; }
.mark { background: #ffe08a; outline: 1px solid #d9a400; }
</style></head><body><h1>The graph after every pass</h1><div id="row">
`

const dumpTail = `</div><script>
document.querySelectorAll("h2").forEach(h => h.onclick = () => h.parentNode.classList.toggle("closed"));
document.querySelectorAll("pre span").forEach(s => {
  s.innerHTML = s.innerHTML.replace(/%(&#34;.*?&#34;|[\w.\/-]+)/g, m => "<a>" + m + "</a>");
});
document.getElementById("row").addEventListener("click", e => {
  if (e.target.tagName !== "A") return;
  const on = !e.target.classList.contains("mark"), name = e.target.textContent;
  document.querySelectorAll("a").forEach(a => { if (a.textContent === name) a.classList.toggle("mark", on); });
});
</script></body></html>
`
