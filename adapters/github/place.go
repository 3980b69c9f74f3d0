package github

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
)

// target is where an answer goes, and what its signs are put on: the Reply of a Message. It comes from the event alone;
// no model can change it.
type target struct {
	Owner  string `json:"owner"`
	Repo   string `json:"repo"`
	Number int    `json:"number"`
	Pull   bool   `json:"pull,omitempty"`
	Thread int64  `json:"thread,omitempty"` // the first comment of an inline thread
}

// targetOf is where a message belongs: where the run was asked for, or, when a scheduled task is what began it, in the
// conversation that the task was made in.
func (a *Adapter) targetOf(ctx context.Context, m adapters.Outgoing) (target, error) {
	if len(m.Reply) == 0 || string(m.Reply) == "{}" {
		key, err := m.Address.Key()
		if err != nil {
			return target{}, fault.Wrap(fault.Invalid, err, "the conversation on GitHub is not known")
		}
		return a.placeOf(ctx, string(key))
	}
	return readTarget(m.Reply, m.Address)
}

func readTarget(raw json.RawMessage, at office.Address) (target, error) {
	var t target
	if err := json.Unmarshal(raw, &t); err != nil || t.Owner == "" || t.Repo == "" || t.Number <= 0 {
		return target{}, fault.New(fault.Invalid, "where the answer belongs on GitHub is not known")
	}
	issue, err := office.NewIssue(t.Owner, t.Repo, int64(t.Number))
	if err != nil || issue.Address() != at {
		return target{}, fault.New(fault.Invalid, "the answer belongs to another conversation on GitHub")
	}
	return t, nil
}

func (t target) full() string { return strings.ToLower(t.Owner + "/" + t.Repo) }

// kind is what was said or done. With the number GitHub gave it, it makes a message's id: GitHub counts each kind for
// itself, so the number alone would not do.
type kind string

const (
	kindIssue     kind = "issue"
	kindComment   kind = "comment"
	kindReview    kind = "review"
	kindInline    kind = "inline"
	kindAssigned  kind = "assigned"
	kindRequested kind = "requested"
)

func messageID(k kind, id int64) string { return fmt.Sprintf("%s-%d", k, id) }

// parseID reads a message id of ours; anything else is not_found.
func parseID(message string) (kind, int64, error) {
	name, digits, _ := strings.Cut(message, "-")
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id <= 0 {
		return "", 0, fault.New(fault.NotFound, "GitHub has no message of this id")
	}
	return kind(name), id, nil
}
