package github

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/tool"
)

// written is how far back the work of the same call is looked for.
const written = time.Hour

// maxWritten is the longest text that a tool posts, in characters: GitHub's limit less the marker.
const maxWritten = 60_000

// textFor renders what a call writes and adds its marker.
func (a *Adapter) textFor(ctx context.Context, source string, call tool.Call) (string, error) {
	if utf8.RuneCountInString(source) > maxWritten {
		return "", fault.New(fault.TooLarge, "the text has more than %d characters", maxWritten)
	}
	return strings.TrimLeft(a.render(ctx, source)+"\n\n"+callMarker(call), "\n"), nil
}

// writeOnce comments, unless this very call has done so before. A reply that is lost is looked for.
func (a *Adapter) writeOnce(ctx context.Context, at target, source string, call tool.Call) (string, error) {
	body, err := a.textFor(ctx, source, call)
	if err != nil {
		return "", err
	}
	look := func() (string, bool, error) { return a.find(ctx, at, callKey(call), time.Now().Add(-written)) }
	if id, found, err := look(); err != nil || found {
		return id, err
	}
	id, err := a.comment(ctx, at, body)
	if fault.CodeOf(err) == fault.Unavailable {
		if id, found, again := look(); again == nil && found {
			return id, nil
		}
	}
	return id, err
}

// issueArguments are those of github_issue.
type issueArguments struct {
	Action string   `json:"action"`
	Number int      `json:"number"`
	Title  string   `json:"title"`
	Body   string   `json:"body"`
	Labels []string `json:"labels"`
}

func (a *Adapter) issueTool() tool.Tool {
	return &gitHubTool{
		adapter: a, replay: tool.Unsafe,
		spec: llm.ToolSpec{
			Name: "github_issue",
			Description: "Work on issues of this conversation's repository: \"create\" one (title, body, labels), \"comment\" on another one, " +
				"\"close\" or \"reopen\" one, or add labels (\"label\"). The answer to this conversation is posted by itself; do not comment here.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"action":{"type":"string","enum":["create","comment","close","reopen","label"]},` +
				`"number":{"type":"integer","minimum":1,"description":"The issue; not for create."},` +
				`"title":{"type":"string","description":"For create."},` +
				`"body":{"type":"string","description":"For create and comment, GitHub Flavored Markdown."},` +
				`"labels":{"type":"array","items":{"type":"string"},"description":"For create and label."}},"required":["action"]}`),
		},
		run: taking(func(ctx context.Context, at target, args issueArguments, call tool.Call) (string, error) {
			if args.Action == "create" {
				if strings.TrimSpace(args.Title) == "" {
					return "", fault.New(fault.Invalid, "an issue needs a title")
				}
				return a.createIssue(ctx, at, args.Title, args.Body, args.Labels, call)
			}
			if args.Number <= 0 {
				return "", fault.New(fault.Invalid, "say which issue by number")
			}
			at.Number = args.Number
			switch args.Action {
			case "comment":
				if strings.TrimSpace(args.Body) == "" {
					return "", fault.New(fault.Invalid, "say something in body")
				}
				id, err := a.writeOnce(ctx, at, args.Body, call)
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("Commented on #%d as %s.", at.Number, id), nil
			case "close", "reopen":
				state := map[string]string{"close": "closed", "reopen": "open"}[args.Action]
				return fmt.Sprintf("#%d is %s.", at.Number, state), a.setState(ctx, at, state)
			case "label":
				if len(args.Labels) == 0 {
					return "", fault.New(fault.Invalid, "name the labels to add")
				}
				return fmt.Sprintf("#%d has the labels.", at.Number), a.call(ctx, "tool_write", writing, rate.Final, func(ctx context.Context) error {
					_, _, err := a.api.Issues.AddLabelsToIssue(ctx, at.Owner, at.Repo, at.Number, args.Labels)
					return err
				})
			}
			return "", fault.New(fault.Invalid, "%q is nothing this tool does; see its schema", args.Action)
		}),
	}
}

// setState closes or reopens an issue; of a pull request that is its author's business.
func (a *Adapter) setState(ctx context.Context, at target, state string) error {
	i, err := a.issue(ctx, at)
	if err != nil {
		return err
	}
	if i.IsPullRequest() {
		return fault.New(fault.Forbidden, "#%d is a pull request; people close those", at.Number)
	}
	return a.call(ctx, "tool_write", writing, rate.Final, func(ctx context.Context) error {
		_, _, err := a.api.Issues.Edit(ctx, at.Owner, at.Repo, at.Number, &sdk.IssueRequest{State: &state})
		return err
	})
}

func (a *Adapter) createIssue(ctx context.Context, at target, title, source string, labels []string, call tool.Call) (string, error) {
	body, err := a.textFor(ctx, source, call)
	if err != nil {
		return "", err
	}
	made := func(n int) string { return fmt.Sprintf("Opened #%d.", n) }
	if n, found, err := a.findIssue(ctx, at, callKey(call)); err != nil || found {
		return made(n), err
	}
	request := &sdk.IssueRequest{Title: &title, Body: &body}
	if len(labels) > 0 {
		request.Labels = &labels
	}
	var i *sdk.Issue
	err = a.call(ctx, "tool_write", writing, rate.Final, func(ctx context.Context) (err error) {
		i, _, err = a.api.Issues.Create(ctx, at.Owner, at.Repo, request)
		return err
	})
	if fault.CodeOf(err) == fault.Unavailable {
		if n, found, again := a.findIssue(ctx, at, callKey(call)); again == nil && found {
			return made(n), nil
		}
	}
	return made(i.GetNumber()), err
}

// findIssue looks for an issue that this very call has opened.
func (a *Adapter) findIssue(ctx context.Context, at target, key string) (number int, found bool, err error) {
	me, err := a.self(ctx)
	if err != nil {
		return 0, false, err
	}
	var some []*sdk.Issue
	err = a.call(ctx, "find", reading, rate.Final, func(ctx context.Context) (err error) {
		some, _, err = a.api.Issues.ListByRepo(ctx, at.Owner, at.Repo, &sdk.IssueListByRepoOptions{
			State: "all", Creator: me.shown, Since: time.Now().Add(-written).UTC(), ListOptions: sdk.ListOptions{PerPage: perPage},
		})
		return err
	})
	for _, i := range some {
		if carries(i.GetUser(), i.GetBody(), key, me) {
			return i.GetNumber(), true, err
		}
	}
	return 0, false, err
}
