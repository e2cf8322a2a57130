package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/ml"
	"github.com/berth-onnx/berth/internal/ops/movement"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/internal/ops/vision"
)

// Operators whose kernels share functions with those of other packages and stand there. They are made by functions, which a program links only
// where they are called: it links all that a variable refers to.
var (
	AffineGrid                      = vision.AffineGrid()
	DeformConv                      = nn.DeformConv()
	FeatureVectorizer               = ml.FeatureVectorizer()
	CastMap                         = ml.CastMap()
	DictVectorizer                  = ml.DictVectorizer()
	DecoderMaskedMultiHeadAttention = contrib.DecoderMaskedMultiHeadAttention()
	QEmbedLayerNormalization        = contrib.QEmbedLayerNormalization()
	SparseAttention                 = contrib.SparseAttention()
	GemmFastGelu                    = contrib.GemmFastGelu()
	MatMulBnb4                      = contrib.MatMulBnb4()
	MulInteger                      = contrib.MulInteger()
	SVMClassifier                   = ml.SVMClassifier()
	SVMRegressor                    = ml.SVMRegressor()
	Col2Im                          = movement.Col2Im()
	QLinearWhere                    = contrib.QLinearWhere()
	QLinearReduceMean               = contrib.QLinearReduceMean()
	ReduceSumInteger                = contrib.ReduceSumInteger()
)
