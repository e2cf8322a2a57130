package kern

//go:generate go -C asmgen run . -out ..
