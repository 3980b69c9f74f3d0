package github

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/tool"
)

var _ adapters.Toolbox = (*Adapter)(nil)

// Tools are what the model can do on GitHub beside answering, in the repository of its own conversation and no other.
// Opening issues and pull requests must be allowed by the configuration. There is nothing that merges, moves a branch by
// force, locks or deletes.
func (a *Adapter) Tools() []tool.Tool {
	tools := []tool.Tool{a.readTool(), a.checksTool(), a.replyTool()}
	if slices.Contains(a.settings.Capabilities, config.MayOpenIssues) {
		tools = append(tools, a.issueTool())
	}
	if slices.Contains(a.settings.Capabilities, config.MayOpenPullRequests) {
		tools = append(tools, a.pullTool())
	}
	return tools
}

// gitHubTool is one tool: what the model is told of it, and what it does in a conversation's repository.
type gitHubTool struct {
	adapter *Adapter
	spec    llm.ToolSpec
	replay  tool.Replay
	// run returns what the model reads. Errors with a code that is no bug are read by the model, too.
	run func(ctx context.Context, at target, call tool.Call) (string, error)
}

var (
	_ tool.Tool   = (*gitHubTool)(nil)
	_ tool.Placed = (*gitHubTool)(nil)
)

func (t *gitHubTool) Spec() llm.ToolSpec        { return t.spec }
func (t *gitHubTool) Replay() tool.Replay       { return t.replay }
func (t *gitHubTool) Platform() office.Platform { return office.GitHub }

// Run implements tool.Tool.
func (t *gitHubTool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	at, err := t.adapter.placeOf(ctx, call.Place.OfficeKey)
	var said string
	if err == nil {
		said, err = t.run(ctx, at, call)
	}
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case err != nil:
		return tool.Result{Text: "Not done: " + err.Error() + ".", IsError: true}, nil
	}
	return tool.Result{Text: said}, nil
}

// placeOf is the issue or pull request that an office is about: it comes from the run, never from the call.
func (a *Adapter) placeOf(ctx context.Context, officeKey string) (target, error) {
	o, err := a.Store.Office(ctx, officeKey)
	if err != nil {
		return target{}, err
	}
	if o.Platform != string(office.GitHub) || o.RepoOwner == "" {
		return target{}, fault.New(fault.Invalid, "this tool works in conversations on GitHub only")
	}
	return target{Owner: o.RepoOwner, Repo: o.RepoName, Number: int(o.IssueNumber)}, nil
}

// taking makes a tool's run of one that takes its arguments as A.
func taking[A any](run func(ctx context.Context, at target, args A, call tool.Call) (string, error)) func(context.Context, target, tool.Call) (string, error) {
	return func(ctx context.Context, at target, call tool.Call) (string, error) {
		var args A
		if err := tool.Arguments(call.Arguments, &args); err != nil {
			return "", err
		}
		return run(ctx, at, args, call)
	}
}

// callMarker stands at the end of what a call wrote, so that the same call never writes it twice.
func callMarker(call tool.Call) string { return marker(callKey(call)) }

// callKey is a call's key in a form that fits a marker and a branch's name.
func callKey(call tool.Call) string {
	sum := sha256.Sum256([]byte(call.Key))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:12]))
}

// who is the author of something that is quoted, with how far they can be trusted.
func who(u *sdk.User, association string) string {
	name := u.GetLogin()
	if name == "" {
		name = ghost
	}
	if outside(association) {
		return name + untrusted
	}
	return name + " (" + strings.ToLower(association) + ")"
}

// quoted is a text as it is shown to the model: without markers.
func quoted(body string) string {
	body = strings.TrimSpace(body)
	if at := strings.LastIndex(body, "<!-- mikan:"); at >= 0 && strings.HasSuffix(body, "-->") {
		body = strings.TrimSpace(body[:at])
	}
	if body == "" {
		return "(nothing)"
	}
	return body
}

// checksArguments are those of github_checks.
type checksArguments struct {
	Number int    `json:"number"`
	Ref    string `json:"ref"`
}

func (a *Adapter) checksTool() tool.Tool {
	return &gitHubTool{
		adapter: a, replay: tool.Safe,
		spec: llm.ToolSpec{
			Name: "github_checks",
			Description: "Show the check runs and commit statuses of a pull request's newest commit, or of another commit, branch or tag of " +
				"this conversation's repository.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"number":{"type":"integer","minimum":1,"description":"A pull request (default: this one)."},` +
				`"ref":{"type":"string","description":"A commit, branch or tag instead of a pull request."}}}`),
		},
		run: taking(func(ctx context.Context, at target, args checksArguments, call tool.Call) (string, error) {
			if args.Number > 0 {
				at.Number = args.Number
			}
			if args.Ref == "" {
				p, err := a.pullRequest(ctx, at)
				if err != nil {
					return "", err
				}
				args.Ref = p.GetHead().GetSHA()
			}
			return a.checks(ctx, at, args.Ref)
		}),
	}
}

func (a *Adapter) issue(ctx context.Context, at target) (i *sdk.Issue, err error) {
	err = a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) error {
		i, _, err = a.api.Issues.Get(ctx, at.Owner, at.Repo, at.Number)
		return err
	})
	return i, err
}

func (a *Adapter) pullRequest(ctx context.Context, at target) (p *sdk.PullRequest, err error) {
	err = a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) error {
		p, _, err = a.api.PullRequests.Get(ctx, at.Owner, at.Repo, at.Number)
		return err
	})
	if fault.CodeOf(err) == fault.NotFound {
		return nil, fault.New(fault.NotFound, "#%d is no pull request of this repository that the token may see", at.Number)
	}
	return p, err
}

func (a *Adapter) checks(ctx context.Context, at target, ref string) (string, error) {
	var runs *sdk.ListCheckRunsResults
	var statuses *sdk.CombinedStatus
	err := a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) (err error) {
		runs, _, err = a.api.Checks.ListCheckRunsForRef(ctx, at.Owner, at.Repo, ref, &sdk.ListCheckRunsOptions{ListOptions: sdk.ListOptions{PerPage: perPage}})
		return err
	})
	if err != nil {
		return "", err
	}
	err = a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) (err error) {
		statuses, _, err = a.api.Repositories.GetCombinedStatus(ctx, at.Owner, at.Repo, ref, &sdk.ListOptions{PerPage: perPage})
		return err
	})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Commit %s: %d check runs, %d statuses.\n", ref, runs.GetTotal(), statuses.GetTotalCount())
	for _, r := range runs.CheckRuns {
		state := r.GetStatus()
		if r.GetConclusion() != "" {
			state = r.GetConclusion()
		}
		fmt.Fprintf(&b, "- check %s: %s", r.GetName(), state)
		if s := strings.TrimSpace(r.GetOutput().GetSummary()); s != "" && state != "success" {
			fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(s, "\n", "\n  "))
		}
		b.WriteByte('\n')
	}
	for _, s := range statuses.Statuses {
		fmt.Fprintf(&b, "- status %s: %s %s\n", s.GetContext(), s.GetState(), s.GetDescription())
	}
	return b.String(), nil
}

// replyArguments are those of github_review_reply.
type replyArguments struct {
	Comment string `json:"comment"`
	Text    string `json:"text"`
}

func (a *Adapter) replyTool() tool.Tool {
	return &gitHubTool{
		adapter: a, replay: tool.Unsafe,
		spec: llm.ToolSpec{
			Name: "github_review_reply",
			Description: "Answer in an inline review thread of this pull request, beside the answer to the conversation itself, which is " +
				"posted by itself where it belongs. The text is GitHub Flavored Markdown.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"comment":{"type":"string","description":"Any comment of the thread, as github_read shows it: inline-123."},` +
				`"text":{"type":"string","description":"What to say."}},"required":["comment","text"]}`),
		},
		run: taking(func(ctx context.Context, at target, args replyArguments, call tool.Call) (string, error) {
			if !strings.Contains(args.Comment, "-") {
				args.Comment = string(kindInline) + "-" + args.Comment
			}
			k, id, err := parseID(args.Comment)
			if err != nil || k != kindInline || strings.TrimSpace(args.Text) == "" {
				return "", fault.New(fault.Invalid, "name an inline comment like inline-123, and say something")
			}
			return a.replyInThread(ctx, at, id, args.Text, call)
		}),
	}
}

func (a *Adapter) replyInThread(ctx context.Context, at target, id int64, text string, call tool.Call) (string, error) {
	var c *sdk.PullRequestComment
	err := a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) (err error) {
		c, _, err = a.api.PullRequests.GetComment(ctx, at.Owner, at.Repo, id)
		return err
	})
	if err != nil {
		return "", err
	}
	if numberIn(c.GetPullRequestURL()) != at.Number {
		return "", fault.New(fault.Forbidden, "the comment belongs to another pull request")
	}
	at.Thread = c.GetID()
	if root := c.GetInReplyTo(); root != 0 {
		at.Thread = root
	}
	message, err := a.writeOnce(ctx, at, text, call)
	if err != nil {
		return "", err
	}
	return "Answered in the thread as " + message + ".", nil
}
