package e2e

import (
	"testing"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

// world is an installation with what these tests do to it.
type world struct{ *e2etest.World }

func newWorld(t testing.TB, script llmtest.Script) *world  { return &world{e2etest.New(t, script)} }
func bareWorld(t testing.TB, script llmtest.Script) *world { return &world{e2etest.Bare(t, script)} }
func devWorld(t testing.TB, script llmtest.Script) *world  { return &world{e2etest.Dev(t, script)} }
