package berth_test

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codeLine is a line that counts: no comment, import, blank line or lone punctuation.
type codeLine struct {
	at   string
	text string
}

// hasWord finds a line that is more than brackets and commas.
var hasWord = regexp.MustCompile(`\w{2}`)

// codeLines are the lines of a file that count, without white space around them; none of generated files.
func codeLines(t *testing.T, name string) (out []codeLine) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	if bytes.Contains(text[:min(len(text), 400)], []byte("// Code generated")) {
		return nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ImportsOnly)
	require.NoError(t, err)
	first := fset.Position(f.Name.End()).Line
	if len(f.Imports) > 0 {
		first = fset.Position(f.Decls[len(f.Decls)-1].End()).Line
	}
	for i, line := range strings.Split(string(text), "\n")[first:] {
		line = strings.TrimSpace(line)
		if hasWord.MatchString(line) && !strings.HasPrefix(line, "//") {
			out = append(out, codeLine{fmt.Sprintf("%s:%d", name, first+i+1), line})
		}
	}
	return out
}

// TestDuplicates finds code that stands in two places: eight identical lines, comments and brackets aside.
func TestDuplicates(t *testing.T) {
	const most = 8
	seen := map[string]string{}
	files := 0
	for _, name := range readSource(t).files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		lines := codeLines(t, name)
		files++
		for i := range max(len(lines)-most+1, 0) {
			var run strings.Builder
			for _, l := range lines[i : i+most] {
				run.WriteString(l.text + "\n")
			}
			at, again := seen[run.String()]
			assert.False(t, again, "%s and %s have %d lines in common", at, lines[i].at, most)
			seen[run.String()] = lines[i].at
		}
	}
	assert.Greater(t, files, 500)
}
