package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
)

// keptSteps is how many of the newest steps the current details list.
const keptSteps = 50

// progress keeps the run's current details for the Temporal UI: a Markdown list of steps, with our own names only.
type progress struct {
	ctx     workflow.Context
	dropped int
	steps   []string
}

func (p *progress) began(what string) {
	p.steps = append(p.steps, "- "+what+" …")
	if len(p.steps) > keptSteps {
		p.steps = p.steps[1:]
		p.dropped++
	}
	p.show()
}

func (p *progress) ended(took time.Duration, tokens int64, err error) {
	last := len(p.steps) - 1
	line := strings.TrimSuffix(p.steps[last], " …") + fmt.Sprintf(" — %.1f s", took.Seconds())
	if tokens > 0 {
		line += fmt.Sprintf(", %d tokens", tokens)
	}
	if err != nil {
		line += ", " + string(codeOf(err))
	}
	p.steps[last] = line
	p.show()
}

func (p *progress) show() {
	text := strings.Join(p.steps, "\n")
	if p.dropped > 0 {
		text = fmt.Sprintf("- %d earlier steps\n", p.dropped) + text
	}
	workflow.SetCurrentDetails(p.ctx, text)
}
