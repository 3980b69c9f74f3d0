package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/text"
)

// migrateOutput tells of an import: a bar on a terminal, lines otherwise, one JSON object per step with --json.
type migrateOutput struct {
	out, err io.Writer
	asJSON   bool
	bar      bool // standard error is a terminal
	drawn    int  // width of the bar that stands there
}

func newMigrateOutput(out, errOut io.Writer, f migrateFlags) *migrateOutput {
	o := &migrateOutput{out: out, err: errOut, asJSON: f.asJSON}
	if file, ok := errOut.(*os.File); ok && !f.asJSON {
		o.bar = term.IsTerminal(int(file.Fd()))
	}
	return o
}

func (o *migrateOutput) event(e migrate.Event) {
	if o.asJSON {
		encoder := json.NewEncoder(o.out)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(e)
		return
	}
	if e.Step == migrate.StepProgress {
		o.progress(e)
		return
	}
	if line := migrateLine(e); line != "" {
		o.wipe()
		_, _ = fmt.Fprintln(o.out, text.VisibleLine(line))
	}
}

// migrateLine is a step for people; "" for those that --json alone shows.
func migrateLine(e migrate.Event) string {
	switch e.Step {
	case migrate.StepSchema:
		return fmt.Sprintf("schema: version %d (was %d)", *e.To, *e.From)
	case migrate.StepRepair:
		return fmt.Sprintf("repair: %s: %s", place(e.Path, e.Line), e.Text)
	case migrate.StepWaiting:
		return e.Text
	case migrate.StepPlan:
		verb := "importing"
		if e.DryRun {
			verb = "would import"
		}
		t := e.Totals
		line := fmt.Sprintf("plan: %s %d sessions with %d entries, %d messages and %d schedules of %d conversations", verb, t.Sessions, t.Entries, t.Messages, t.Schedules, t.Offices)
		if t.Present > 0 {
			line += fmt.Sprintf("; %d sessions are in already", t.Present)
		}
		if t.Skipped > 0 {
			line += fmt.Sprintf("; %d broken files are left out", t.Skipped)
		}
		return line
	case migrate.StepSchedule:
		return fmt.Sprintf("schedule: %s is %s", e.Path, e.Key)
	case migrate.StepOffice:
		return "done: " + e.Office
	case migrate.StepProblem:
		return "problem: " + e.Problem.String()
	case migrate.StepDone:
		return "the import is complete"
	}
	return ""
}

func place(path string, line int) string {
	if line == 0 {
		return path
	}
	return fmt.Sprintf("%s:%d", path, line)
}

func (o *migrateOutput) progress(e migrate.Event) {
	percent := int64(100)
	if e.Total > 0 {
		percent = min(100, 100*e.Done/e.Total)
	}
	line := fmt.Sprintf("%s: %d of %d MiB (%d%%)", e.Phase, e.Done>>20, e.Total>>20, percent)
	if !o.bar {
		_, _ = fmt.Fprintln(o.err, line)
		return
	}
	const width = 30
	full := int(percent) * width / 100
	line = fmt.Sprintf("[%s%s] %s", strings.Repeat("=", full), strings.Repeat(" ", width-full), line)
	_, _ = fmt.Fprintf(o.err, "\r%-*s", o.drawn, line)
	o.drawn = len(line)
}

func (o *migrateOutput) wipe() {
	if o.drawn > 0 {
		_, _ = fmt.Fprintf(o.err, "\r%*s\r", o.drawn, "")
		o.drawn = 0
	}
}

// refused tells why nothing was done. The problems themselves were told as they are: step by step.
func (o *migrateOutput) refused(e *migrate.Refused) {
	o.wipe()
	_, _ = fmt.Fprintf(o.err, "mikan: refused, and nothing was written: %d problems are listed above; mend them and run the command again\n", len(e.Problems))
}

func (o *migrateOutput) failed(err error) {
	o.wipe()
	_, _ = fmt.Fprintf(o.err, "mikan: %v\nmikan: what was imported stays; run the same command again to go on\n", err)
}

func (o *migrateOutput) advise(what string) {
	o.wipe()
	_, _ = fmt.Fprintln(o.err, what)
}
