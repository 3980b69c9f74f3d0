package markdown

import (
	"bytes"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// What is read as markup is bounded. Some texts cost a parser the square of their length, and no answer that was
// written for people comes near these figures; beyond them a mark is text.
const (
	openAtMost       = 32       // blocks within each other: quotes, lists and items
	delimitersAtMost = 1000     // "*", "_" and "~" in one paragraph
	bracketsAtMost   = 200      // "[" in one paragraph
	backticksAtMost  = 64       // in one mark of a code span
	definitionsSize  = 16 << 10 // bytes of a paragraph that is searched for definitions of links
	barsAtMost       = 400      // "|" in a line of a table; with more it is none
	addressAtMost    = 2000     // bytes of a link's address; a longer one is text
	columnsAtMost    = 64       // of a table; a wider one becomes lines of text
)

var parsers = [...]parser.Parser{lenient: newParser(lenient), strict: newParser(strict)}

// newParser makes a parser of GitHub Flavored Markdown that knows no HTML: tags are text.
func newParser(f flavour) parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(bounded{parser.NewListParser()}, 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(bounded{parser.NewBlockquoteParser()}, 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(boxes{extension.NewTaskCheckBoxParser()}, 0),
			util.Prioritized(spans{parser.NewCodeSpanParser()}, 100),
			util.Prioritized(newBrackets(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(marks{f}, 500),
			util.Prioritized(extension.NewLinkifyParser(), 999),
		),
		parser.WithParagraphTransformers(
			util.Prioritized(definitions{}, 100),
			util.Prioritized(tables{extension.NewTableParagraphTransformer()}, 200),
		),
	)
}

// bounded keeps blocks from nesting without end.
type bounded struct{ parser.BlockParser }

func (p bounded) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if len(pc.OpenedBlocks()) >= openAtMost {
		return nil, parser.NoChildren
	}
	return p.BlockParser.Open(parent, r, pc)
}

// definitions reads "[label]: address" at the beginning of paragraphs of a sane length.
type definitions struct{}

func (definitions) Transform(node *ast.Paragraph, r text.Reader, pc parser.Context) {
	lines := node.Lines()
	if n := lines.Len(); n == 0 || lines.At(n-1).Stop-lines.At(0).Start > definitionsSize {
		return
	}
	parser.LinkReferenceParagraphTransformer.Transform(node, r, pc)
}

// tables reads tables of a sane width.
type tables struct{ parser.ParagraphTransformer }

func (t tables) Transform(node *ast.Paragraph, r text.Reader, pc parser.Context) {
	for i := range node.Lines().Len() {
		line := node.Lines().At(i)
		if line.Len() > barsAtMost && bytes.Count(line.Value(r.Source()), []byte("|")) > barsAtMost {
			return
		}
	}
	t.ParagraphTransformer.Transform(node, r, pc)
}

// spans reads code spans whose marks are of a sane length.
type spans struct{ parser.InlineParser }

func (p spans) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, segment := block.PeekLine()
	n := 0
	for n < len(line) && line[n] == '`' {
		n++
	}
	if n > backticksAtMost {
		block.Advance(n)
		return ast.NewTextSegment(segment.WithStop(segment.Start + n))
	}
	return p.InlineParser.Parse(parent, block, pc)
}

// boxes reads the box of a task, which has a space behind it: "[x](address)" is a link.
type boxes struct{ parser.InlineParser }

func (p boxes) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if line, _ := block.PeekLine(); len(line) > 3 && !util.IsSpace(line[3]) {
		return nil
	}
	return p.InlineParser.Parse(parent, block, pc)
}

// counted is how often a parser has acted in the current paragraph.
type counted struct {
	parent ast.Node
	n      int
}

// within tells whether one more in this paragraph is within a limit.
func within(pc parser.Context, key parser.ContextKey, parent ast.Node, limit int) bool {
	c, _ := pc.Get(key).(*counted)
	if c == nil {
		c = &counted{}
		pc.Set(key, c)
	}
	if c.parent != parent {
		c.parent, c.n = parent, 0
	}
	c.n++
	return c.n <= limit
}

var bracketKey, markKey = parser.NewContextKey(), parser.NewContextKey()

// brackets reads links and images.
type brackets struct {
	parser.InlineParser
	closer parser.CloseBlocker
}

func newBrackets() brackets {
	p := parser.NewLinkParser()
	return brackets{p, p.(parser.CloseBlocker)}
}

func (p brackets) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, _ := block.PeekLine()
	opens := line[0] == '[' || line[0] == '!' && len(line) > 1 && line[1] == '['
	if opens && !within(pc, bracketKey, parent, bracketsAtMost) {
		return nil
	}
	return p.InlineParser.Parse(parent, block, pc)
}

// CloseBlock turns brackets that were not closed into text.
func (p brackets) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	p.closer.CloseBlock(parent, block, pc)
}

// marks reads emphasis and strikethrough.
type marks struct{ flavour }

func (marks) Trigger() []byte { return []byte{'*', '_', '~'} }

func (p marks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	mark, n := line[0], 1
	for n < len(line) && line[n] == mark {
		n++
	}
	if mark == '~' && (n > 2 || before == '~') || !within(pc, markKey, parent, delimitersAtMost) {
		return nil
	}
	after := ' '
	if n < len(line) {
		after, _ = utf8.DecodeRune(line[n:])
	}
	opens, closes := flanking(mark, before, after, p.flavour)
	var matched parser.DelimiterProcessor = emphasised{}
	if mark == '~' {
		matched = struck{}
	}
	d := parser.NewDelimiter(opens, closes, n, mark, matched)
	d.Segment = segment.WithStop(segment.Start + n)
	block.Advance(n)
	pc.PushDelimiter(d)
	return d
}

// emphasised makes nodes of matched stars and underscores.
type emphasised struct{}

func (emphasised) IsDelimiter(b byte) bool { return b == '*' || b == '_' }

func (emphasised) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (emphasised) OnMatch(consumed int) ast.Node { return ast.NewEmphasis(consumed) }

// struck makes nodes of matched tildes, which match only as many of them.
type struck struct{}

func (struck) IsDelimiter(b byte) bool { return b == '~' }

func (struck) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char && opener.OriginalLength == closer.OriginalLength
}

func (struck) OnMatch(int) ast.Node { return extast.NewStrikethrough() }
