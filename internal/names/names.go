// Package names makes names of values that no other value of a model has.
package names

import "fmt"

// Set are names that are taken, with the numbers that stand behind them: all up to this one are taken too.
type Set map[string]int

// Fresh takes a name: the one wanted, with a number behind it if it is empty or taken already.
func (s Set) Fresh(want string) string {
	name := want
	for _, taken := s[name]; taken || name == ""; _, taken = s[name] {
		s[want]++
		name = fmt.Sprintf("%s_%d", want, s[want])
	}
	s[name] = 0
	return name
}
