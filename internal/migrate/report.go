package migrate

import (
	"fmt"
	"strings"
)

// Problem is why an import is refused, or why a file was left out.
type Problem struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"` // from 1; absent when it is about the file or directory as a whole
	What string `json:"problem"`
	Fix  string `json:"fix"`
	// Broken files can be left out with --skip-broken; anything else has to be mended first.
	Skippable bool `json:"skippable"`
}

func (p Problem) String() string {
	return fmt.Sprintf("%s: %s (%s)", describe(p.Path, p.Line), p.What, p.Fix)
}

// Refused is the error of an import that was not begun: it holds everything that stands in its way.
type Refused struct{ Problems []Problem }

func (e *Refused) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	lines = append(lines, fmt.Sprintf("nothing was written, because of %d problems:", len(e.Problems)))
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// Step names what an Event tells of. The names are part of the documented output.
type Step string

// The steps.
const (
	StepPlan     Step = "plan"     // what will be done, before anything is
	StepRepair   Step = "repair"   // something that is put right or left out on the way in
	StepProblem  Step = "problem"  // a reason to refuse, or a file that is left out
	StepSchema   Step = "schema"   // the schema was migrated
	StepProgress Step = "progress" // how far reading or importing is
	StepSession  Step = "session"  // a session is in
	StepLog      Step = "log"      // a chat log is in
	StepSchedule Step = "schedule" // a schedule is in
	StepSetting  Step = "settings" // settings are in
	StepOffice   Step = "office"   // a conversation is in, verified, and its original sessions are moved away
	StepWaiting  Step = "waiting"  // another import is at work on this database
	StepDone     Step = "done"     // the end, with totals
)

// Event is one step of an import, as --json prints it. Fields that do not belong to a step are absent.
type Event struct {
	Step   Step   `json:"step"`
	DryRun bool   `json:"dry_run,omitempty"`
	Phase  string `json:"phase,omitempty"` // of progress: reading, importing

	Office  string `json:"office,omitempty"` // office key
	Path    string `json:"path,omitempty"`
	Line    int    `json:"line,omitempty"`
	Session string `json:"session,omitempty"` // id
	Key     string `json:"key,omitempty"`     // session key
	Text    string `json:"text,omitempty"`    // a sentence for people

	Problem *Problem `json:"problem,omitempty"`

	From *int64 `json:"from,omitempty"` // schema versions
	To   *int64 `json:"to,omitempty"`

	Done    int64  `json:"done,omitempty"`  // bytes, of progress
	Total   int64  `json:"total,omitempty"` // bytes, of progress
	Entries int64  `json:"entries,omitempty"`
	Totals  *Total `json:"totals,omitempty"`
}

// Total counts what an import found or did.
type Total struct {
	Offices   int   `json:"offices"`
	Sessions  int   `json:"sessions"`
	Entries   int64 `json:"entries"`
	Messages  int64 `json:"messages"`
	Schedules int   `json:"schedules"`
	Present   int   `json:"already_imported"` // sessions that an earlier run imported
	Skipped   int   `json:"skipped"`          // broken files that were left out
	Repairs   int   `json:"repairs"`
	Bytes     int64 `json:"bytes"` // of session files and logs
}
