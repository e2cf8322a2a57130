package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/ml"
	"github.com/berth-onnx/berth/internal/ops/movement"
	"github.com/berth-onnx/berth/internal/ops/nn"
)

// Operators of other packages, which have the functions that they share with others there. A program links what a variable refers to,
// and a function only where it is called.
var (
	GemmFastGelu      = contrib.GemmFastGelu()
	MatMulBnb4        = contrib.MatMulBnb4()
	MulInteger        = contrib.MulInteger()
	SVMClassifier     = ml.SVMClassifier()
	SVMRegressor      = ml.SVMRegressor()
	Col2Im            = movement.Col2Im()
	MaxUnpool         = nn.MaxUnpool()
	QLinearWhere      = contrib.QLinearWhere()
	QLinearReduceMean = contrib.QLinearReduceMean()
	ReduceSumInteger  = contrib.ReduceSumInteger()
)
