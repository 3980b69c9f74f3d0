// Package githubtest is a GitHub of the tests' own: a server that speaks the REST API (v3) to the real SDK, sends signed
// webhooks, and refuses whatever GitHub would refuse.
//
// The table in routes.go says what may be called, with which permission of a fine-grained token, which query and which
// body, with the page of GitHub's reference that says so. A call outside the table, a parameter it does not name, a body
// that GitHub would answer with 422, a missing permission, a rate above the documented one: each is refused with GitHub's
// own status and shape, and what a correct client would never do is kept as a Violation, so that a test can end with the
// demand that there are none.
//
// People are driven by operations (OpenIssue, Comment, Review, …), methods of Server, which are reachable by name over
// HTTP under /control/ when the server runs as a process (cmd/githubserver). Every operation sends its webhooks before it
// returns; GitHub gives up on a webhook after ten seconds and never sends it again by itself.
package githubtest
