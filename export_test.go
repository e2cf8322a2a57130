package berth

import "github.com/berth-onnx/berth/internal/program"

// Raw is the program's session, for tests of what it keeps.
func (s *Session) Raw() *program.Session { return s.s }
