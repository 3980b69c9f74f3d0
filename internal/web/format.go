package web

import (
	"fmt"
	"strconv"
	"time"
)

// number writes n in full, with separators.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// dollars writes millionths of a dollar exactly.
func dollars(micros int64) string { return fmt.Sprintf("$%d.%06d", micros/1e6, micros%1e6) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

func machine(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// count writes how many of something there are.
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return number(n) + " " + what
}
