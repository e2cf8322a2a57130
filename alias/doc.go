// Package alias says which values are aliases: views of bytes that another value
// owns. A reshape is a view of all of its operand, a slice along the outermost axis
// of a part of it, the result of an If whatever its branch returned. Following them back
// leads to the values that own the bytes, the bases:
//
//	a ■■■■■■■■          made by a node: owns its bytes
//	b = Reshape(a)      the whole window of a                base: a
//	c = Slice(a)            ■■■■  from a+16 on               bases: a, c
//	e = Gather(a, i)        ■■    from a+8·i on              bases: a, e
//	d = If(b, y)        b in one branch, y in the other      bases: a, y, d
//
// The rules follow from the types and from facts of the operators alone, for any
// order of the nodes.
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil and belongs to a graph that [ssa.Check] accepts; they panic otherwise.
package alias
