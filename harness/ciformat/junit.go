package ciformat

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// WriteJUnit writes the run as JUnit XML: a suite with a test for each result.
func (r *Run) WriteJUnit(w io.Writer) error {
	suite := junit.Testsuite{Name: clean(strings.TrimSpace("kjit "+r.Command+" "+r.Name), maxMessage), Time: seconds(r.Seconds)}
	if r.Version != "" {
		suite.AddProperty("version", clean(r.Version, maxMessage))
	}
	for _, p := range r.Properties {
		suite.AddProperty(clean(p.Name, maxMessage), clean(p.Value, maxMessage))
	}
	for i := range r.Results {
		suite.AddTestcase(r.testcase(&r.Results[i]))
	}
	var all junit.Testsuites
	all.AddSuite(suite)
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	if err := all.WriteXML(&b); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Run) testcase(res *Result) junit.Testcase {
	class := "kjit." + r.Command
	if res.Class != "" {
		class += "." + res.Class
	}
	c := junit.Testcase{Name: clean(res.Name, maxMessage), Classname: clean(class, maxMessage)}
	if res.Seconds > 0 {
		c.Time = seconds(res.Seconds)
	}
	message, detail := clean(res.Message, maxMessage), clean(res.Detail, maxDetail)
	switch res.Outcome {
	case Failed:
		if res.File != "" {
			detail = fmt.Sprintf("%s:%d\n%s", clean(res.File, maxMessage), max(res.Line, 1), detail)
		}
		c.Failure = &junit.Result{Message: message, Type: clean(res.Kind, maxMessage), Data: detail}
	case Skipped:
		c.Skipped = &junit.Result{Message: message}
	default:
		if message != "" {
			c.SystemOut = &junit.Output{Data: message}
		}
	}
	return c
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
