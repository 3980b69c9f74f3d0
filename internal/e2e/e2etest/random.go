package e2etest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Moments is the source of random moments. Its seed is printed, and MIKAN_SEED repeats it.
func Moments(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("MIKAN_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("MIKAN_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
