package memory_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/jev"
	"github.com/geminixiang/mikan/internal/memory"
)

// scripted judges by a function of the message.
type scripted func(message string) (float64, error)

func (s scripted) Ask(_ context.Context, q jev.Question) (jev.Judgement, error) {
	var state struct {
		Message string `json:"user_message"`
	}
	if err := json.Unmarshal([]byte(q.State), &state); err != nil {
		return jev.Judgement{}, err
	}
	p, err := s(state.Message)
	return jev.Judgement{Probability: p}, err
}

func examples(t *testing.T) map[string]memory.Example {
	t.Helper()
	all, err := memory.Examples()
	if err != nil {
		t.Fatal(err)
	}
	byMessage := map[string]memory.Example{}
	for _, e := range all {
		byMessage[e.Message] = e
	}
	if len(byMessage) != len(all) {
		t.Errorf("%d messages in %d exchanges", len(byMessage), len(all))
	}
	return byMessage
}

func TestTheLabelledSetIsLargeAndMixed(t *testing.T) {
	t.Parallel()
	durable, languages, adversarial := 0, map[string]bool{}, 0
	all := examples(t)
	for _, e := range all {
		if e.Durable {
			durable++
		}
		languages[e.Language] = true
		if strings.Contains("quoted injection automated assistant claim", e.Kind) {
			adversarial++
		}
		if e.ID == "" || e.Kind == "" || e.Message == "" || e.Answer == "" {
			t.Errorf("%+v lacks something", e)
		}
	}
	if len(all) < 120 || durable < 50 || len(all)-durable < 50 || len(languages) < 10 || adversarial < 15 {
		t.Errorf("%d exchanges, %d durable, %d languages, %d adversarial", len(all), durable, len(languages), adversarial)
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	all := examples(t)
	durable := 0.0
	for _, e := range all {
		if e.Durable {
			durable++
		}
	}
	share := durable / float64(len(all))
	for _, c := range []struct {
		name                   string
		judge                  scripted
		precision, recall, auc float64
		mistakes               int
	}{
		{"a judge who is always right", func(m string) (float64, error) {
			return map[bool]float64{true: 0.4, false: 0.39}[all[m].Durable], nil
		}, 1, 1, 1, 0},
		{"one who says yes to everything", func(string) (float64, error) { return 0.9, nil }, share, 1, 0.5, len(all) - int(durable)},
		{"one who says no to everything", func(string) (float64, error) { return 0.1, nil }, 1, 0, 0.5, int(durable)},
		{"one who is always wrong", func(m string) (float64, error) {
			return map[bool]float64{true: 0.1, false: 0.9}[all[m].Durable], nil
		}, 0, 0, 0, len(all)},
		{"one who ranks well but too low", func(m string) (float64, error) {
			return map[bool]float64{true: 0.3, false: 0.2}[all[m].Durable], nil
		}, 1, 0, 1, int(durable)},
	} {
		r, err := memory.Score(t.Context(), c.judge, 0.4)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(r.At.Precision-c.precision)+math.Abs(r.At.Recall-c.recall)+math.Abs(r.AUC-c.auc) > 1e-9 || len(r.Mistakes) != c.mistakes {
			t.Errorf("%s: %+v, AUC %.3f, %d mistakes", c.name, r.At, r.AUC, len(r.Mistakes))
		}
		if said := r.String(); !strings.Contains(said, "precision 0.90 and recall 0.79 at 0.4") {
			t.Errorf("%s", said)
		}
	}
	_, err := memory.Score(t.Context(), scripted(func(string) (float64, error) { return 0, fault.New(fault.Forbidden, "refused") }), 0.4)
	if fault.CodeOf(err) != fault.Forbidden {
		t.Errorf("a failing judge: %v", err)
	}
}
