// Package slacktest is a Slack of the tests' own: a server that speaks the Web API, Socket Mode and the HTTP Events API
// to the real SDK, and refuses whatever Slack would refuse.
//
// The table in methods.go says what may be called, how and how often, with the page of Slack's reference that says so.
// A call outside the table, an argument it does not name, a value beyond a limit, a missing scope, an envelope nobody
// sent, a rate above the documented one: each is refused with Slack's own error where Slack would refuse it, and each
// is kept as a Violation, so that a test can end with the demand that there are none.
//
// What is known only from observation is marked as such where it is applied: the life of a stream (five minutes), both
// recipients being needed for every stream, a deletion refused while streaming, Markdown's tables counting as tables.
//
// People are driven by operations (Say, Edit, Press, …) which exist once, as methods of Server, and are reachable by
// name over HTTP under /control/ when the server runs as a process (cmd/slackserver).
package slacktest
