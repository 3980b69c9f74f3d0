package memory

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/jev"
)

// Example is a labelled exchange: whether its user established durable knowledge, as people see it.
type Example struct {
	ID       string `json:"id"`
	Language string `json:"language"` // ISO 639-1
	Kind     string `json:"kind"`     // what makes it easy or hard: "rule", "quoted", "injection", …
	Durable  bool   `json:"durable"`
	Message  string `json:"message"`
	Answer   string `json:"answer"`
}

//go:embed testdata/exchanges.jsonl
var labelled []byte

// Examples reads the labelled exchanges that come with mikan.
func Examples() ([]Example, error) {
	var all []Example
	lines := bufio.NewScanner(bytes.NewReader(labelled))
	for lines.Scan() {
		var e Example
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&e); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "labelled exchange %d cannot be read", len(all)+1)
		}
		all = append(all, e)
	}
	return all, nil
}

// Report is how well a decision model judges the labelled exchanges.
type Report struct {
	Model    string    `json:"model"`
	Examples int       `json:"examples"`
	Durable  int       `json:"durable"`
	AUC      float64   `json:"auc"` // the chance that a durable exchange gets a higher probability than another
	At       Quality   `json:"at"`
	Others   []Quality `json:"others"`
	Mistakes []Mistake `json:"mistakes"` // at the threshold, the worst first
}

// Quality is precision and recall at a threshold. Without any exchange at or above it, precision is 1.
type Quality struct {
	Threshold float64 `json:"threshold"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
}

// Mistake is an exchange that was judged wrongly.
type Mistake struct {
	Example
	Probability float64 `json:"probability"`
}

// atOnce is how many questions are asked at once.
const atOnce = 4

// Score asks a judge about all labelled exchanges. The first failure ends it.
func Score(ctx context.Context, judge jev.Judge, threshold float64) (Report, error) {
	examples, err := Examples()
	if err != nil {
		return Report{}, err
	}
	judged := make([]Mistake, len(examples))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	var mu sync.Mutex
	for i, e := range examples {
		group.Go(func() error {
			answer, err := judge.Ask(ctx, Question(Exchange{Message: e.Message, Answer: e.Answer}))
			if err != nil {
				return fault.Wrap(fault.CodeOf(err), err, "exchange %s could not be judged", e.ID)
			}
			mu.Lock()
			defer mu.Unlock()
			judged[i] = Mistake{e, answer.Probability}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Report{}, err
	}
	return report(judged, threshold), nil
}

func report(judged []Mistake, threshold float64) Report {
	r := Report{Examples: len(judged), AUC: auc(judged), At: qualityAt(judged, threshold)}
	for tenth := 1; tenth < 10; tenth++ {
		r.Others = append(r.Others, qualityAt(judged, float64(tenth)/10))
	}
	for _, j := range judged {
		if j.Durable {
			r.Durable++
		}
		if j.Durable != (j.Probability >= threshold) {
			r.Mistakes = append(r.Mistakes, j)
		}
	}
	distance := func(m Mistake) float64 { return max(m.Probability-threshold, threshold-m.Probability) }
	slices.SortStableFunc(r.Mistakes, func(a, b Mistake) int { return cmp.Compare(distance(b), distance(a)) })
	return r
}

func qualityAt(judged []Mistake, threshold float64) Quality {
	var right, said, durable int
	for _, j := range judged {
		yes := j.Probability >= threshold
		if yes {
			said++
		}
		if j.Durable {
			durable++
			if yes {
				right++
			}
		}
	}
	q := Quality{Threshold: threshold, Precision: 1, Recall: 1}
	if said > 0 {
		q.Precision = float64(right) / float64(said)
	}
	if durable > 0 {
		q.Recall = float64(right) / float64(durable)
	}
	return q
}

// auc compares every durable exchange with every other; equal probabilities count half.
func auc(judged []Mistake) float64 {
	sum, pairs := 0.0, 0
	for _, a := range judged {
		for _, b := range judged {
			if !a.Durable || b.Durable {
				continue
			}
			pairs++
			switch {
			case a.Probability > b.Probability:
				sum++
			case a.Probability == b.Probability:
				sum += 0.5
			}
		}
	}
	if pairs == 0 {
		return 0
	}
	return sum / float64(pairs)
}

// String prints a report for people.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %d exchanges, %d of them durable\n\n", r.Model, r.Examples, r.Durable)
	fmt.Fprintf(&b, "AUC %.3f\nat %.2f: precision %.2f, recall %.2f\n\n", r.AUC, r.At.Threshold, r.At.Precision, r.At.Recall)
	b.WriteString("threshold  precision  recall\n")
	for _, q := range r.Others {
		fmt.Fprintf(&b, "%9.1f  %9.2f  %6.2f\n", q.Threshold, q.Precision, q.Recall)
	}
	if len(r.Mistakes) > 0 {
		fmt.Fprintf(&b, "\njudged wrongly at %.2f, the worst first:\n", r.At.Threshold)
	}
	for _, m := range r.Mistakes {
		label := "not durable"
		if m.Durable {
			label = "durable"
		}
		fmt.Fprintf(&b, "  %.2f  %-11s  %s  %s (%s): %s\n", m.Probability, label, m.ID, m.Kind, m.Language, firstCharacters(oneLine(m.Message), 80))
	}
	b.WriteString("\nThe study of mikan's original found precision 0.90 and recall 0.79 at 0.4, on exchanges of its own.\n")
	return b.String()
}
