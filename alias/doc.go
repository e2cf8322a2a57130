// Package alias says whose bytes a value shows. Many results need no memory of
// their own: a reshape shows all of its operand, a slice along the outermost axis
// a part of it, the result of an If what its branch showed. Following them back
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
package alias
