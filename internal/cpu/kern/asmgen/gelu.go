package main

import "github.com/mmcloughlin/avo/operand"

// Gelu with AVX-512: x·Φ(x), where Φ(−a) is a polynomial of degree 7 in each of 16 intervals of a = |x|. Interval i is as far from i·h as
// from its neighbours, the polynomial is one in u = a − i·h, and VPERMPS looks a coefficient up for 16 lanes:
//
//	t = a/h + 1.5·2²³      i is in the last bits of t, which are what VPERMPS looks at
//	u = a − (t − 1.5·2²³)·h
//	Φ(x) = p(u) or 1 − p(u), by the sign of x
//
// No power of e and no division takes less than half the time of the form by erfc. Coefficients are fits of the least relative error,
// by least squares over 60 Chebyshev nodes, rounded to float32 one after the other with the rest refitted. Beyond 15.5·h, where
// x·Φ(x) is below 10⁻¹¹, the result is 0.

// geluStep is h, a number of few bits: its products with the indices are exact.
const geluStep = 29. / 64

// geluTail are the coefficients of a power of u, lowest power first, for each interval.
var geluTail = [8][16]float64{
	{0.5, 0.32522938, 0.18240178, 0.08701389, 0.03495449, 0.011737176, 0.0032764557, 0.0007572909, 0.00014448073, 2.2700178e-05, 2.9317848e-06, 3.1081206e-07, 2.7016672e-08, 1.923688e-09, 1.1211927e-10, 5.3456376e-12},
	{-0.3989423, -0.36001858, -0.26458758, -0.1583593, -0.07718759, -0.03063945, -0.009904765, -0.0026075765, -0.00055906153, -9.761394e-05, -1.388014e-05, -1.6073324e-06, -1.5158197e-07, -1.1641785e-08, -7.2815226e-10, -3.7089918e-11},
	{7.6024645e-07, 0.08156522, 0.119890526, 0.10763511, 0.06995104, 0.034708805, 0.013464301, 0.0041354517, 0.0010132986, 0.00019904102, 3.1447256e-05, 4.0057926e-06, 4.1211686e-07, 3.4289165e-08, 2.309652e-09, 1.2605088e-10},
	{0.06647196, 0.047685243, 0.007884379, -0.022379473, -0.02939672, -0.021106033, -0.010551295, -0.0039377776, -0.0011312246, -0.00025430124, -4.5184344e-05, -6.3872862e-06, -7.2163124e-07, -6.5376966e-08, -4.7612496e-09, -2.7927716e-10},
	{0.00021485204, -0.018937314, -0.021739153, -0.010344748, 0.0016700939, 0.006167507, 0.0049271393, 0.0024334185, 0.0008563133, 0.00022608353, 4.5936762e-05, 7.2891858e-06, 9.118079e-07, 9.0492165e-08, 7.158418e-09, 4.5290635e-10},
	{-0.011277366, -0.005519413, 0.0026328478, 0.0061932304, 0.0037724948, 0.0003805107, -0.0010936811, -0.00095315545, -0.00045118819, -0.00014630558, -3.4885412e-05, -6.3203156e-06, -8.862025e-07, -9.727633e-08, -8.4267135e-09, -5.793064e-10},
	{0.0039708377, 0.0022646664, 0.0021568588, 0.00011189786, -0.0014490117, -0.0009364649, -0.00015930242, 0.00017590793, 0.00015785241, 6.9678514e-05, 2.0479058e-05, 4.36288e-06, 6.995193e-07, 8.621886e-08, 8.273299e-09, 6.236829e-10},
	{-0.0036171868, 0.0014757139, 0.0007447292, -0.0010361146, 0.00028406872, 0.00015244498, 0.00015975161, 3.447071e-05, -2.737145e-05, -2.2447699e-05, -8.669634e-06, -2.2019913e-06, -4.0217546e-07, -5.5097885e-08, -5.7640204e-09, -4.6767995e-10},
}

func (g *gen) geluByTable(x vec) vec {
	const last, magic = 15.5 * geluStep, 3 << 22
	abs := g.set(g.and, x, absMask)
	within := g.cmp(cmpNLT, g.splat(f32(last)), abs) // or not a number
	a, t, u := g.v(), g.splat(f32(magic)), g.v()
	g.min(a, g.splat(f32(last)), abs)
	g.fma(t, a, f32(1/geluStep))
	g.sub(u, t, f32(magic))
	g.fnma(a, u, f32(geluStep))
	p := g.geluCoefficient(len(geluTail)-1, t)
	for i := len(geluTail) - 2; i > 0; i-- {
		g.horner(p, a, g.geluCoefficient(i, t))
	}
	g.VFMADD213PS_Z(g.geluCoefficient(0, t), a, within.k, p)
	positive := g.cmp(cmpNLT, x, konst(0))
	g.VSUBPS(p, g.splat(oneBits), positive.k, p)
	g.mul(p, p, x)
	return p
}

// geluCoefficient looks up the coefficients of a power for the intervals in t.
func (g *gen) geluCoefficient(power int, t vec) vec {
	m := g.table("gelu"+string(rune('0'+power)), 16, func(i int) uint32 { return uint32(f32(geluTail[power][i])) })
	return g.to(g.VPERMPS, operand.Op(m), t)
}
