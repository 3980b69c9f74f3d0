package slacktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Info is what a client needs to know.
type Info struct {
	URL     string `json:"url"`
	API     string `json:"api"`
	Control string `json:"control"`
	Files   string `json:"files"`
	Foreign string `json:"foreign"`
	App     App    `json:"app"`
	Team    Team   `json:"team"`
}

// Info returns the addresses, the app and the first workspace.
func (s *Server) Info() Info {
	return Info{URL: s.url, API: s.APIURL(), Control: s.url + "/control/", Files: s.files, Foreign: s.foreign, App: s.App(), Team: s.Team()}
}

// None is what operations take or give when there is nothing to tell.
type None struct{}

// operation is one method of Server as /control/ offers it: JSON in, JSON out. Durations are in nanoseconds.
type operation func(*Server, context.Context, []byte) (any, error)

func op[In, Out any](do func(*Server, context.Context, In) (Out, error)) operation {
	return func(s *Server, ctx context.Context, raw []byte) (any, error) {
		var in In
		if len(bytes.TrimSpace(raw)) > 0 {
			d := json.NewDecoder(bytes.NewReader(raw))
			d.DisallowUnknownFields()
			if err := d.Decode(&in); err != nil {
				return nil, err
			}
		}
		return do(s, ctx, in)
	}
}

// Spot names a message, or a user in a channel.
type Spot struct {
	Channel string `json:"channel,omitempty"`
	TS      string `json:"ts,omitempty"`
	User    string `json:"user,omitempty"`
	Inviter string `json:"inviter,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Span is a time and, for disconnections, a reason.
type Span struct {
	For    time.Duration    `json:"for,omitempty"`
	Reason DisconnectReason `json:"reason,omitempty"`
}

// Listed is a list of names.
type Listed struct {
	Names []string `json:"names,omitempty"`
}

// Pace is how rates are kept.
type Pace struct {
	Mode  RateMode `json:"mode"`
	Scale float64  `json:"scale"`
}

// Counted is how many things an operation concerned.
type Counted struct {
	Count int `json:"count"`
}

func nothing(err error) (None, error) { return None{}, err }

// Operations are what /control/ offers, by name.
var operations = map[string]operation{
	"info":      op(func(s *Server, _ context.Context, _ None) (Info, error) { return s.Info(), nil }),
	"team":      op(func(s *Server, _ context.Context, n NewTeam) (Team, error) { return s.CreateTeam(n) }),
	"user":      op(func(s *Server, _ context.Context, n NewUser) (User, error) { return s.CreateUser(n) }),
	"usergroup": op(func(s *Server, _ context.Context, g UserGroup) (UserGroup, error) { return s.CreateUserGroup(g) }),
	"channel":   op(func(s *Server, _ context.Context, n NewChannel) (Channel, error) { return s.CreateChannel(n) }),
	"dm":        op(func(s *Server, _ context.Context, a Spot) (Channel, error) { return s.OpenDM(a.User) }),
	"file":      op(func(s *Server, _ context.Context, n NewFile) (File, error) { return s.CreateFile(n) }),
	"archive": op(func(s *Server, _ context.Context, a Spot) (None, error) {
		return nothing(s.Archive(a.Channel, Archived))
	}),
	"unarchive": op(func(s *Server, _ context.Context, a Spot) (None, error) { return nothing(s.Archive(a.Channel, Open)) }),
	"say":       op(func(s *Server, _ context.Context, w Saying) (Message, error) { return s.Say(w) }),
	"edit":      op(func(s *Server, _ context.Context, e Editing) (Message, error) { return s.Edit(e) }),
	"delete":    op(func(s *Server, _ context.Context, a Spot) (None, error) { return nothing(s.Delete(a.Channel, a.TS)) }),
	"join": op(func(s *Server, _ context.Context, a Spot) (None, error) {
		return nothing(s.Join(a.Channel, a.User, a.Inviter))
	}),
	"leave":   op(func(s *Server, _ context.Context, a Spot) (None, error) { return nothing(s.Leave(a.Channel, a.User)) }),
	"rename":  op(func(s *Server, _ context.Context, a Spot) (None, error) { return nothing(s.Rename(a.Channel, a.Name)) }),
	"command": op((*Server).Command),
	"press":   op((*Server).Press),
	"home":    op(func(s *Server, _ context.Context, a Spot) (None, error) { return nothing(s.OpenHome(a.User)) }),
	"assistant": op(func(s *Server, _ context.Context, a Spot) (AssistantThread, error) {
		return s.OpenAssistant(a.User, a.Channel)
	}),
	"redeliver": op(func(s *Server, _ context.Context, r Redelivery) (None, error) { return nothing(s.Redeliver(r)) }),
	"hold":      op(func(s *Server, _ context.Context, _ None) (None, error) { s.Hold(); return None{}, nil }),
	"release":   op(func(s *Server, _ context.Context, r Release) (Counted, error) { return Counted{s.Release(r)}, nil }),
	"forget":    op(func(s *Server, _ context.Context, _ None) (Counted, error) { return Counted{s.ForgetPending()}, nil }),
	"endpoints": op(func(s *Server, ctx context.Context, e Endpoints) (None, error) {
		return nothing(s.SetEndpoints(ctx, e))
	}),
	"scopes": op(func(s *Server, _ context.Context, l Listed) (None, error) {
		s.SetScopes(l.Names...)
		return None{}, nil
	}),
	"events": op(func(s *Server, _ context.Context, l Listed) (None, error) {
		s.SetEvents(l.Names...)
		return None{}, nil
	}),
	"fault":       op(func(s *Server, _ context.Context, f Fault) (None, error) { return nothing(s.Inject(f)) }),
	"clearfaults": op(func(s *Server, _ context.Context, _ None) (None, error) { s.ClearFaults(); return None{}, nil }),
	"rates":       op(func(s *Server, _ context.Context, p Pace) (None, error) { return nothing(s.SetRates(p.Mode, p.Scale)) }),
	"advance":     op(func(s *Server, _ context.Context, d Span) (None, error) { s.Advance(d.For); return None{}, nil }),
	"disconnect": op(func(s *Server, _ context.Context, d Span) (Counted, error) {
		return Counted{s.Disconnect(d.Reason, d.For)}, nil
	}),
	"silence": op(func(s *Server, _ context.Context, _ None) (Counted, error) { return Counted{s.Silence()}, nil }),
	"drop":    op(func(s *Server, _ context.Context, _ None) (Counted, error) { return Counted{s.DropSockets()}, nil }),
	"sockets": op(func(s *Server, _ context.Context, _ None) (Counted, error) { return Counted{s.Sockets()}, nil }),
	"stopstream": op(func(s *Server, _ context.Context, a Spot) (None, error) {
		return nothing(s.StopStream(a.Channel, a.TS))
	}),
	"expirestream": op(func(s *Server, _ context.Context, a Spot) (None, error) {
		return nothing(s.ExpireStream(a.Channel, a.TS))
	}),
	"messages": op(func(s *Server, _ context.Context, w Which) ([]Visible, error) { return s.Messages(w), nil }),
	"statuses": op(func(s *Server, _ context.Context, _ None) ([]Status, error) { return s.Statuses(), nil }),
	"threads": op(func(s *Server, _ context.Context, _ None) ([]AssistantThread, error) {
		return s.AssistantThreads(), nil
	}),
	"view":       op(func(s *Server, _ context.Context, a Spot) (HomeView, error) { v, _ := s.Home(a.User); return v, nil }),
	"calls":      op(func(s *Server, _ context.Context, l Listed) ([]Call, error) { return s.Calls(l.Names...), nil }),
	"deliveries": op(func(s *Server, _ context.Context, _ None) ([]Delivery, error) { return s.Deliveries(), nil }),
	"violations": op(func(s *Server, _ context.Context, _ None) ([]Violation, error) { return s.Violations(), nil }),
	"reset":      op(func(s *Server, _ context.Context, _ None) (None, error) { s.ResetRecords(); return None{}, nil }),
}

// serveControl does one operation.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	do, ok := operations[r.PathValue("op")]
	if !ok {
		writeJSON(w, http.StatusNotFound, reply{"error": "no operation " + r.PathValue("op"), "operations": sortedKeys(operations)})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 256<<20))
	if err != nil {
		writeJSON(w, http.StatusBadRequest, reply{"error": err.Error()})
		return
	}
	out, err := do(s, r.Context(), body)
	if err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, reply{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// Remote drives a server that runs as another process.
type Remote struct {
	Control string // Info.Control
}

// Do does an operation of a remote server: the method of Server that bears its name, with the same input and output.
func Do[Out any](ctx context.Context, r Remote, operation string, in any) (Out, error) {
	var out Out
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(r.Control, "/")+"/"+operation, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, err
	}
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("slacktest: %s: %d %s", operation, resp.StatusCode, bytes.TrimSpace(answer))
	}
	return out, json.Unmarshal(answer, &out)
}
