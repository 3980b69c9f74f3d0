package github

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/tool"
	"github.com/geminixiang/mikan/internal/workfile"
)

// branchPrefix is that of every branch that mikan writes to; it touches no other.
const branchPrefix = "mikan/"

// Bounds of one commit.
const (
	maxFiles    = 100
	maxFileSize = 1 << 20 // bytes
)

var branchName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

// pullArguments are those of github_pr.
type pullArguments struct {
	Action  string       `json:"action"`
	Title   string       `json:"title"`
	Body    string       `json:"body"`
	Branch  string       `json:"branch"`
	Base    string       `json:"base"`
	Message string       `json:"message"`
	Files   []fileChange `json:"files"`
}

// fileChange is one file of a commit.
type fileChange struct {
	Path       string  `json:"path"`
	Content    *string `json:"content"`
	Source     string  `json:"source"`
	Delete     bool    `json:"delete"`
	Executable bool    `json:"executable"`
}

func (a *Adapter) pullTool() tool.Tool {
	return &gitHubTool{
		adapter: a, replay: tool.Unsafe,
		spec: llm.ToolSpec{
			Name: "github_pr",
			Description: "Open a pull request in this conversation's repository (\"create\"), or add a commit to the branch of one that you opened " +
				"(\"update\"). The commit is made of files: their content here, or the path of a file in your workspace as source. Branches are " +
				"called mikan/…; no other branch is touched, nothing is merged.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"action":{"type":"string","enum":["create","update"]},` +
				`"title":{"type":"string","description":"For create."},` +
				`"body":{"type":"string","description":"For create, GitHub Flavored Markdown."},` +
				`"branch":{"type":"string","description":"Name of the branch, without mikan/. Required for update."},` +
				`"base":{"type":"string","description":"For create: the branch to merge into (default: the repository's default branch)."},` +
				`"message":{"type":"string","description":"The commit's message (default: the title)."},` +
				`"files":{"type":"array","items":{"type":"object","properties":{` +
				`"path":{"type":"string","description":"Path in the repository."},` +
				`"content":{"type":"string","description":"The whole new content."},` +
				`"source":{"type":"string","description":"A file in your workspace with the new content, instead of content."},` +
				`"delete":{"type":"boolean","description":"Remove the file."},` +
				`"executable":{"type":"boolean"}},"required":["path"]}}` +
				`},"required":["action","files"]}`),
		},
		run: taking(func(ctx context.Context, at target, args pullArguments, call tool.Call) (string, error) {
			entries, err := treeOf(args.Files, call.Place.Dir)
			if err != nil {
				return "", err
			}
			args.Branch = strings.TrimPrefix(args.Branch, branchPrefix)
			if args.Branch == "" && args.Action == "create" {
				args.Branch = fmt.Sprintf("%d-%s", at.Number, callKey(call)[:8])
			}
			if !branchName.MatchString(args.Branch) || strings.Contains(args.Branch, "..") || strings.HasSuffix(args.Branch, ".lock") {
				return "", fault.New(fault.Invalid, "the branch's name is refused: use letters, digits, -, _ and /")
			}
			args.Branch = branchPrefix + args.Branch
			switch args.Action {
			case "create":
				return a.openPull(ctx, at, args, entries, call)
			case "update":
				return a.updatePull(ctx, at, args, entries, call)
			}
			return "", fault.New(fault.Invalid, "%q is nothing this tool does; see its schema", args.Action)
		}),
	}
}

// treeOf makes a commit's changes; files of the workspace are read from the office's own part of it.
func treeOf(files []fileChange, dir string) ([]*sdk.TreeEntry, error) {
	if len(files) == 0 || len(files) > maxFiles {
		return nil, fault.New(fault.Invalid, "a commit has 1 to %d files", maxFiles)
	}
	entries := make([]*sdk.TreeEntry, 0, len(files))
	for _, f := range files {
		if f.Path == "" || path.Clean(f.Path) != f.Path || path.IsAbs(f.Path) || strings.HasPrefix(f.Path, "../") || f.Path == ".." || strings.HasPrefix(f.Path, ".git/") {
			return nil, fault.New(fault.Invalid, "%.100q is no path in a repository", f.Path)
		}
		mode, kind := "100644", "blob"
		if f.Executable {
			mode = "100755"
		}
		entry := &sdk.TreeEntry{Path: &f.Path, Mode: &mode, Type: &kind}
		switch {
		case f.Delete:
		case f.Content != nil:
			entry.Content = f.Content
		case f.Source != "":
			content, err := workspaceFile(dir, f.Source)
			if err != nil {
				return nil, err
			}
			entry.Content = &content
		default:
			return nil, fault.New(fault.Invalid, "%.100q has neither content nor source", f.Path)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func workspaceFile(dir, called string) (string, error) {
	opened, err := workfile.Open(dir)
	if err != nil {
		return "", fault.New(fault.Unavailable, "the workspace cannot be read")
	}
	defer func() { _ = opened.Close() }()
	name, err := opened.Name(called)
	if err != nil {
		return "", fault.New(fault.Invalid, "%.100q is not in the workspace", called)
	}
	content, err := opened.ReadAll(name, maxFileSize)
	switch {
	case err != nil:
		return "", fault.New(fault.Invalid, "%.100q cannot be read: it is missing, no file, or larger than 1 MiB", called)
	case !utf8.Valid(content):
		return "", fault.New(fault.Invalid, "%.100q is no text", called)
	}
	return string(content), nil
}

// head is the commit of a branch; not_found when there is none.
func (a *Adapter) head(ctx context.Context, at target, branch string) (sha string, err error) {
	err = a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) error {
		ref, _, err := a.api.Git.GetRef(ctx, at.Owner, at.Repo, "heads/"+branch)
		sha = ref.GetObject().GetSHA()
		return err
	})
	return sha, err
}

// commit makes a commit on top of another, and no branch moves yet.
func (a *Adapter) commit(ctx context.Context, at target, parent, message string, entries []*sdk.TreeEntry) (sha string, err error) {
	err = a.call(ctx, "tool_write", writing, rate.Final, func(ctx context.Context) error {
		tree, _, err := a.api.Git.CreateTree(ctx, at.Owner, at.Repo, parent, entries)
		if err != nil {
			return err
		}
		c, _, err := a.api.Git.CreateCommit(ctx, at.Owner, at.Repo, &sdk.Commit{
			Message: &message, Tree: &sdk.Tree{SHA: tree.SHA}, Parents: []*sdk.Commit{{SHA: &parent}},
		}, nil)
		sha = c.GetSHA()
		return err
	})
	return sha, err
}

// trailer ends the message of a call's commit, so that the same call is known again.
func trailer(call tool.Call) string { return "\n\nMikan-Call: " + callKey(call) }

// done tells whether a branch's newest commit is this very call's.
func (a *Adapter) done(ctx context.Context, at target, sha string, call tool.Call) (is bool, err error) {
	err = a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) error {
		c, _, err := a.api.Git.GetCommit(ctx, at.Owner, at.Repo, sha)
		is = strings.HasSuffix(strings.TrimSpace(c.GetMessage()), strings.TrimSpace(trailer(call)))
		return err
	})
	return is, err
}

func (a *Adapter) openPull(ctx context.Context, at target, args pullArguments, entries []*sdk.TreeEntry, call tool.Call) (string, error) {
	if strings.TrimSpace(args.Title) == "" {
		return "", fault.New(fault.Invalid, "a pull request needs a title")
	}
	body, err := a.textFor(ctx, args.Body, call)
	if err != nil {
		return "", err
	}
	if args.Base == "" {
		if args.Base, err = a.defaultBranch(ctx, at); err != nil {
			return "", err
		}
	}
	if err := a.branch(ctx, at, args, entries, call); err != nil {
		return "", err
	}
	if n, found, err := a.openedPull(ctx, at, args.Branch); err != nil || found {
		return fmt.Sprintf("Opened #%d from %s.", n, args.Branch), err
	}
	var p *sdk.PullRequest
	err = a.call(ctx, "tool_write", writing, rate.Final, func(ctx context.Context) (err error) {
		p, _, err = a.api.PullRequests.Create(ctx, at.Owner, at.Repo, &sdk.NewPullRequest{Title: &args.Title, Head: &args.Branch, Base: &args.Base, Body: &body})
		return err
	})
	if fault.CodeOf(err) == fault.Unavailable {
		if n, found, again := a.openedPull(ctx, at, args.Branch); again == nil && found {
			return fmt.Sprintf("Opened #%d from %s.", n, args.Branch), nil
		}
	}
	return fmt.Sprintf("Opened #%d from %s.", p.GetNumber(), args.Branch), err
}

func (a *Adapter) defaultBranch(ctx context.Context, at target) (name string, err error) {
	err = a.call(ctx, "tool_read", reading, rate.Final, func(ctx context.Context) error {
		r, _, err := a.api.Repositories.Get(ctx, at.Owner, at.Repo)
		name = r.GetDefaultBranch()
		return err
	})
	return name, err
}

// branch makes the branch with the commit. One that exists is this very call's, or refused.
func (a *Adapter) branch(ctx context.Context, at target, args pullArguments, entries []*sdk.TreeEntry, call tool.Call) error {
	existing, err := a.head(ctx, at, args.Branch)
	if err == nil {
		own, err := a.done(ctx, at, existing, call)
		if err == nil && !own {
			return fault.New(fault.Conflict, "the branch %s exists already; choose another name, or update it", args.Branch)
		}
		return err
	}
	if fault.CodeOf(err) != fault.NotFound {
		return err
	}
	base, err := a.head(ctx, at, args.Base)
	if err != nil {
		return err
	}
	if args.Message == "" {
		args.Message = args.Title
	}
	sha, err := a.commit(ctx, at, base, args.Message+trailer(call), entries)
	if err != nil {
		return err
	}
	name := "refs/heads/" + args.Branch
	err = a.call(ctx, "tool_write", writing, rate.Final, func(ctx context.Context) error {
		_, _, err := a.api.Git.CreateRef(ctx, at.Owner, at.Repo, &sdk.Reference{Ref: &name, Object: &sdk.GitObject{SHA: &sha}})
		return err
	})
	if fault.CodeOf(err) == fault.Unavailable {
		if now, again := a.head(ctx, at, args.Branch); again == nil && now == sha {
			return nil
		}
	}
	return err
}

func (a *Adapter) openedPull(ctx context.Context, at target, branch string) (number int, found bool, err error) {
	err = a.call(ctx, "find", reading, rate.Final, func(ctx context.Context) error {
		some, _, err := a.api.PullRequests.List(ctx, at.Owner, at.Repo, &sdk.PullRequestListOptions{State: "all", Head: at.Owner + ":" + branch})
		if len(some) > 0 {
			number, found = some[0].GetNumber(), true
		}
		return err
	})
	return number, found, err
}

// updatePull adds a commit to one of mikan's branches. A branch that moved meanwhile is not forced.
func (a *Adapter) updatePull(ctx context.Context, at target, args pullArguments, entries []*sdk.TreeEntry, call tool.Call) (string, error) {
	parent, err := a.head(ctx, at, args.Branch)
	if fault.CodeOf(err) == fault.NotFound {
		return "", fault.New(fault.NotFound, "there is no branch %s", args.Branch)
	}
	if err != nil {
		return "", err
	}
	said := "Added the commit to " + args.Branch + "."
	if own, err := a.done(ctx, at, parent, call); err != nil || own {
		return said, err
	}
	if args.Message == "" {
		args.Message = "Update"
	}
	sha, err := a.commit(ctx, at, parent, args.Message+trailer(call), entries)
	if err != nil {
		return "", err
	}
	name := "refs/heads/" + args.Branch
	err = a.call(ctx, "tool_write", writing, rate.Final, func(ctx context.Context) error {
		_, _, err := a.api.Git.UpdateRef(ctx, at.Owner, at.Repo, &sdk.Reference{Ref: &name, Object: &sdk.GitObject{SHA: &sha}}, false)
		return err
	})
	if fault.CodeOf(err) == fault.Unavailable {
		if now, again := a.head(ctx, at, args.Branch); again == nil && now == sha {
			return said, nil
		}
	}
	return said, err
}
