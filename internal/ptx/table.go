package ptx

// operations says how each operation is compiled.
var operations map[string]func(o *operation)

func init() {
	operations = map[string]func(o *operation){
		"add": compileAdd, "sub": compileAdd, "addc": compileAdd, "subc": compileAdd,
		"mul": compileMul, "mad": compileMul, "mul24": compileMul, "mad24": compileMul, "fma": compileFma,
		"div": compileDiv, "rem": compileDiv, "min": compileMinMax, "max": compileMinMax,
		"neg": compileSign, "abs": compileSign, "sad": compileSad, "dp4a": compileDot, "dp2a": compileDot,
		"and": compileLogic, "or": compileLogic, "xor": compileLogic, "not": compileLogic, "lop3": compileLop3,
		"shl": compileShift, "shr": compileShift, "shf": compileFunnel, "bfe": compileExtract, "bfi": compileInsert,
		"popc": compileCount, "clz": compileCount, "brev": compileCount, "bfind": compileCount, "prmt": compilePermute,
		"rcp": compileFunction, "sqrt": compileFunction, "rsqrt": compileFunction, "ex2": compileFunction, "lg2": compileFunction,
		"sin": compileFunction, "cos": compileFunction, "tanh": compileFunction, "copysign": compileCopySign, "testp": compileTest,
		"setp": compileSetp, "set": compileSet, "selp": compileSelp, "slct": compileSlct,
		"cvt": compileConvert, "cvta": compileConvertAddress, "isspacep": compileIsSpace, "mov": compileMove,
		"ld": compileLoad, "st": compileStore, "atom": compileAtomic, "red": compileAtomic,
		"prefetch": compilePrefetch, "prefetchu": compilePrefetch, "membar": compilePrefetch, "fence": compilePrefetch, "nanosleep": compilePrefetch,
		"bra": compileBranch, "brx": compileTable, "call": compileCall, "ret": compileRet, "exit": compileRet, "trap": compileTrap,
		"bar": compileBarrier, "barrier": compileBarrier, "shfl": compileShuffle, "vote": compileVote, "match": compileMatch,
		"redux": compileRedux,
		"mma":   compileMatrixProduct, "ldmatrix": compileMatrixLoad, "cp": compileCopy,
	}
}
