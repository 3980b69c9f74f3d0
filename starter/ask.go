package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/web"
)

func (c *cli) askCommand() *cobra.Command {
	var in terminal.Input
	var replyTo string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ask [flags] TEXT",
		Short: "Send TEXT on the terminal platform and print the answer",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case in.Thread != "" && replyTo != "" && in.Thread != replyTo:
				return usageError{fmt.Errorf("--thread and --reply-to name different messages; give one of them")}
			case in.Thread == "":
				in.Thread = replyTo
			}
			in.Text = args[0]
			if strings.TrimSpace(in.Text) == "" {
				return usageError{fmt.Errorf("the text is empty; say what you want to ask")}
			}
			b, err := c.open(cmd.Context())
			if err != nil {
				return err
			}
			defer b.Close()
			all, err := pipelines(b)
			if err != nil {
				return err
			}
			a := &asker{backend: b, intake: all.Intake, live: io.Discard}
			if !asJSON && term.IsTerminal(int(os.Stdout.Fd())) {
				a.live = os.Stdout
			}
			return a.askOnce(cmd.Context(), in, printer(cmd.OutOrStdout(), asJSON))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&in.Conversation, "conversation", "cli", "conversation to speak in")
	flags.StringVar(&in.Thread, "thread", "", "message id to open or continue a thread under")
	flags.StringVar(&replyTo, "reply-to", "", "message id to reply to (the same as --thread on the terminal)")
	flags.StringVar(&in.User, "user", userName(), "name to speak under")
	flags.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "you"
}

// result is what `ask --json` prints.
type result struct {
	RunID         string      `json:"run_id"`
	TemporalRunID string      `json:"temporal_run_id"`
	WorkflowID    string      `json:"workflow_id"`
	TriggerID     string      `json:"trigger_id"`
	AnswerID      string      `json:"answer_id"`
	SessionKey    string      `json:"session_key"`
	OfficeKey     string      `json:"office_key"`
	Outcome       run.Outcome `json:"outcome"`
	Answer        string      `json:"answer"`

	shown string // what of the answer was shown live already
}

// printer prints a result and makes its outcome the exit code.
func printer(out io.Writer, asJSON bool) func(result) error {
	return func(r result) error {
		if asJSON {
			if err := printJSON(out, r); err != nil {
				return err
			}
		} else if err := r.printRest(out); err != nil {
			return err
		}
		if r.Outcome == run.Failed {
			return &exitError{exitFailed}
		}
		return nil
	}
}

// printRest prints the answer, or what is left of it when its beginning was shown live.
func (r result) printRest(out io.Writer) error {
	rest, grown := strings.CutPrefix(r.Answer, r.shown)
	switch {
	case r.Answer == "" && r.shown == "":
		return nil
	case !grown:
		rest = "\n" + r.Answer // the draft was replaced: by an error, or by the text without what was trimmed
	}
	_, err := fmt.Fprintln(out, rest)
	return err
}

// asker speaks on the terminal platform and waits for what comes back.
type asker struct {
	backend *backend.Backend
	intake  *adapters.Intake
	live    io.Writer // where an answer is shown while it grows
}

func (a *asker) askOnce(ctx context.Context, in terminal.Input, show func(result) error) error {
	m, err := terminal.Message(in)
	if err != nil {
		return err
	}
	// A fresh Temporal refuses a start that carries attributes it does not know. The message is safe meanwhile: it is
	// committed first, and the sweeper of whoever serves starts it.
	receipt, err := a.receive(ctx, m)
	if err == nil && receipt.Decision == adapters.Stranged {
		err = fault.New(fault.Forbidden, "%s may not talk to mikan here; see: mikan access list terminal, and mikan office show %s", in.User, receipt.OfficeKey)
	}
	if err != nil {
		return err
	}
	r, err := a.await(ctx, m, receipt)
	if err != nil {
		return err
	}
	return show(r)
}

func (a *asker) receive(ctx context.Context, m adapters.Message) (adapters.Receipt, error) {
	ready, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	if a.backend.Reachable(ready) == nil {
		if err := a.backend.AwaitTemporal(ready, func(s string) { fmt.Fprintln(os.Stderr, "mikan: "+s) }); err != nil {
			return adapters.Receipt{}, err
		}
	}
	return a.intake.Receive(ctx, m)
}

// How the wait looks for its end: by notification, and by looking when none came.
const (
	lookEvery   = 250 * time.Millisecond
	servedEvery = time.Second
	unservedFor = 15 * time.Second // after a worker's last note has lapsed: one that is started again soon is not gone
	begunFor    = 45 * time.Second // for a run that somebody has begun: a worker that is replaced takes its time to start
	unknownFor  = 90 * time.Second // for such a run, while nobody can tell who serves
)

// await waits until the message is answered, or carried out, showing the draft as it grows.
func (a *asker) await(ctx context.Context, m adapters.Message, receipt adapters.Receipt) (result, error) {
	r := result{
		RunID: receipt.RunID, WorkflowID: receipt.WorkflowID, TriggerID: m.ID, SessionKey: receipt.SessionKey, OfficeKey: receipt.OfficeKey,
	}
	settled, stop := a.backend.Store.Settlements(ctx)
	defer stop()
	served, unserved := time.Now(), unservedFor
	var unknown error // why the last look could not tell who serves
	lastLook := time.Time{}
	draft := draftPrinter{out: a.live}
	for {
		done, err := a.look(ctx, receipt, &r, &draft)
		if err != nil && fault.CodeOf(err) != fault.Unavailable {
			return r, err
		}
		if done {
			return r, nil
		}
		if time.Since(lastLook) > servedEvery {
			lastLook = time.Now()
			ok, err := a.backend.Served(ctx)
			unserved, unknown = unservedFor, err
			switch {
			case r.TemporalRunID == "":
			case err != nil:
				unserved = unknownFor
			default:
				unserved = begunFor
			}
			if ok {
				served = time.Now()
			}
		}
		if time.Since(served) > unserved {
			return r, a.unserved(unknown)
		}
		select {
		case <-settled:
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// look reads how far the message has come; true when that is the end.
func (a *asker) look(ctx context.Context, receipt adapters.Receipt, r *result, draft *draftPrinter) (bool, error) {
	if receipt.Decision != adapters.Queued {
		// A word: its notice is the answer.
		notice, found, err := a.backend.Store.NoticeFor(ctx, receipt.OfficeKey, r.TriggerID)
		if err != nil || !found || notice.State == store.Intended {
			return false, err
		}
		r.Outcome, r.Answer, r.AnswerID = run.Answered, notice.Text, notice.MessageID
		if notice.State == store.Posted {
			return false, nil
		}
		return true, a.fillLink(ctx, receipt, r)
	}
	found, err := a.backend.Store.Run(ctx, receipt.RunID)
	if fault.CodeOf(err) == fault.NotFound {
		waiting, err := a.backend.Store.InboxHas(ctx, receipt.OfficeKey, r.TriggerID)
		if err != nil || waiting {
			return false, err
		}
		// Its row is gone: dropped, unless its claim was committed between the two looks.
		found, err = a.backend.Store.Run(ctx, receipt.RunID)
		if fault.CodeOf(err) == fault.NotFound {
			r.Outcome = run.Dropped
			return true, nil
		}
		return a.lookAt(ctx, found, err, r, draft)
	}
	return a.lookAt(ctx, found, err, r, draft)
}

// lookAt reads how far a run has come, or passes on that it could not be read.
func (a *asker) lookAt(ctx context.Context, found store.Run, err error, r *result, draft *draftPrinter) (bool, error) {
	if err != nil {
		return false, err
	}
	r.TemporalRunID = found.TemporalRunID
	said, err := a.backend.Store.RunDeliveries(ctx, found.ID)
	if err != nil {
		return false, err
	}
	if found.State == store.Running {
		if len(said) > 0 {
			draft.show(said[0].Text)
		}
		return false, nil
	}
	r.Outcome = found.Outcome
	for _, s := range said {
		// What answers somebody's "stop" is no answer to this message, unless there is no other.
		if s.State == store.Final && (s.CauseID == "" || r.Answer == "") {
			r.Answer, r.AnswerID = s.Text, s.MessageID
		}
	}
	r.shown = draft.shown
	return true, nil
}

// fillLink puts a link in place of the mark that the stored notice has. Links are kept nowhere, and whoever speaks on
// the terminal platform can make one as well as the gateway.
func (a *asker) fillLink(ctx context.Context, receipt adapters.Receipt, r *result) error {
	if !strings.Contains(r.Answer, adapters.LinkMark) {
		return nil
	}
	session, known, err := a.backend.Store.CurrentSession(ctx, receipt.OfficeKey, receipt.SessionKey)
	if err != nil || !known {
		return err
	}
	token, _, err := a.backend.Store.CreateLink(ctx, session.ID, store.LinkLifetime)
	if err != nil {
		return err
	}
	r.Answer = strings.Replace(r.Answer, adapters.LinkMark, web.Link(platforms.PublicURL(a.backend.Config), token), 1)
	return nil
}

func (a *asker) unserved(unknown error) error {
	why := fmt.Sprintf("nothing serves the queue %q", a.backend.Config.TaskQueue)
	if unknown != nil {
		why = fmt.Sprintf("nobody can tell whether anything serves the queue %q (%v)", a.backend.Config.TaskQueue, unknown)
	}
	fmt.Fprintf(os.Stderr, "mikan: %s; the message is kept and will be answered when a worker starts (go run ./worker, or go run ./starter dev)\n", why)
	return &exitError{exitUnserved}
}

// draftPrinter shows a growing answer by printing what is new: each tool call on a line of its own, then the text. The
// calls disappear from the final message, which is the text alone.
type draftPrinter struct {
	out   io.Writer
	calls map[string]bool
	shown string // of the text
}

func (d *draftPrinter) show(draft string) {
	if d.out == io.Discard {
		return
	}
	calls, text := adapters.CutCalls(draft)
	for _, line := range calls {
		if !d.calls[line] && d.shown == "" {
			_, _ = fmt.Fprintln(d.out, line)
		}
		if d.calls == nil {
			d.calls = map[string]bool{}
		}
		d.calls[line] = true
	}
	if rest, grown := strings.CutPrefix(text, d.shown); grown && rest != "" {
		_, _ = fmt.Fprint(d.out, rest)
		d.shown = text
	}
}
