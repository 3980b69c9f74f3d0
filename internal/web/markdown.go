package web

import (
	"bytes"
	"html/template"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"github.com/geminixiang/mikan/internal/text"
)

// markdown knows no HTML: tags in a text are text. Nor does it know link references, whose definitions would be hidden,
// and headings and images stay out of the page's own: a heading is a bold line, an image a link to it.
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
		),
	)),
	goldmark.WithExtensions(
		// The policy forbids style attributes.
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)),
		extension.Strikethrough,
		extension.NewLinkify(extension.WithLinkifyAllowedProtocols([][]byte{[]byte("http:"), []byte("https:")})),
	),
	goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(plainNodes{}, 1))),
)

// What is rendered is bounded: some texts cost the square of their length, and a page holds many. Beyond the bounds a
// text is shown as it is.
const (
	nestedAtMost   = 40      // marks at the beginning of a line: quotes and lists in each other
	bracketsAtMost = 400     // "[" in a text
	marksAtMost    = 4000    // "*", "_", "~" and "`" in a text
	pageMarkdown   = 400_000 // bytes on one page
)

// answers renders the models' answers of one page.
type answers struct{ left int }

// rendered makes an answer what its readers would see in a chat; empty when it had better be shown as it is.
func (a *answers) rendered(source string) template.HTML {
	marks := 0
	for _, mark := range []string{"*", "_", "~", "`"} {
		marks += strings.Count(source, mark)
	}
	if len(source) > a.left || marks > marksAtMost || strings.Count(source, "[") > bracketsAtMost {
		return ""
	}
	for line := range strings.Lines(source) {
		if len(line)-len(strings.TrimLeft(line, " \t>*+-0123456789.)[]!_~`|")) > nestedAtMost {
			return ""
		}
	}
	a.left -= len(source)
	var b bytes.Buffer
	if err := markdown.Convert([]byte(text.Visible(source)), &b); err != nil {
		return ""
	}
	// Once more, because "&#x202e;" has become a character only now. No tag holds any that this changes.
	return template.HTML(text.Visible(b.String())) //nolint:gosec // what a text can become is above and in plainNodes
}

// plainNodes renders what must not be as in a document of its own.
type plainNodes struct{}

func (p plainNodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindLink, p.link)
	r.Register(ast.KindImage, p.image)
	r.Register(ast.KindAutoLink, p.autoLink)
	r.Register(ast.KindHeading, p.heading)
	r.Register(ast.KindFencedCodeBlock, p.code)
	r.Register(ast.KindCodeBlock, p.code)
}

// reachable tells whether a reader may be sent to an address.
func reachable(address []byte) bool {
	u, err := url.Parse(string(address))
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func openLink(w util.BufWriter, address []byte) {
	_, _ = w.WriteString(`<a rel="noopener noreferrer nofollow ugc" href="`)
	_, _ = w.Write(util.EscapeHTML(util.URLEscape(address, false)))
	_, _ = w.WriteString(`">`)
}

func (plainNodes) link(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	return wrap(w, n.(*ast.Link).Destination, entering)
}

func (plainNodes) image(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("🖼 ")
	}
	return wrap(w, n.(*ast.Image).Destination, entering)
}

// wrap makes what is between a link, or, where it may not lead, tells the address behind it.
func wrap(w util.BufWriter, address []byte, entering bool) (ast.WalkStatus, error) {
	switch {
	case reachable(address) && entering:
		openLink(w, address)
	case reachable(address):
		_, _ = w.WriteString("</a>")
	case !entering:
		_, _ = w.WriteString(" (")
		_, _ = w.Write(util.EscapeHTML(address))
		_, _ = w.WriteString(")")
	}
	return ast.WalkContinue, nil
}

func (plainNodes) autoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	link := n.(*ast.AutoLink)
	if address := link.URL(source); link.AutoLinkType == ast.AutoLinkURL && reachable(address) {
		openLink(w, address)
		_, _ = w.Write(util.EscapeHTML(link.Label(source)))
		_, _ = w.WriteString("</a>")
		return ast.WalkContinue, nil
	}
	_, _ = w.Write(util.EscapeHTML(link.Label(source)))
	return ast.WalkContinue, nil
}

func (plainNodes) heading(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<p><strong>`)
	} else {
		_, _ = w.WriteString("</strong></p>\n")
	}
	return ast.WalkContinue, nil
}

func (plainNodes) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, _ = w.WriteString("</code></pre>\n")
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString("<pre><code>")
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		_, _ = w.Write(util.EscapeHTML(line.Value(source)))
	}
	return ast.WalkContinue, nil
}
