package kernelabi

var profiles = []*Profile{}
