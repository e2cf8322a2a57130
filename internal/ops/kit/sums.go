package kit

// SumOf adds up elements in float64, every fourth one into a sum of its own, so that an addition does not wait for the one before.
func SumOf[T RealNum](x []T) float64 {
	var s [4]float64
	for len(x) >= 4 {
		s[0] += float64(x[0])
		s[1] += float64(x[1])
		s[2] += float64(x[2])
		s[3] += float64(x[3])
		x = x[4:]
	}
	for i, v := range x {
		s[i] += float64(v)
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// DeviationOf adds up the squares of differences from a mean, as [SumOf] does.
func DeviationOf[T RealNum](x []T, mean float64) float64 {
	var s [4]float64
	for len(x) >= 4 {
		a, b, c, d := float64(x[0])-mean, float64(x[1])-mean, float64(x[2])-mean, float64(x[3])-mean
		s[0] += a * a
		s[1] += b * b
		s[2] += c * c
		s[3] += d * d
		x = x[4:]
	}
	for i, v := range x {
		d := float64(v) - mean
		s[i] += d * d
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}
