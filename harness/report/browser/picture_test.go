package browser_test

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
)

// lively returns an error unless a picture has writing in every part of it that
// is as high as a window: no part of a page is blank.
func lively(data []byte) error {
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	const part = 800
	b := img.Bounds()
	for top := b.Min.Y; top == b.Min.Y || top+part <= b.Max.Y; top += part {
		seen := map[color.Color]bool{}
		for y := top; y < min(top+part, b.Max.Y); y++ {
			for x := b.Min.X; x < b.Max.X; x += 3 {
				seen[img.At(x, y)] = true
			}
		}
		if len(seen) < 8 {
			return fmt.Errorf("%d colours from line %d on, of %dx%d pixels", len(seen), top, b.Dx(), b.Dy())
		}
	}
	return nil
}
