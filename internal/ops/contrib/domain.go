package contrib

// Microsoft is the domain of the operators that onnxruntime adds to the
// standard. Their schemas are listed in
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
const Microsoft = "com.microsoft"
