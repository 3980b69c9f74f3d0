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
//
// and of one that is still growing, markdown.Slack(markdown.Draft(answer), o). What is read of HTML is "<br>"; the rest
// is text. Images are links: nothing is loaded from an address that a model wrote unless somebody follows it.
package markdown
