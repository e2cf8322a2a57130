package ops

// Walled is the table of operators that ops/standard does not link.
var Walled = walled
