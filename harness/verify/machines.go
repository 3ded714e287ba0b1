package verify

import (
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// machines keeps one runner per profile between records.
type machines map[string]*harness.JIT

// runner returns the runner of a built-in profile.
func (m *machines) runner(profile string) (*harness.JIT, error) {
	if r, ok := (*m)[profile]; ok {
		return r, nil
	}
	p, err := kernelabi.ProfileByName(profile)
	if err != nil {
		return nil, err
	}
	r, err := harness.NewJIT(p)
	if err != nil {
		return nil, err
	}
	if *m == nil {
		*m = machines{}
	}
	(*m)[profile] = r
	return r, nil
}

func (m machines) close() {
	for _, r := range m {
		r.Close()
	}
}
