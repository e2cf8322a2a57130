// Package conformance reads recorded model tests in the layout of the ONNX
// backend tests and of the model zoo, runs them through whatever the caller
// gives, and compares:
//
//	CASE/model.onnx
//	CASE/test_data_set_0/input_0.pb  input_1.pb …  output_0.pb …
//	CASE/test_data_set_1/…
//	CASE/tolerance.json              {"rtol": 0.02, "atol": 0.2, "why": "…"}   (optional)
//
// A path may be a case's folder, a folder of cases at any depth or of archives, a
// .tar.gz of cases, or a model file of the ONNX "light" collection, whose input follows a
// rule and whose expected output lies beside it (NAME_output_0.pb).
package conformance
