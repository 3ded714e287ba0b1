package peers

// #cgo linux LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// symbol is a function of a shared library, and where its address goes.
type symbol struct {
	name string
	at   *unsafe.Pointer
}

// openShared opens the first of the files that there is, finds the functions in
// it, and never closes it; found is false if there is none. Opening a library
// when it is wanted, not linking it, lets this package build where it is not
// installed, and needs no headers.
func openShared(files []string, functions []symbol) (found bool, err error) {
	for _, file := range files {
		name := C.CString(file)
		handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
		C.free(unsafe.Pointer(name))
		if handle == nil {
			continue
		}
		for _, f := range functions {
			name := C.CString(f.name)
			*f.at = C.dlsym(handle, name)
			C.free(unsafe.Pointer(name))
			if *f.at == nil {
				return true, fmt.Errorf("%s has no function %s", file, f.name)
			}
		}
		return true, nil
	}
	return false, nil
}
