// Package clients has what each client's program does alike: steps, each with a name and a call, whose outcome is a line.
package clients

import (
	"fmt"
	"time"
)

// A Step is a call with its name. A broker answers reads by what it has applied, which is behind what a controller has
// answered: a read is repeated until it says Until, or for fifteen seconds, and then its last outcome counts.
type Step struct {
	Name  string
	Call  func() (any, error)
	Until string
}

// Run prints a line for each step; nameOf names an error.
func Run(steps []Step, nameOf func(error) string) {
	for _, step := range steps {
		ends := time.Now().Add(15 * time.Second)
		said := outcome(step, nameOf)
		for step.Until != "" && said != step.Until && time.Now().Before(ends) {
			time.Sleep(100 * time.Millisecond)
			said = outcome(step, nameOf)
		}
		fmt.Printf("%s: %s\n", step.Name, said)
	}
}

func outcome(step Step, nameOf func(error) string) string {
	found, err := step.Call()
	switch {
	case err != nil:
		return nameOf(err)
	case found == nil:
		return "done"
	}
	return fmt.Sprint(found)
}
