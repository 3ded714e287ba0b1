package capture

import (
	"bufio"
	"compress/gzip"
)

// gunzip returns r, decompressed if it is gzipped.
func gunzip(r *bufio.Reader) (*bufio.Reader, error) {
	magic, err := r.Peek(2)
	if err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return r, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return bufio.NewReader(z), nil
}
