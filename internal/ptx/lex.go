package ptx

import (
	"fmt"
	"strings"
)

// SyntaxError says where a text is not PTX, or is PTX this package does not execute.
type SyntaxError struct {
	Line int // from 1
	Msg  string
}

// Error gives line and reason.
func (e *SyntaxError) Error() string { return fmt.Sprintf("ptx line %d: %s", e.Line, e.Msg) }

func syntaxError(line int, format string, args ...any) error {
	return &SyntaxError{Line: line, Msg: fmt.Sprintf(format, args...)}
}

type tokenKind uint8

const (
	endOfText tokenKind = iota
	word                // a name, a directive, an opcode with its modifiers: ld.global.f32, .reg, %tid.x, $L__BB0_2
	number              // 12, 0x1F, 12U, 0f3F800000, 1.5
	text                // "nounroll", without the quotes
	mark                // one character of punctuation
)

type token struct {
	kind tokenKind
	text string
	line int
}

// lex cuts a text into tokens; the last one is the end of the text.
func lex(source string) ([]token, error) {
	l := &lexer{source: source, line: 1}
	for {
		if err := l.space(); err != nil {
			return nil, err
		}
		if l.at == len(source) {
			l.add(endOfText, "end of text")
			return l.out, nil
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
}

type lexer struct {
	source string
	at     int
	line   int
	out    []token
}

func (l *lexer) add(kind tokenKind, s string) { l.out = append(l.out, token{kind, s, l.line}) }

// space passes white space and comments.
func (l *lexer) space() error {
	for l.at < len(l.source) {
		rest := l.source[l.at:]
		switch {
		case rest[0] == '\n':
			l.line++
			l.at++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			l.at++
		case strings.HasPrefix(rest, "//"):
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				l.at += n
			} else {
				l.at = len(l.source)
			}
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return syntaxError(l.line, "a comment has no end")
			}
			l.line += strings.Count(rest[:n], "\n")
			l.at += n + 2
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) next() error {
	c := l.source[l.at]
	switch {
	case c == '"':
		n := strings.IndexAny(l.source[l.at+1:], "\"\n")
		if n < 0 || l.source[l.at+1+n] != '"' {
			return syntaxError(l.line, "a text has no closing quote")
		}
		l.add(text, l.source[l.at+1:l.at+1+n])
		l.at += n + 2
	case isDigit(c):
		end := l.at + 1
		for end < len(l.source) && (isWordChar(l.source[end]) || isSignOfExponent(l.source[l.at:end+1])) {
			end++
		}
		l.add(number, l.source[l.at:end])
		l.at = end
	case isWordChar(c):
		end := l.at + 1
		for end < len(l.source) {
			if isWordChar(l.source[end]) {
				end++
			} else if strings.HasPrefix(l.source[end:], "::") {
				end += 2
			} else {
				break
			}
		}
		l.add(word, l.source[l.at:end])
		l.at = end
	case strings.IndexByte("{}()[]<>,;:@!|+-=*", c) >= 0:
		l.add(mark, string(c))
		l.at++
	default:
		return syntaxError(l.line, "%q has no meaning in PTX", rune(c))
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordChar(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c == '%' || c == '.'
}

// isSignOfExponent: s ends with the sign in a number such as 1.5e-3.
func isSignOfExponent(s string) bool {
	n := len(s)
	return n >= 3 && (s[n-1] == '-' || s[n-1] == '+') && (s[n-2] == 'e' || s[n-2] == 'E') && strings.Contains(s, ".")
}
