package github

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

var reader = goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()

// mentions tells whether running text mentions an account. What is code, quoted, or part of an address mentions nobody:
// a quoted question was answered where it was asked.
func mentions(source, login string) bool {
	found := false
	walk(source, func(n ast.Node, src []byte) ast.WalkStatus {
		switch n := n.(type) {
		case *ast.CodeSpan, *ast.CodeBlock, *ast.FencedCodeBlock, *ast.Blockquote, *ast.HTMLBlock, *ast.RawHTML, *ast.AutoLink:
			return ast.WalkSkipChildren
		case *ast.Text:
			// Emphasis and the like cut a line into several nodes; what stands before and after decides.
			from, to := n.Segment.Start, n.Segment.Stop
			if mentionsIn(src, from, to, login) {
				found = true
				return ast.WalkStop
			}
		}
		return ast.WalkContinue
	})
	return found
}

func walk(source string, visit func(ast.Node, []byte) ast.WalkStatus) {
	src := []byte(source)
	_ = ast.Walk(reader.Parse(text.NewReader(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		return visit(n, src), nil
	})
}

func mentionsIn(src []byte, from, to int, login string) bool {
	for at := from; at < to; at++ {
		if src[at] != '@' || at > 0 && inName(src[at-1]) {
			continue
		}
		end := at + 1 + len(login)
		if end > len(src) || !strings.EqualFold(string(src[at+1:end]), login) {
			continue
		}
		if end == len(src) || !inLogin(src[end]) && src[end] != '/' {
			return true
		}
	}
	return false
}

// inLogin holds for what a login is made of; inName also for what an address or a path may have before an @.
func inLogin(b byte) bool {
	return b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_'
}

func inName(b byte) bool { return inLogin(b) || b == '.' || b == '/' || b == '`' }

// withoutOwn drops mikan's own mention from the beginning of a text, so that "@mikan stop" is "stop". A text of nothing
// else is kept: an empty mention is a question about the conversation.
func withoutOwn(source, login string) string {
	trimmed := strings.TrimSpace(source)
	if len(trimmed) <= len(login) || trimmed[0] != '@' || !mentionsIn([]byte(trimmed), 0, 1, login) {
		return source
	}
	rest := strings.TrimLeft(trimmed[1+len(login):], " \t\r\n,:")
	if rest == "" {
		return source
	}
	return rest
}

var htmlImage = regexp.MustCompile(`(?i)<img\s[^>]*?\bsrc\s*=\s*"([^"]+)"`)

// pictures lists the addresses of images in a text, and of files that were dropped into it.
func pictures(source string) []string {
	var all []string
	add := func(raw string) {
		if u, err := url.Parse(raw); err == nil && u.Host != "" {
			all = append(all, raw)
		}
	}
	walk(source, func(n ast.Node, src []byte) ast.WalkStatus {
		switch n := n.(type) {
		case *ast.Image:
			add(string(n.Destination))
		case *ast.Link:
			if strings.Contains(string(n.Destination), "/user-attachments/files/") {
				add(string(n.Destination))
			}
		case *ast.HTMLBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				for _, m := range htmlImage.FindAllStringSubmatch(string(line.Value(src)), -1) {
					add(m[1])
				}
			}
		case *ast.RawHTML:
			for i := range n.Segments.Len() {
				segment := n.Segments.At(i)
				for _, m := range htmlImage.FindAllStringSubmatch(string(segment.Value(src)), -1) {
					add(m[1])
				}
			}
		}
		return ast.WalkContinue
	})
	return all
}
