// Package e2e drives the built programs as their users do: real processes, a real Postgres and Temporal, a scripted
// model server behind the real SDKs, and every way to die. It holds tests only.
//
// MIKAN_KILLS sets how many random kills the kill tests make (default 8), MIKAN_FREEZE=all freezes a worker at every place
// instead of some, MIKAN_SEED repeats the moments of an earlier run, and MIKAN_KEEP keeps the directory with every
// process's log.
package e2e
