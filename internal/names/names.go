// Package names makes names of values that no other value of a model has.
package names

import "strconv"

// Set are names that are taken, with the numbers that stand behind them: all up to this one are taken too.
type Set map[string]int

// Fresh takes a name: the one wanted, with a number behind it if it is empty or taken already.
func (s Set) Fresh(want string) string {
	if _, taken := s[want]; !taken && want != "" {
		s[want] = 0
		return want
	}
	number, name, taken := s[want], "", true
	for taken {
		number++
		name = want + "_" + strconv.Itoa(number)
		_, taken = s[name]
	}
	s[want], s[name] = number, 0
	return name
}
