package policy

import (
	"maps"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// Cost is what a filter costs on average.
type Cost struct {
	ABI     *seccompdata.ABI
	Mean    float64  // executed instructions a call
	Weight  float64  // of the calls that were counted
	Unknown []string // names that the ABI does not have; they are not counted
}

// ExpectedCost returns the mean number of instructions that a filter executes
// for the calls of a histogram, each made with all arguments 0. The histogram's
// calls of no particular ABI count as the ABI's. An error is a *bpf.CheckError.
func ExpectedCost(prog bpf.Program, abi *seccompdata.ABI, h Histogram) (Cost, error) {
	f, err := seccompdata.NewFilter("", prog)
	if err != nil {
		return Cost{}, err
	}
	return expectedCost(f, abi, h.Weights(abi, true)), nil
}

func expectedCost(f *seccompdata.Filter, abi *seccompdata.ABI, weights map[string]float64) Cost {
	c := Cost{ABI: abi}
	executed := 0.0
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		nr, ok := abi.Number(name)
		if !ok {
			c.Unknown = append(c.Unknown, name)
			continue
		}
		weight := weights[name]
		executed += weight * float64(f.Run(&seccompdata.Data{Nr: nr, Arch: abi.Arch}).Executed)
		c.Weight += weight
	}
	if c.Weight > 0 {
		c.Mean = executed / c.Weight
	}
	return c
}

// Costs returns the expected cost of a filter for each ABI of the policy. A
// histogram's calls of no particular ABI are made by the native one. Where it
// knows nothing at all, each call of each ABI counts the same.
func (p *Policy) Costs(prog bpf.Program, h Histogram) ([]Cost, error) {
	f, err := seccompdata.NewFilter("", prog)
	if err != nil {
		return nil, err
	}
	var out []Cost
	for i, abi := range p.ABIs {
		weights := h.Weights(abi, i == 0)
		if h.Empty() {
			weights = map[string]float64{}
			for _, nr := range abi.Numbers() {
				name, _ := abi.Call(nr)
				weights[name] = 1
			}
		}
		out = append(out, expectedCost(f, abi, weights))
	}
	return out, nil
}

// meanCost is the mean over all ABIs.
func (p *Policy) meanCost(prog bpf.Program, h Histogram) (float64, error) {
	costs, err := p.Costs(prog, h)
	executed, weight := 0.0, 0.0
	for _, c := range costs {
		executed, weight = executed+c.Mean*c.Weight, weight+c.Weight
	}
	if weight == 0 {
		return 0, err
	}
	return executed / weight, err
}
