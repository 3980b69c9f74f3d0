package telegram_test

import (
	"os"
	"testing"

	"github.com/geminixiang/mikan/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Abreast("5")
	os.Exit(m.Run())
}
