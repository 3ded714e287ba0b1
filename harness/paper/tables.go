package paper

import (
	"fmt"
	"slices"
	"strings"
)

// makers make the tables, oldest publication first.
var makers = []struct {
	name string
	make func(*meter) (*Table, error)
}{
	{"dumazet-2011", dumazet2011},
	{"schichan-2013", schichan2013},
	{"hromatka-2018", hromatka2018},
	{"zhu-2020", zhu2020},
	{"cook-2020", cook2020},
}

// Tables counts everything anew and returns the tables of those names, or all,
// oldest publication first. The numbers are the same on every host.
func Tables(names ...string) ([]*Table, error) {
	var known []string
	for _, k := range makers {
		known = append(known, k.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no published table %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	m := newMeter()
	defer m.close()
	var tables []*Table
	for _, k := range makers {
		if len(names) > 0 && !slices.Contains(names, k.name) {
			continue
		}
		t, err := k.make(m)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", k.name, err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}
