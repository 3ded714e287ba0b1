package console

import (
	"encoding/json"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
)

// answer is what came of one command, for programs.
type answer struct {
	Type    string `json:"type"` // "debug"
	Command string `json:"command"`
	Text    string `json:"text"`
	State   *state `json:"state,omitempty"` // none without a program
}

// state is what is to be seen at the cursor.
type state struct {
	Packet  int             `json:"packet"` // from 1
	PC      *int            `json:"pc,omitempty"`
	A       uint32          `json:"a"`
	X       uint32          `json:"x"`
	M       []uint32        `json:"m"`
	Native  *native         `json:"native,omitempty"`
	Differ  []difference    `json:"differences"`
	Diverge *divergence     `json:"divergence,omitempty"`
	Verdict string          `json:"verdict"`
	Want    harness.Outcome `json:"want"`
	Got     harness.Outcome `json:"got"`
}

type native struct {
	Offset    *int              `json:"offset,omitempty"` // none at the end
	A         *uint32           `json:"a,omitempty"`
	X         *uint32           `json:"x,omitempty"`
	Call      string            `json:"call,omitempty"`
	Registers map[string]string `json:"registers"`
}

type difference struct {
	What string `json:"what"`
	Used bool   `json:"used"`
	How  string `json:"how"`
}

type divergence struct {
	PC   *int   `json:"pc,omitempty"` // the instruction to blame
	What string `json:"what"`
	How  string `json:"how"`
}

// encode writes the answer to a command.
func (c *Console) encode(command, text string) error {
	out := answer{Type: "debug", Command: command, Text: text}
	if c.session != nil {
		out.State = c.state()
	}
	return json.NewEncoder(c.Out).Encode(out)
}

func (c *Console) state() *state {
	s, st, r := c.session, c.session.State(), c.session.Recording()
	out := &state{
		Packet: s.Index() + 1, A: st.BPF.A, X: st.BPF.X, M: st.BPF.M[:bpf.MemWords], Differ: []difference{},
		Verdict: r.Verdict.String(), Want: r.Want, Got: r.Got,
	}
	if !st.Ended {
		out.PC = &st.BPF.PC
	}
	if st.Step != nil {
		n := &native{Call: st.Step.Call, Registers: map[string]string{}}
		for i, name := range st.Step.Names {
			n.Registers[name] = fmt.Sprintf("%#x", st.Step.Registers[i])
		}
		if !st.NativeEnded {
			n.Offset = &st.Step.Offset
		}
		if s.Mapped() && st.Step.Known {
			n.A, n.X = &st.Step.A, &st.Step.X
		}
		out.Native = n
	}
	for _, d := range st.Differences {
		out.Differ = append(out.Differ, difference{d.What, d.Used, d.How})
	}
	if d := r.Divergence; d != nil {
		out.Diverge = &divergence{What: d.What, How: s.Story(d)}
		if d.PC >= 0 {
			out.Diverge.PC = &d.PC
		}
	}
	return out
}
